"""Rows of all readers in one form: that of java/Json.java. And the leaf values of rows, as Parquet counts them."""
import datetime
import decimal
import math
import uuid

EPOCH = datetime.datetime(1970, 1, 1)
REPEATED = ("list", "key_value", "array", "bag")   # levels of Parquet's lists and maps that hold no field


def plain(value, is_map=False):
    """A value as Python libraries give it: bytes as hex, decimals as text, times in microseconds, dates in days."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return (value - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, uuid.UUID):
        return value.bytes.hex()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return sorted([k, plain(v)] for k, v in value.items()) if is_map else {k: plain(v) for k, v in value.items()}
    if is_map and value is not None:
        return sorted([k, plain(v)] for k, v in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value, value) \
        if isinstance(value, str) else value


def plain_row(row, maps=("m",)):
    return {name: plain(value, name in maps) for name, value in row.items()}


def same(a, b):
    """Equal, NaN included; zeros of both signs are told apart."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b or (
        {type(a), type(b)} == {int, float} and a == b)


def first_difference(got, wanted):
    """Where two lists of rows differ, for people; empty when they do not."""
    if len(got) != len(wanted):
        return "%d rows, not %d" % (len(got), len(wanted))
    for i, (a, b) in enumerate(zip(got, wanted)):
        if a.keys() != b.keys():
            return "row %d: columns %s, not %s" % (i, sorted(a), sorted(b))
        for name in b:
            if not same(a[name], b[name]):
                return "row %d, %s: %r, not %r" % (i, name, a[name], b[name])
    return ""


def leaf_entries(row, path):
    """The entries of a leaf in a row, None for each place without a value: as many as the file has levels."""
    top, *inner = path.split(".")
    return entries(row[top], [part for part in inner if part not in REPEATED])


def entries(value, inner):
    if value is None or value == []:
        return [None]
    if not inner:
        return [value]
    if isinstance(value, dict):
        return entries(value[inner[0]], inner[1:])
    if inner[0] in ("key", "value"):
        value = [pair[0 if inner[0] == "key" else 1] for pair in value]
    return [entry for item in value for entry in entries(item, inner[1:])]
