#!/usr/bin/env python3
"""Lists the numbered checks of docs/checks.md that a test names, and those that none names.

Usage: scripts/check_numbers.py [--summary] [--root FOLDER]

A test names checks in a comment: "// check: PF-3, XO-12", or "# check: ..." in Python, shell, CMake and .case
files, "-- check: ..." in SQL. A number without a test may stand in docs/limits.md, on a line with the reason.
Exit status: 0; 1 when a test or docs/limits.md names a number that docs/checks.md does not list, or a check is
listed twice.
"""

import argparse
import pathlib
import re
import sys

FOLDERS = ("src", "tests", "bench", "scripts")
SUFFIXES = {".cc", ".h", ".py", ".sh", ".case", ".sql", ".cmake", ""}
SIZE_BYTES_MAX = 4 << 20

NUMBER = r"[A-Z]+-\d+"
ROW = re.compile(rf"^\|\s*({NUMBER})(?:\s*(?:…|\.\.)\s*(?:[A-Z]+-)?(\d+))?\s*\|\s*(.*?)\s*\|")
NAMED = re.compile(rf"(?://|#|--|\*)\s.*?\bcheck:\s*({NUMBER}(?:\s*,\s*{NUMBER})*)")
IN_TEXT = re.compile(rf"\b((?:PF|XO|UX|DATA|ICE|PAI)-\d+)(?:\s*(?:…|\.\.)\s*(?:[A-Z]+-)?(\d+))?")


def expand(first, last):
    """PF-3 and 5 → PF-3, PF-4, PF-5; PF-3 and None → PF-3."""
    family, number = first.rsplit("-", 1)
    return [f"{family}-{n}" for n in range(int(number), int(last or number) + 1)]


def read_checks(path):
    """Returns {number: title} of the tables, and the numbers that stand twice."""
    titles, twice = {}, []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = ROW.match(line)
        if not row:
            continue
        for number in expand(row.group(1), row.group(2)):
            if number in titles:
                twice.append(number)
            titles[number] = row.group(3)
    return titles, twice


def read_limits(path):
    """Returns {number: reason} of the lines that name numbers."""
    reasons = {}
    if not path.exists():
        return reasons
    for line in path.read_text(encoding="utf-8").splitlines():
        found = IN_TEXT.findall(line)
        if not found:
            continue
        reason = IN_TEXT.sub("", line).strip(" |-*,:…()")
        for first, last in found:
            for number in expand(first, last):
                reasons[number] = reason
    return reasons


def read_tests(root):
    """Returns {number: ["path:line", …]} of the comments that name checks."""
    places = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file() or path.suffix not in SUFFIXES or path.name == "check_numbers.py":
                continue
            if path.stat().st_size > SIZE_BYTES_MAX:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            for line_number, line in enumerate(text.splitlines(), 1):
                named = NAMED.search(line)
                if not named:
                    continue
                for number in re.findall(NUMBER, named.group(1)):
                    places.setdefault(number, []).append(f"{path.relative_to(root)}:{line_number}")
    return places


def order(number):
    family, n = number.rsplit("-", 1)
    return ["PF", "XO", "UX", "DATA", "ICE", "PAI"].index(family) if family in (
        "PF", "XO", "UX", "DATA", "ICE", "PAI") else 99, int(n)


def in_ranges(numbers, key):
    """Groups neighbouring numbers of one family that `key` maps to the same: [(first, last), …]."""
    ranges = []
    for number in numbers:
        family, n = number.rsplit("-", 1)
        if ranges:
            last_family, last_n = ranges[-1][1].rsplit("-", 1)
            if family == last_family and int(n) == int(last_n) + 1 and key(number) == key(ranges[-1][1]):
                ranges[-1] = (ranges[-1][0], number)
                continue
        ranges.append((number, number))
    return ranges


def print_lists(titles, reasons, places):
    proven = sorted((n for n in titles if n in places), key=order)
    missing = sorted((n for n in titles if n not in places), key=order)
    print(f"With a test: {len(proven)}")
    for number in proven:
        print(f"  {number:9} {titles[number]}")
        print(f"            {', '.join(places[number])}")
    print(f"\nWithout a test: {len(missing)}")
    for first, last in in_ranges(missing, lambda number: (titles[number], reasons.get(number))):
        reason = f"  [docs/limits.md: {reasons[first]}]" if first in reasons else ""
        shown = first if first == last else f"{first}…{last.rsplit('-', 1)[1]}"
        print(f"  {shown:9} {titles[first]}{reason}")
    print()


def print_summary(titles, reasons, places):
    families = sorted({n.rsplit("-", 1)[0] for n in titles}, key=lambda family: order(f"{family}-0"))
    for family in families:
        numbers = [n for n in titles if n.rsplit("-", 1)[0] == family]
        proven = sum(n in places for n in numbers)
        excused = sum(n not in places and n in reasons for n in numbers)
        print(f"{family:5} {len(numbers):4} checks, {proven:4} with a test, {excused:4} in docs/limits.md, "
              f"{len(numbers) - proven - excused:4} open")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--summary", action="store_true", help="counts only")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()

    titles, twice = read_checks(options.root / "docs" / "checks.md")
    reasons = read_limits(options.root / "docs" / "limits.md")
    places = read_tests(options.root)

    if not options.summary:
        print_lists(titles, reasons, places)
    print_summary(titles, reasons, places)

    mistakes = [f"docs/checks.md: listed twice: {number}" for number in twice]
    for number, where in sorted(places.items()):
        if number not in titles:
            mistakes.append(f"{where[0]}: no such check: {number}")
    for number, reason in sorted(reasons.items()):
        if number not in titles:
            mistakes.append(f"docs/limits.md: no such check: {number}")
        elif not reason:
            mistakes.append(f"docs/limits.md: no reason stands beside {number}")
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(141)
