"""Every error code is raised somewhere in the source, has an explain text (base_test), and a test names it, or
docs/limits.md says why not. Needs no program."""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ["PARTFORGE_SOURCE_DIR"])


def is_test(path):
    return path.name.endswith("_test.cc") or "testing" in path.parts or path.parts[len(ROOT.parts)] == "tests"


# check: UX-4
def main():
    codes = [int(n) for n in re.findall(r"^PF_ERROR\((\d+),", (ROOT / "src/base/error_ids.def").read_text(encoding="utf-8"), re.M)]
    raised, tested = set(), set()
    for path in sorted([*ROOT.glob("src/**/*"), *ROOT.glob("tests/**/*")]):
        if path.suffix not in (".cc", ".h", ".py") or path.name == "error_codes.py":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if not is_test(path):
            text = re.sub(r"//.*", "", text)   # a comment raises nothing
        numbers = {int(n) for n in re.findall(r"(?<![\w.'])(?:PF)?(\d{4})(?![\w'])", text)}
        (tested if is_test(path) else raised).update(numbers)
    excused = {int(n) for n in re.findall(r"PF(\d{4})", (ROOT / "docs/limits.md").read_text(encoding="utf-8"))}
    known = set(codes)
    faults = []
    for code in codes:
        if code not in raised and code not in excused:
            faults.append("PF%d is raised nowhere and not in docs/limits.md" % code)
        elif code not in tested and code not in excused:
            faults.append("PF%d is named by no test and not in docs/limits.md" % code)
    for code in sorted(excused - known):
        faults.append("docs/limits.md names PF%d, which does not exist" % code)
    for fault in faults:
        print(fault)
    print("%d codes, %d raised, %d named by tests, %d faults" % (len(codes), len(known & raised), len(known & tested), len(faults)))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
