#!/usr/bin/env python3
"""Reads what parquet_interop_write wrote with DuckDB, pyarrow, the engine and parquet-java, row by row, and through
filters.

  parquet_interop.py WRITER

Ends with 77 (skipped) and says so when what `scripts/setup --with-interop` installs is absent. PARTFORGE_INTEROP_PYTHON
names the interpreter that has the Python packages.
"""
import os
import subprocess
import sys
import tempfile

python = os.environ.get("PARTFORGE_INTEROP_PYTHON")
if python and not os.environ.get("PARTFORGE_INTEROP_IN"):
    os.environ["PARTFORGE_INTEROP_IN"] = "1"
    os.execv(python, [python] + sys.argv)
try:
    import duckdb
    import pyarrow.parquet as parquet
except ImportError as missing:
    print("SKIPPED: interop of Parquet with other implementations: %s" % missing, file=sys.stderr)
    sys.exit(77)

import engine_reader
import java_reader

if java_reader.lib() is None or engine_reader.library() is None:
    print("SKIPPED: interop of Parquet with parquet-java and the engine: not installed", file=sys.stderr)
    sys.exit(77)

failed = 0


def check(name, ok):
    global failed
    if not ok:
        failed += 1
        print("FAIL %s" % name)


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
    for name, wanted in (("copied", rows), ("stitched", rows), ("filtered", kept_of(folder, inputs))):
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
        table = parquet.read_table(path(name), page_checksum_verification=True)
        check(label + "pyarrow reads the rows", table.column("u").to_pylist() == [row[5] for row in wanted])


def check_engine(folder, seed):
    names = ("in0", "in1", "in2", "copied", "stitched", "filtered")
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
    inputs = answers[:3]
    rows = inputs[0] + inputs[1] + inputs[2]
    check("seed %d: the engine reads all inputs" % seed, len(rows) == 2100)
    for k, wanted in enumerate((rows, rows, kept_of(folder, inputs))):
        label = "seed %d, %s: " % (seed, names[3 + k])
        check(label + "the engine reads the rows", answers[3 + k] == wanted)
        check(label + "the engine finds rows through statistics and indexes", answers[6 + k] == [
            row for row in wanted if row[1] == 7 or (row[1] > 30 and row[4] == "city7")])


def check_java(folders):
    names = ("in0", "in1", "in2", "copied", "stitched", "filtered")
    path = lambda folder, name: os.path.join(folder, name + ".parquet")
    paths = [path(f, n) for f in folders for n in names] + [path(f, n) + "?n=7" for f in folders for n in names[3:]]
    with tempfile.TemporaryDirectory() as classes:
        lines = java_reader.read(classes, paths)
    for seed, folder in enumerate(folders, 1):
        errors = [line for name in names for line in lines[path(folder, name)] if line.startswith("ERROR")]
        if any("Brotli" in line for line in errors):
            skipped.append("seed %d: parquet-java has no brotli" % seed)
            continue
        inputs = [lines[path(folder, "in%d" % i)] for i in range(3)]
        rows = inputs[0] + inputs[1] + inputs[2]
        check("seed %d: parquet-java reads all inputs %s" % (seed, errors[:1]), len(rows) == 2100 and not errors)
        for name, wanted in (("copied", rows), ("stitched", rows), ("filtered", kept_of(folder, inputs))):
            label = "seed %d, %s: " % (seed, name)
            check(label + "parquet-java reads the rows", lines[path(folder, name)] == wanted)
            check(label + "parquet-java finds rows through statistics and the page index",
                  lines[path(folder, name) + "?n=7"] == [row for row in wanted if "|n: 7|" in "|" + row])
        # Against another reader: the number of every row.
        numbers = [int(line[len("n: "):]) for row in rows for line in row.split("|") if line.startswith("n: ")]
        check("seed %d: parquet-java and DuckDB agree" % seed, numbers == [
            row[1] for i in range(3) for row in duck(path(folder, "in%d" % i))])


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
check("most seeds are read by parquet-java", len(skipped) <= len(folders) // 2)
print("FAILED: %d" % failed if failed else "all readers agree")
sys.exit(1 if failed else 0)
