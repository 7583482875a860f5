#!/usr/bin/env python3
"""Reads what parquet_interop_write wrote with DuckDB and pyarrow, row by row, and through filters.

  parquet_interop.py WRITER

Ends with 77 (skipped) and says so when these packages are absent:
  pip install duckdb pyarrow
PARTFORGE_INTEROP_PYTHON names the interpreter that has them.
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


for seed in range(1, 13):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.argv[1], out, str(seed)], check=True)
        path = lambda name: os.path.join(out, name + ".parquet")
        inputs = [duck(path("in%d" % i)) for i in range(3)]
        rows = inputs[0] + inputs[1] + inputs[2]
        with open(os.path.join(out, "kept.txt")) as file:
            kept = [inputs[int(f)][int(r)] for f, r in (line.split() for line in file)]
        for name, wanted in (("copied", rows), ("stitched", rows), ("filtered", kept)):
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
sys.exit(1 if failed else 0)
