"""Every error code is raised somewhere in the source, has an explain text (base_test), and a test asserts that it comes, or
the last section of docs/limits.md says why not. Needs no program."""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ["PARTFORGE_SOURCE_DIR"])
EXCUSES = "## Codes that no test reaches"
# How tests assert a code: EXPECT_EQ(….pf_number, 2133), a matcher on its text, rig.refused(2133, …) of a real run.
# With(Code::kRefused, 2133) makes a Status, which asserts nothing.
ASSERTED_CC = (r"(?:[pP]f_?[nN]umber(?:\([^()]*\))?,\s*|\bNumber\((?:[^()]|\([^()]*\))*\),\s*|(?<!\bWith\()\bCode::k\w+,\s*"
               r"|\"[^\"\n]*\bPF)(\d{4})\b")
ASSERTED_PY = r"(?:\brefused?\(|\bPF)(\d{4})\b"


def is_test(path):
    return path.name.endswith("_test.cc") or path.parts[len(ROOT.parts)] == "tests"


def without_comments(path, text):
    if path.suffix == ".py":
        return re.sub(r'^\s*(?:""".*?"""|#.*?$)', "", text, flags=re.M | re.S)
    return re.sub(r"(?<![:\"])//.*", "", text)


# check: UX-4
def main():
    codes = [int(n) for n in re.findall(r"^PF_ERROR\((\d+),", (ROOT / "src/base/error_ids.def").read_text(encoding="utf-8"), re.M)]
    raised, asserted = set(), set()
    for path in sorted([*ROOT.glob("src/**/*"), *ROOT.glob("tests/**/*")]):
        if path.suffix not in (".cc", ".h", ".py") or path.name in ("error_codes.py", "rig.py") or "testing" in path.parts:
            continue
        text = without_comments(path, path.read_text(encoding="utf-8", errors="replace"))
        if not is_test(path):
            raised.update(int(n) for n in re.findall(r"(?<![\w.'])(\d{4})(?![\w'])", text))
            raised.update(int(n) for n in re.findall(r'"PF(\d{4}) \S', text))   # a note that begins with its code
        else:
            asserted.update(int(n) for n in re.findall(ASSERTED_PY if path.suffix == ".py" else ASSERTED_CC, text, re.S))
    limits = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    excuses = limits[limits.index(EXCUSES):]
    excused = {int(n) for row in re.findall(r"^\|([^|]*)\|", excuses, re.M) for n in re.findall(r"PF(\d{4})", row)}
    known = set(codes)
    faults = []
    for code in codes:
        if code not in raised and code not in excused:
            faults.append("PF%d is raised nowhere and not excused in docs/limits.md" % code)
        elif code not in asserted and code not in excused:
            faults.append("PF%d is asserted by no test and not excused in docs/limits.md" % code)
    for code in sorted({int(n) for n in re.findall(r"PF(\d{4})", limits)} - known):
        faults.append("docs/limits.md names PF%d, which does not exist" % code)
    for code in sorted(excused & asserted):
        faults.append("docs/limits.md excuses PF%d, which a test asserts" % code)
    for fault in faults:
        print(fault)
    print("%d codes, %d raised, %d asserted by tests, %d excused, %d faults"
          % (len(codes), len(known & raised), len(known & asserted), len(excused), len(faults)))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
