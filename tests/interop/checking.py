"""How the programs here begin and end: the interpreter that has the packages of others, what is skipped, what failed."""
import os
import sys

import engine_reader
import java_reader

SHOWN_MAX = 40   # a difference in one row is mostly one in all
failed = 0


def use_interpreter():
    """Goes on in the interpreter that PARTFORGE_INTEROP_PYTHON names, if it does: call it before packages are imported."""
    python = os.environ.get("PARTFORGE_INTEROP_PYTHON")
    if python and not os.environ.get("PARTFORGE_INTEROP_IN"):
        os.environ["PARTFORGE_INTEROP_IN"] = "1"
        os.execv(python, [python] + sys.argv)


def skip(why):
    """Ends with 77: what `scripts/setup --with-interop` installs is absent."""
    print("SKIPPED: %s: %s" % (os.path.basename(sys.argv[0]), why), file=sys.stderr)
    sys.exit(77)


def need_java_and_engine():
    if java_reader.lib() is None or engine_reader.library() is None:
        skip("the Java implementations or the engine are not installed")


def check(name, ok, detail=""):
    global failed
    if not ok:
        failed += 1
        if failed <= SHOWN_MAX:
            print("FAIL %s %s" % (name, detail))


def end(summary):
    print("FAILED: %d" % failed if failed else summary)
    sys.exit(1 if failed else 0)
