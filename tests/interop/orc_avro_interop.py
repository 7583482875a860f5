#!/usr/bin/env python3
"""Reads what orc_avro_interop_write wrote with the Java references of ORC and Avro, fastavro and the engine, and compares
ids, rows and ORC's statistics with those of a Parquet file that DuckDB reads.

  orc_avro_interop.py WRITER

Ends with 77 (skipped) and says so when what `scripts/setup --with-interop` installs is absent. PARTFORGE_INTEROP_PYTHON
names the interpreter that has the Python packages.
"""
import decimal
import json
import os
import subprocess
import sys
import tempfile

import checking

checking.use_interpreter()
try:
    import duckdb
    import fastavro
except ImportError as missing:
    checking.skip(missing)

import engine_reader
import java_reader
from checking import check
from plain_rows import first_difference, plain_row

checking.need_java_and_engine()
ORC = ("none", "zlib", "snappy", "lz4", "zstd")
AVRO = ("null", "deflate", "snappy", "zstandard")
NAMES = ("i", "n", "d", "b", "s", "y", "x", "w", "t", "e", "l", "r", "m")


def rows_of(records):
    """Rows as any reader gives them, in one form."""
    return [plain_row(record if isinstance(record, dict) else dict(zip(NAMES, record))) for record in records]


def same_rows(label, records, wanted):
    difference = first_difference(rows_of(records), wanted)
    check(label + ": rows", not difference, difference)


def ids_of_avro(schema, path="", found=None):
    found = {} if found is None else found
    if isinstance(schema, list):
        for branch in schema:
            ids_of_avro(branch, path, found)
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            name = (path + "." if path else "") + field["name"]
            found[name] = field.get("field-id")
            ids_of_avro(field["type"], name, found)
        if schema.get("type") == "array":
            if "element-id" in schema:
                found[path + ".element"] = schema["element-id"]
            ids_of_avro(schema["items"], path, found)
        if schema.get("type") == "map":
            found[path + ".key"], found[path + ".value"] = schema.get("key-id"), schema.get("value-id")
        if isinstance(schema.get("type"), (dict, list)) and "fields" not in schema:
            ids_of_avro(schema["type"], path, found)
    return found


def compare_statistics(label, columns, rows):
    """Of the top level, as Java reads them, with the rows: counts, and the least and greatest value."""
    order = {"s": lambda text: text.encode(), "x": decimal.Decimal, "w": decimal.Decimal}
    for name, said in columns.items():
        values = [row[name] for row in rows if row[name] is not None]
        check("%s, %s: counts" % (label, name), said["values"] == len(values) and said["has_null"] == (len(values) < len(rows)), said)
        if name == "b":
            check("%s, %s: true" % (label, name), said["true_count"] == sum(values), said)
        if name in "indsxwte" and values:
            key = order.get(name, lambda value: value)
            check("%s, %s: bounds" % (label, name), key(said["min"]) == min(map(key, values)) and key(said["max"]) == max(map(key, values)),
                  "%r, not %r and %r" % (said, min(map(key, values)), max(map(key, values))))


AVRO_IDS = {"i": 1, "n": 2, "d": 3, "b": 4, "s": 5, "y": 6, "x": 7, "w": 8, "t": 9, "e": 10, "l": 11, "r": 13, "m": 16,
            "r.p": 14, "r.q": 15, "l.element": 12, "m.key": 17, "m.value": 18}
ORC_NAMES = {"l.element": "l.0", "m.key": "m.0", "m.value": "m.1"}
ORC_IDS = {ORC_NAMES.get(name, name): number for name, number in AVRO_IDS.items()}

