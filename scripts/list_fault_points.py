"""list_fault_points.py SOURCE_DIR OUT   writes every PF_FAULT name of the product as a C++ initialiser list, sorted.

OUT is only touched when the list changes, so that an unchanged list rebuilds nothing.
"""
import os
import re
import sys

from generated_file import write_if_changed

source, out = sys.argv[1:3]
points = set()
for folder, _, names in os.walk(os.path.join(source, "src")):
    if os.sep + "testing" in folder:
        continue
    for name in names:
        if name.endswith((".cc", ".h")) and not name.endswith("_test.cc"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                points.update(re.findall(r'PF_FAULT\(\s*[\w.]+,\s*"([^"]+)"\)', f.read()))
points = {p for p in points if p != "room.done_verb"}
text = "".join(f'"{p}",\n' for p in sorted(points))
write_if_changed(out, text)
