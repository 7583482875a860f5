"""Statistics and page indexes of Parquet files, said by three: `partforge file inspect`, parquet-java, and the rows."""
import datetime
import decimal
import json
import math
import subprocess

import plain_rows

DAY = datetime.date(1970, 1, 1)
CODECS = {"UNCOMPRESSED": "none"}
ENCODINGS = {"RLE_DICTIONARY": "dictionary"}
CUT_BYTES = 16  # no writer cuts shorter bounds


def inspect(partforge, paths):
    """{path: document} as the command shows them."""
    done = subprocess.run([partforge, "file", "inspect", "--pages", "--details", "--json", "-q"] + paths, check=True,
                          stdout=subprocess.PIPE)
    return {document["file"]: document for document in json.loads(done.stdout)["files"]}


def as_shown(value, kind):
    """A value of java/Json.java as `file inspect` shows it in a column of that type."""
    if value is None:
        return None
    if kind == "date":
        return str(DAY + datetime.timedelta(days=value))
    if kind.startswith("timestamp("):
        digits = {"ms": 3, "us": 6, "ns": 9}[kind[10:12]]
        time = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
        fraction = ("%06d000" % time.microsecond)[:digits]
        return time.strftime("%Y-%m-%dT%H:%M:%S") + "." + fraction + ("Z" if kind.endswith("utc)") else "")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1 << 53:
        return str(value)
    if isinstance(value, str) and not kind.startswith("decimal(") and kind not in ("string", "enum", "json"):
        return "0x" + value
    return value


def shown_equal(a, b):
    # Readers widen zeros, so their sign says nothing.
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def order_of(kind):
    """What values of a leaf are compared by: text and bytes by their bytes, decimals by number."""
    if kind.startswith("decimal("):
        return decimal.Decimal
    return lambda value: value.encode() if isinstance(value, str) else value


def compare(label, document, java, rows, may_be_inexact, check):
    """`rows` in the form of plain_rows; the file holds exactly these. `may_be_inexact`: rows were left out by pages."""
    if isinstance(java, str):
        check("%s: parquet-java: %s" % (label, java), False)
        return
    check(label + ": rows", document["rows"] == java["rows"] == len(rows))
    check(label + ": row groups", len(document["row_groups"]) == len(java["groups"]))
    kinds = {column["path"]: column["type"] for column in document["columns"]}
    begin = 0
    for g, (ours, theirs) in enumerate(zip(document["row_groups"], java["groups"])):
        check("%s: rows of group %d" % (label, g), ours["rows"] == theirs["rows"])
        held = rows[begin:begin + ours["rows"]]
        begin += ours["rows"]
        for a, b in zip(ours["columns"], theirs["columns"]):
            Chunk("%s, group %d, %s" % (label, g, a["path"]), a, b, kinds[a["path"]], held, may_be_inexact, check).compare()


class Chunk:
    def __init__(self, label, ours, java, kind, rows, may_be_inexact, check):
        self.label, self.ours, self.java, self.kind, self.rows = label, ours, java, kind, rows
        self.may_be_inexact, self.report = may_be_inexact, check
        self.is_repeated = any(part in plain_rows.REPEATED for part in ours["path"].split(".")[1:])
        self.entries = [plain_rows.leaf_entries(row, ours["path"]) for row in rows]

    def check(self, what, ok, detail=""):
        self.report("%s: %s" % (self.label, what), ok, detail)

    def compare(self):
        a, b = self.ours, self.java
        self.check("path", a["path"] == b["path"])
        for key in ("values", "bytes", "raw_bytes", "has_dictionary"):
            self.check(key, a[key] == b[key], "%r, not %r" % (a[key], b[key]))
        self.check("codec", a["codec"] == CODECS.get(b["codec"], b["codec"].lower()))
        self.check("encodings", sorted(a["encodings"]) == sorted(
            {ENCODINGS.get(e, e.lower()) for e in b["encodings"]}), "%s, not %s" % (a["encodings"], b["encodings"]))
        # Of a required column none is written by some.
        self.check("null count", b["null_count"] is None or a["null_count"] == b["null_count"], "%r, not %r" % (a["null_count"], b["null_count"]))
        flat = [entry for row in self.entries for entry in row]
        self.check("values are counted", a["values"] == len(flat), "%d, not %d" % (a["values"], len(flat)))
        if a["null_count"] is not None:
            self.check("nulls are counted", a["null_count"] == flat.count(None), "%d, not %d" % (a["null_count"], flat.count(None)))
        if not self.is_repeated:  # metrics of lakes have no bounds of repeated columns
            for side in ("min", "max"):
                wanted = as_shown(b[side], self.kind)
                self.check(side, wanted is None or shown_equal(a[side], wanted), "%r, not %r" % (a[side], wanted))
        self.bounds("chunk", b["min"], b["max"], flat)
        self.pages()

    def pages(self):
        ours, places = self.ours.get("pages", []), self.java.get("pages", [])
        self.check("pages", len(ours) == len(places), "%d, not %d" % (len(ours), len(places)))
        for p, (page, place) in enumerate(zip(ours, places)):
            for key in ("offset", "bytes", "first_row"):
                self.check("page %d, %s" % (p, key), page[key] == place[key], "%r, not %r" % (page[key], place[key]))
            if "null_pages" not in self.java:
                continue
            flat = [entry for row in self.entries[page["first_row"]:page["first_row"] + page["rows"]] for entry in row]
            low, high = self.java["mins"][p], self.java["maxs"][p]
            self.check("page %d, null page" % p, page["is_null_page"] == self.java["null_pages"][p] == (flat.count(None) == len(flat)))
            if self.java["null_counts"]:
                self.check("page %d, nulls" % p, page["null_count"] == self.java["null_counts"][p] == flat.count(None),
                           "%r, %r, %d" % (page["null_count"], self.java["null_counts"][p], flat.count(None)))
            self.check("page %d, bounds" % p, page["is_null_page"] or (
                shown_equal(page["min"], as_shown(low, self.kind)) and shown_equal(page["max"], as_shown(high, self.kind))),
                "%r and %r, not %r and %r" % (page.get("min"), page.get("max"), low, high))
            self.bounds("page %d" % p, low, high, flat)
        if "order" in self.java:
            self.order()

    def order(self):
        key = order_of(self.kind)
        bounds = [(key(low), key(high)) for low, high in zip(self.java["mins"], self.java["maxs"]) if low is not None]
        pairs = list(zip(bounds, bounds[1:]))
        rises = all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairs)
        falls = all(a[0] >= b[0] and a[1] >= b[1] for a, b in pairs)
        said = self.java["order"]
        self.check("order of pages", said == "UNORDERED" or (said == "ASCENDING" and rises) or (said == "DESCENDING" and falls), said)

    def bounds(self, what, low, high, entries):
        """No value is outside; and they are the least and greatest values unless they were cut or rows left."""
        values = [entry for entry in entries if entry is not None and not (isinstance(entry, float) and math.isnan(entry))]
        if low is None or not values:
            return
        key = order_of(self.kind)
        least, most = min(map(key, values)), max(map(key, values))
        self.check(what + ": least", key(low) <= least, "%r above %r" % (low, least))
        self.check(what + ": greatest", key(high) >= most, "%r below %r" % (high, most))
        if self.may_be_inexact or (isinstance(least, bytes) and max(len(least), len(most)) >= CUT_BYTES):
            return
        self.check(what + ": bounds are values", key(low) == least and key(high) == most, "%r, %r, not %r, %r" % (low, high, least, most))