with tempfile.TemporaryDirectory() as out:
    subprocess.run([sys.argv[1], out], check=True)
    path = lambda name: os.path.join(out, name)
    wanted = rows_of(duckdb.sql(
        "select * exclude (file_row_number) from read_parquet('%s', file_row_number=true) order by file_row_number"
        % path("rows.parquet")).fetchall())
    check("the rows are there", len(wanted) == 1600)

    # check: DATA-24
    classes = os.path.join(out, "classes")
    os.mkdir(classes)
    lines = java_reader.read(classes, [path(c + ".orc") for c in ORC] + [path(c + ".avro") for c in AVRO])
    for codec in ORC:
        got = lines[path(codec + ".orc")]
        check("Java ORC, " + codec, got and got[0].startswith("SCHEMA "), got[:1])
        attributes = dict(item.rsplit("=", 1) for item in got[0].split()[1:] if "=" in item)
        ids = {name: int(attributes.get(name + ":iceberg.id", -1)) for name in ORC_IDS}
        check("Java ORC, %s: ids" % codec, ids == ORC_IDS, ids)
        check("Java ORC, %s: what is required" % codec, attributes.get("n:iceberg.required") == "true"
              and attributes.get("i:iceberg.required") == "false")
        same_rows("Java ORC, " + codec, map(json.loads, got[1:]), wanted)
    for name, said in java_reader.statistics(classes, [path(c + ".orc") for c in ORC]).items():
        check("Java ORC: statistics of %s: %s" % (name, said), not isinstance(said, str)
              and (len(said["stripes"]) > 1 or not name.endswith("none.orc")))
        compare_statistics(os.path.basename(name), said["file"], wanted)
        begin = 0
        for stripe in said["stripes"]:
            compare_statistics(os.path.basename(name), stripe["columns"], wanted[begin:begin + stripe["rows"]])
            begin += stripe["rows"]
        check("%s: rows of stripes" % name, begin == len(wanted))
    for codec in AVRO:
        got = lines[path(codec + ".avro")]
        check("Java Avro, " + codec, got and got[0].startswith("SCHEMA "), got[:1])
        ids = ids_of_avro(json.loads(got[0][len("SCHEMA "):]))
        check("Java Avro, %s: ids" % codec, {name: ids.get(name) for name in AVRO_IDS} == AVRO_IDS, ids)
        same_rows("Java Avro, " + codec, map(json.loads, got[1:]), wanted)
        with open(path(codec + ".avro"), "rb") as file:
            try:
                reader = fastavro.reader(file)
                records = list(reader)
            except ValueError as missing:  # a codec whose package is not there
                print("fastavro, %s: %s" % (codec, missing))
                continue
            ids = ids_of_avro(reader.writer_schema)
            check("fastavro, %s: ids" % codec, {name: ids.get(name) for name in AVRO_IDS} == AVRO_IDS, ids)
            same_rows("fastavro, " + codec, records, wanted)

    # The engine reads ORC by a library of its own line; text forms of dates are left to the others.
    query = ("SELECT toString(i), n, d, b, s, hex(y), toString(toDecimal64(x, 2)), toString(w), l, r.p, r.q, m FROM "
             "file('%s', ORC) SETTINGS max_threads=1, input_format_orc_dictionary_as_low_cardinality=0")
    answers = engine_reader.ask([query % path(codec + ".orc") for codec in ORC])
    for codec, rows in zip(ORC, answers):
        if isinstance(rows, str):
            check("the engine, ORC %s: %s" % (codec, rows), False)
            continue
        check("the engine, ORC %s: count" % codec, len(rows) == len(wanted))
        for row, want in zip(rows, wanted):
            same = (row[0] == (None if want["i"] is None else str(want["i"])) and row[1] == want["n"]
                    and row[2] == want["d"] and row[3] == want["b"] and row[4] == want["s"]
                    and (row[5] is None) == (want["y"] is None) and (row[5] or "").lower() == (want["y"] or "")
                    and (row[7] is None) == (want["w"] is None)
                    and (row[7] is None or decimal.Decimal(row[7]) == decimal.Decimal(want["w"]))
                    and row[8] == (want["l"] or []) and row[9] == (want["r"] or {}).get("p"))
            if not same:
                check("the engine, ORC %s: rows" % codec, False, "%r, not %r" % (row, want))
                break
checking.end("all readers agree")
