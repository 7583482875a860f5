"""write_revision.py SOURCE_DIR OUT   writes the revision of the sources as a C++ string: a short commit id, "-changed" behind it
when files differ from that commit, "unknown" outside of a repository.

OUT is only touched when the revision changes, so that an unchanged one rebuilds nothing.
"""
import subprocess
import sys

from generated_file import write_if_changed

source, out = sys.argv[1:3]


def git(*words):
    try:
        return subprocess.run(["git", "-C", source, *words], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


revision = git("rev-parse", "--short=12", "HEAD") or "unknown"
if git("status", "--porcelain", "--untracked-files=no"):
    revision += "-changed"
text = '"%s"\n' % revision
write_if_changed(out, text)
