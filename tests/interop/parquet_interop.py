#!/usr/bin/env python3
"""Reads what parquet_interop_write wrote with DuckDB, pyarrow, the engine and parquet-java, row by row, and through
filters; compares statistics and page indexes, as parquet-java and `partforge file inspect` find them, with the rows.

  parquet_interop.py WRITER PARTFORGE

Ends with 77 (skipped) and says so when what `scripts/setup --with-interop` installs is absent. PARTFORGE_INTEROP_PYTHON
names the interpreter that has the Python packages.
"""
import json
import os
import subprocess
import sys
import tempfile

import checking

checking.use_interpreter()
try:
    import duckdb
    import pyarrow.parquet as parquet
except ImportError as missing:
    checking.skip(missing)

import engine_reader
import java_reader
import parquet_facts
from checking import check
from plain_rows import first_difference, plain_row

checking.need_java_and_engine()
NAMES = ("i", "n", "d", "b", "s", "u", "t", "x", "l", "r", "m", "h", "v")
FILES = ("in0", "in1", "in2", "copied", "stitched", "written", "filtered")


def plain_of(path):
    """The rows as pyarrow has them, in the form of plain_rows."""
    table = parquet.read_table(path, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
    return [plain_row(row) for row in table.to_pylist()]


def duck(path, where="true"):
    query = ("select * exclude (file_row_number) from read_parquet('%s', file_row_number=true) "
             "where %s order by file_row_number")
    return duckdb.sql(query % (path, where)).fetchall()


def kept_of(folder, inputs):
    with open(os.path.join(folder, "kept.txt")) as file:
        return [inputs[int(f)][int(r)] for f, r in (line.split() for line in file)]


def check_rows(folder, seed):
    path = lambda name: os.path.join(folder, name + ".parquet")
    inputs = [duck(path("in%d" % i)) for i in range(3)]
    rows = inputs[0] + inputs[1] + inputs[2]
    for name, wanted in (("copied", rows), ("stitched", rows), ("written", rows), ("filtered", kept_of(folder, inputs))):
        label = "seed %d, %s: " % (seed, name)
        check(label + "DuckDB reads the rows", duck(path(name)) == wanted)
        low = sorted(row[0] for row in wanted if row[0] is not None)[len(wanted) // 3]
        matching = [row for row in wanted if row[0] is not None
                    and (row[0] == low or (row[0] > low and row[4] == "city7"))]
        check(label + "DuckDB finds rows through statistics and the page index",
              duck(path(name), "i = %d or (i > %d and s = 'city7')" % (low, low)) == matching)
        counts = duckdb.sql("select count(*), count(s), count(l) from '%s'" % path(name)).fetchall()[0]
        check(label + "DuckDB counts nulls", counts == (
            len(wanted), sum(row[4] is not None for row in wanted), sum(row[8] is not None for row in wanted)))
        got = [tuple(row.values()) for row in plain_of(path(name))]
        truth = [tuple(plain_row(dict(zip(NAMES, row))).values()) for row in wanted]
        check(label + "pyarrow reads the rows", got == truth)


def check_engine(folder, seed):
    names = FILES
    query = ("SELECT * FROM file('%s', Parquet) %s SETTINGS max_threads=1, input_format_parquet_preserve_order=1, "
             "output_format_json_quote_64bit_integers=1")
    path = lambda name: os.path.join(folder, name + ".parquet")
    where = "WHERE n = 7 OR (n > 30 AND s = 'city7')"
    answers = engine_reader.ask([query % (path(name), "") for name in names] +
                                [query % (path(name), where) for name in names[3:]])
    for name, answer in zip(names * 2, answers):
        if isinstance(answer, str):
            check("seed %d, %s: the engine: %s" % (seed, name, answer), False)
            return
    # INT96 has nine digits, whatever the rows have.
    at = NAMES.index("t")
    answers = [[[*row[:at], row[at] and row[at][:26], *row[at + 1:]] for row in rows] for rows in answers]
    inputs = answers[:3]
    rows = inputs[0] + inputs[1] + inputs[2]
    check("seed %d: the engine reads all inputs" % seed, len(rows) == 2100)
    for k, wanted in enumerate((rows, rows, rows, kept_of(folder, inputs))):
        label = "seed %d, %s: " % (seed, names[3 + k])
        check(label + "the engine reads the rows", answers[3 + k] == wanted)
        check(label + "the engine finds rows through statistics and indexes", answers[7 + k] == [
            row for row in wanted if row[1] == 7 or (row[1] > 30 and row[4] == "city7")])


def check_java(folders):
    path = lambda folder, name: os.path.join(folder, name + ".parquet")
    files = [path(folder, name) for folder in folders for name in FILES]
    with tempfile.TemporaryDirectory() as classes:
        lines = java_reader.read(classes, files + [path(f, n) + "?n=7" for f in folders for n in FILES[3:]])
        said = java_reader.statistics(classes, files)
    shown = parquet_facts.inspect(sys.argv[2], files)
    for seed, folder in enumerate(folders, 1):
        inputs = [plain_of(path(folder, "in%d" % i)) for i in range(3)]
        rows = inputs[0] + inputs[1] + inputs[2]
        held = dict(zip(FILES, inputs + [rows, rows, rows, kept_of(folder, inputs)]))
        for name, wanted in held.items():
            label = "seed %d, %s" % (seed, name)
            file = path(folder, name)
            parquet_facts.compare(label, shown[file], said[file], wanted, name == "filtered", check)
            if any("Brotli" in line for line in lines[file]):
                skipped.append(label + ": parquet-java has no brotli")
                continue
            read_alike(label + ": parquet-java reads the rows", lines[file], wanted)
            if not name.startswith("in"):
                read_alike(label + ": parquet-java finds rows through statistics, page index and bloom filters", lines[file + "?n=7"],
                           [row for row in wanted if row["n"] == 7])


def read_alike(name, lines, wanted):
    errors = [line for line in lines if line.startswith("ERROR")]
    difference = errors[0] if errors else first_difference([plain_row(json.loads(line)) for line in lines], wanted)
    check(name, not difference, difference)


skipped = []
with tempfile.TemporaryDirectory() as out:
    folders = []
    for seed in range(1, 13):
        folders.append(os.path.join(out, str(seed)))
        os.mkdir(folders[-1])
        subprocess.run([sys.argv[1], folders[-1], str(seed)], check=True)
        check_rows(folders[-1], seed)
        check_engine(folders[-1], seed)
    # check: DATA-2
    check_java(folders)
print("\n".join(skipped))
check("most files are read by parquet-java", len(skipped) <= len(folders) * len(FILES) // 2)
checking.end("all readers agree")
