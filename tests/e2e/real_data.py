"""The data that claims are made about (decision 15), from freeze to import: three million real flights, TPC-H lineitem, workload E.
Another sort key, partitioning and codec each; all rows compared both ways."""
import glob
import os
import subprocess
import sys

import rig
from rig import DEPS, SOURCE, Job, Rig, Skipped, check, literal

sys.path.insert(0, os.path.join(SOURCE, "bench"))
from partforge_bench import EVENTS_COLUMNS, EVENTS_SELECT  # noqa: E402


def run(job, rows):
    job.freeze()
    job.upload()
    job.work("--parallel=2")
    job.publish()
    found = job.compare()
    check(found == rows, "%d rows expected, %d found" % (rows, found))
    job.server.sql("DROP DATABASE %s SYNC" % rig.quoted(job.database))


def test_three_million_flights(folder, server, place):
    flights = os.path.join(DEPS, "data", "flights-3m.parquet")
    if not os.path.exists(flights):
        raise Skipped("scripts/setup has not fetched the flights")
    job = Job(Rig(folder, server, place, "flights"), "flights", "date DateTime64(6, 'UTC'), delay Int64, distance Int64, origin String, destination String",
              "(origin LowCardinality(String), destination LowCardinality(String), date DateTime64(3, 'UTC') CODEC(Delta, ZSTD(3)), delay Int32, distance UInt16) "
              "ENGINE = MergeTree PARTITION BY toYYYYMM(date) ORDER BY (origin, destination, date)",
              select="origin, destination, date, delay, distance", source_engine="MergeTree ORDER BY date")
    run(job.tables("SELECT * FROM file(%s, Parquet)" % literal(flights)), 3000000)


def test_lineitem(folder, server, place):
    generator = os.path.join(DEPS, "testenv", "bin", "tpchgen-cli")
    if not os.path.exists(generator):
        raise Skipped("scripts/setup has not installed the generator")
    made = os.path.join(folder, "tpch")
    subprocess.run([generator, "parquet", "-s", "0.05", "--tables=lineitem", "--output-dir=" + made], check=True, capture_output=True)
    table = "file(%s, Parquet)" % literal(glob.glob(os.path.join(made, "**", "lineitem*.parquet"), recursive=True)[0])
    described = [line.split("\t")[:2] for line in server.sql("DESCRIBE TABLE " + table).splitlines()]
    columns = ", ".join("%s %s" % (name, kind.replace("\\'", "'")) for name, kind in described)
    job = Job(Rig(folder, server, place, "lineitem"), "lineitem", columns,
              "(%s) ENGINE = MergeTree PARTITION BY toYear(assumeNotNull(l_shipdate)) ORDER BY (l_suppkey, l_shipdate) SETTINGS allow_nullable_key = 1" % columns,
              source_engine="MergeTree ORDER BY l_orderkey SETTINGS allow_nullable_key = 1")
    rows = server.number("SELECT count() FROM " + table)
    check(rows > 250000, "lineitem has %d rows" % rows)
    run(job.tables(*("SELECT * FROM %s WHERE l_orderkey %% 3 = %d" % (table, part) for part in range(3))), rows)


def test_workload_e(folder, server, place):
    parts, each = 4, 75000
    job = Job(Rig(folder, server, place, "workload_e"), "workload_e", EVENTS_COLUMNS,
              "(%s) ENGINE = MergeTree PARTITION BY toYYYYMMDD(ts) %% 4 ORDER BY (tenant, kind, ts)" % EVENTS_COLUMNS, source_engine="MergeTree ORDER BY ts")
    run(job.tables(*(EVENTS_SELECT.format(step=2678400000 // (parts * each), first=part * each, rows=each) for part in range(parts))), parts * each)


if __name__ == "__main__":
    rig.main("real-data", [test_three_million_flights, test_lineitem, test_workload_e])
