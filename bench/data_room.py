"""data_room.py DIR: ratios of the data room, interleaved in one run; one JSON line a measurement, then the table.

  --workload w10|lineitem|both   W10 (100 files of 100,000 rows, 7 columns, zstd 3) by DuckDB; TPC-H lineitem by tpchgen-cli
  --rows N   of W10 (default 10 million)   --scale S   of lineitem (default 1)   --reps R   (default 5; one more warms up)
  --ways a,b,c   only these: bytes, copy, stitch, decode, duckdb; sort, "duckdb sort", "engine sort", "engine sort 2"; merge; delete
  --check        ends with 1 when a target of TARGETS is missed

Every way is a fresh process, so that CPU seconds and peak memory are its own. Page caches are warm, or with --cold the input files are
dropped from them before each run (as root: everything is). DuckDB runs with one thread, as our commands do, the engine with one and with
two. Before a sort is measured, its rows are compared with those of the engine and DuckDB: all are there, in the same order of keys, in
the same codec. Needs duckdb, pyarrow, and tpchgen-cli for lineitem (scripts/setup --with-bench --with-interop);
PARTFORGE_INTEROP_PYTHON names an interpreter that has them.
"""
import argparse
import glob
import json
import math
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

# What issue and specification ask for: value, limit, and whether the value may be at most or must be at least that.
TARGETS = [
    ("copy / bytes CPU", "at most", 2.5), ("W10 plain: stitch / decode CPU", "at most", 0.2), ("W10 dictionary: stitch / decode CPU", "at most", 0.75),
    ("lineitem: stitch / decode CPU", "at most", 1.05), ("duckdb / decode CPU", "at least", 1.0),
    ("delete 1 % clustered / decode CPU", "at most", 0.3), ("delete 0.1 % scattered / decode CPU", "at most", 0.7),
    ("engine sort / sort CPU", "at least", 1.0), ("engine sort 2 / sort CPU", "at least", 1.0), ("engine sort / sort wall", "at least", 1.0),
    ("merge M rows/s", "at least", 2.5), ("peak MiB", "at most", 512),
]
SORT_WAYS = ("sort", "duckdb sort", "engine sort", "engine sort 2")

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("PARTFORGE_BENCH_BIN", os.path.join(ROOT, "build", "release", "bin"))
PARTFORGE = os.path.join(BIN, "partforge")
INTEROP = os.environ.get("PARTFORGE_INTEROP_PYTHON") or os.path.join(ROOT, "deps", "interop", "bin", "python")
MIB = 1 << 20

DUCK = """
import duckdb, sys
db = duckdb.connect()
db.sql("SET threads = 1")
db.sql("SET preserve_insertion_order = true")
db.sql(sys.argv[1])
"""


def drop_caches(paths):
    """Input files are read from the disk next. Root drops everything, which makes the programs cold too."""
    os.sync()
    if os.geteuid() == 0:
        try:
            with open("/proc/sys/vm/drop_caches", "w") as f:
                f.write("3")
            return
        except OSError:  # a container without the right
            pass
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


COMPARE = """
import duckdb, json, sys
import pyarrow.parquet as parquet
source, keys, sorted_files = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
db = duckdb.connect()
db.sql("SET TimeZone = 'UTC'")
columns = [(name, kind) for name, kind, *_ in db.sql("DESCRIBE SELECT * FROM '%s'" % source).fetchall()]
# In the types of the input: other writers have their own for text, times and dates. The sum of hashes is free of order.
row = ", ".join("hash(CAST(\\"%s\\" AS %s))" % column for column in columns)
sums = "SELECT count(*), sum(hash(%s)::HUGEINT) FROM '%%s'" % row
order = "SELECT count(*) FROM (SELECT (%s) AS k, lag(k) OVER (ORDER BY file_row_number) AS before FROM read_parquet('%%s', file_row_number=true)) WHERE before > k" % ", ".join('"%s"' % key for key in keys)
wanted = db.sql(sums % source).fetchall()
for path in sorted_files:
    if db.sql(sums % path).fetchall() != wanted:
        sys.exit(path + ": other rows than the input's")
    if db.sql(order % path).fetchall() != [(0,)]:
        sys.exit(path + ": not in order")
    metadata = parquet.read_metadata(path)
    codecs = {metadata.row_group(g).column(c).compression for g in range(metadata.num_row_groups) for c in range(metadata.num_columns)}
    if codecs != {"ZSTD"}:
        sys.exit("%s: in %s" % (path, codecs))
"""


def run(words, cold):
    """One fresh process; answers CPU and wall seconds, peak bytes, stdout. `cold`: input files to drop from the cache before."""
    if cold:
        drop_caches(cold)
    started = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    if status != 0:
        raise SystemExit("%s\nended with %d" % (" ".join(words[:6]), status))
    return {"cpu_s": usage.ru_utime + usage.ru_stime, "wall_s": wall, "peak_mib": usage.ru_maxrss / 1024}, out


def make_w10(folder, rows, kind):
    """100 files, one row group each. plain: dictionaries where they pay, as our sink and parquet-java write; dictionary: everywhere, as pyarrow."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, "%03d.parquet" % i) for i in range(100)]
    if all(os.path.exists(path) for path in paths):
        return paths
    # In a process of its own: what is measured later inherits the peak of this one.
    maker = multiprocessing.Process(target=fill_w10, args=(paths, rows, kind))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise SystemExit("the rows could not be made")
    return paths


def fill_w10(paths, rows, kind):
    import duckdb
    import pyarrow.parquet as parquet
    db = duckdb.connect()
    each = rows // 100
    for i, path in enumerate(paths):
        table = db.sql("""SELECT (hash(range) >> 1)::BIGINT AS id, make_timestamp(1700000000000000 + range * 1000 + (hash(range, 1) % 1000)::BIGINT) AS ts,
            'user' || floor(pow((hash(range, 2) % 1000000) / 1e6, 3) * 50000)::INT AS "user", 'city' || (hash(range, 3) % 200) AS city,
            ((hash(range, 4) % 100000000) / 100.0)::DOUBLE AS amount, (hash(range, 5) % 20)::INT AS qty, printf('%08x', (hash(range, 6) % 4294967296)::BIGINT) AS note
            FROM range({}, {})""".format(i * each, (i + 1) * each)).to_arrow_table()
        parquet.write_table(table, path + ".tmp", compression="zstd", compression_level=3, row_group_size=each, write_page_index=True, store_schema=False,
                            use_dictionary=["user", "city", "qty"] if kind == "plain" else True)
        os.rename(path + ".tmp", path)


def make_lineitem(folder, scale):
    os.makedirs(folder, exist_ok=True)
    paths = sorted(glob.glob(os.path.join(folder, "**", "lineitem*.parquet"), recursive=True))
    if not paths:
        places = [os.path.dirname(INTEROP), os.path.join(ROOT, "deps", "testenv", "bin"), *os.environ["PATH"].split(os.pathsep)]
        tool = shutil.which("tpchgen-cli", path=os.pathsep.join(places))
        if tool is None:
            raise SystemExit("lineitem needs tpchgen-cli: scripts/setup --with-bench")
        for part in range(1, 9):
            subprocess.run([tool, "parquet", "-s", str(scale), "--tables=lineitem", "--output-dir=" + folder, "--parts=8", "--part=%d" % part,
                            "--compression=ZSTD(3)"], check=True, stdout=subprocess.DEVNULL)
        paths = sorted(glob.glob(os.path.join(folder, "**", "lineitem*.parquet"), recursive=True))
    return paths


class Engine:
    """The ClickHouse engine as a server; its CPU seconds from /proc."""

    def __init__(self, folder):
        self.process = subprocess.Popen([PARTFORGE, "engine", "--path=" + folder, "--allow-external-reads"], stdout=subprocess.PIPE)
        self.url = "http://127.0.0.1:%d" % json.loads(self.process.stdout.readline())["port"]

    def cpu(self):
        seconds = 0
        for pid in [self.process.pid, *map(int, open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)).read().split())]:
            fields = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return seconds

    def run(self, sql, threads):
        before, started = self.cpu(), time.monotonic()
        settings = {"max_threads": threads, "max_insert_threads": 1, "output_format_parquet_compression_method": "zstd",
                    "output_format_compression_level": 3, "engine_file_truncate_on_insert": 1,
                    "output_format_parquet_parallel_encoding": int(threads > 1), "max_parsing_threads": threads}
        request = urllib.request.Request(self.url + "/?" + urllib.parse.urlencode(settings), data=sql.encode(), method="POST")
        urllib.request.urlopen(request, timeout=600).read()
        return {"cpu_s": self.cpu() - before, "wall_s": time.monotonic() - started, "peak_mib": 0.0}

    def stop(self):
        self.process.terminate()
        self.process.wait()


def measure(name, ways, reps, cold, lines):
    """Runs the ways in turn, `reps` times after one warm-up; answers medians by way."""
    taken = {way: [] for way in ways}
    for rep in range(reps + 1):
        for way, call in ways.items():
            result = call(cold)
            if rep:
                taken[way].append(result)
                lines.append(dict(result, workload=name, way=way, rep=rep, load1=os.getloadavg()[0]))
                print(json.dumps(lines[-1]), flush=True)
    medians = {}
    for way, results in taken.items():
        medians[way] = {key: statistics.median(r[key] for r in results) for key in ("cpu_s", "wall_s", "peak_mib")}
        medians[way]["spread"] = "%.2f–%.2f" % (min(r["cpu_s"] for r in results), max(r["cpu_s"] for r in results))
    return medians


def concat_ways(paths, folder, codec):
    out = os.path.join(folder, "out.parquet")
    listed = "[%s]" % ", ".join("'%s'" % path for path in paths)

    def fresh(words):
        def call(cold):
            if os.path.exists(out):
                os.remove(out)
            return run(words, cold)[0]
        return call
    joined = [PARTFORGE, "file", "concat", out, *paths, "--verify=none", "--json", "-q"]
    return {
        "bytes": fresh(["sh", "-c", 'out=$1; shift; cat "$@" > "$out" && sync "$out"', "sh", out, *paths]),
        "copy": fresh([*joined, "--row-group-bytes=1KiB"]),
        "stitch": fresh(joined),
        "decode": fresh([*joined, "--decode"]),
        "duckdb": fresh([INTEROP, "-c", DUCK, "COPY (SELECT * FROM read_parquet(%s)) TO '%s' (FORMAT parquet, COMPRESSION %s, COMPRESSION_LEVEL 3)" % (listed, out, codec)]),
    }


def sort_ways(path, folder, keys, engine):
    """Each writes a file of its own, so that they can be compared."""
    out = lambda name: os.path.join(folder, name + ".parquet")
    quoted = ", ".join('"%s"' % key for key in keys)
    copy = "COPY (SELECT * FROM '%s' ORDER BY %s) TO '%s' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3)"
    insert = "INSERT INTO FUNCTION file('%s', Parquet) SELECT * FROM file('%s', Parquet) ORDER BY %s"

    def by_engine(name, threads):
        def call(cold):
            if cold:
                drop_caches(cold)
            return engine.run(insert % (out(name), path, quoted), threads)
        return call
    return {
        "sort": lambda cold: run([os.path.join(BIN, "bench_sort_merge"), "sort", path, out("sort"), ",".join(keys)], cold)[0],
        "duckdb sort": lambda cold: run([INTEROP, "-c", DUCK, copy % (path, quoted, out("duckdb sort"))], cold)[0],
        "engine sort": by_engine("engine sort", 1),
        "engine sort 2": by_engine("engine sort 2", 2),
    }


def check_sorts(path, folder, ways, keys):
    """All sorted files hold the rows of the input, in the order of the keys, in zstd. In a process of its own."""
    words = [INTEROP, "-c", COMPARE, path, json.dumps(keys), *[os.path.join(folder, way + ".parquet") for way in ways]]
    if subprocess.run(words).returncode != 0:
        raise SystemExit("the sorts do not agree")


def deletes(rows, reps):
    """{data set: {way: medians}} of bench_stitch, which leaves rows out in memory, page by page and through rows."""
    found = {}
    for line in run([os.path.join(BIN, "bench_stitch"), "10", str(max(rows // 100, 1000)), str(reps)], None)[1].decode().splitlines():
        print(line, flush=True)
        way = json.loads(line)
        if way["way"].startswith(("delete 1 % clustered", "delete 0.1 % scattered", "decode")):
            found.setdefault(way["inputs"], {})[way["way"]] = {
                "cpu_s": way["cpu_s"], "wall_s": math.nan, "peak_mib": 0.0, "spread": "%.2f–%.2f" % (way["min_s"], way["max_s"])}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--workload", default="both", choices=("w10", "lineitem", "both"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--ways", default="")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--out", default="")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    wanted = set(filter(None, arguments.ways.split(",")))
    keep = lambda ways: {way: call for way, call in ways.items() if not wanted or way in wanted}
    os.makedirs(arguments.folder, exist_ok=True)
    scratch = os.path.join(arguments.folder, "scratch")
    os.makedirs(scratch, exist_ok=True)
    lines, table = [], []
    sets = []
    if arguments.workload != "lineitem":
        for kind in ("plain", "dictionary"):
            sets.append(("W10 " + kind, make_w10(os.path.join(arguments.folder, "w10-%s-%d" % (kind, arguments.rows)), arguments.rows, kind), ["user", "ts"]))
    if arguments.workload != "w10":
        sets.append(("lineitem", make_lineitem(os.path.join(arguments.folder, "lineitem-%g" % arguments.scale), arguments.scale), ["l_shipdate", "l_suppkey"]))
    for name, paths, keys in sets:
        ways = keep(concat_ways(paths, scratch, "zstd"))
        if ways:
            table.append((name, measure(name, ways, arguments.reps, paths if arguments.cold else None, lines)))
        if name == "W10 dictionary" or not (not wanted or wanted & set(SORT_WAYS)):
            continue
        whole = os.path.join(scratch, "whole.parquet")
        run([PARTFORGE, "file", "concat", whole, *paths, "--overwrite", "-q", "--json"], None)
        engine = Engine(os.path.join(scratch, "engine"))
        try:
            ways = keep(sort_ways(whole, scratch, keys, engine))
            for call in ways.values():
                call(None)
            check_sorts(whole, scratch, ways, keys)
            table.append((name + ", sorted", measure(name, ways, arguments.reps, [whole] if arguments.cold else None, lines)))
        finally:
            engine.stop()
    if not wanted or "delete" in wanted:
        for inputs, medians in deletes(arguments.rows, arguments.reps).items():
            table.append(("deletes, " + inputs, medians))
    if not wanted or "merge" in wanted:
        merged = []
        runs = os.path.join(scratch, "runs")
        os.makedirs(runs, exist_ok=True)
        run([os.path.join(BIN, "bench_sort_merge"), "runs", runs, str(min(arguments.rows, 4_000_000)), "8"], None)
        inputs = glob.glob(os.path.join(runs, "*.parquet"))
        for rep in range(arguments.reps + 1):
            result = json.loads(run([os.path.join(BIN, "bench_sort_merge"), "merge", runs, "8"], inputs if arguments.cold else None)[1])
            if rep:
                merged.append(result)
                print(json.dumps(dict(result, rep=rep, load1=os.getloadavg()[0])), flush=True)
        table.append(("merge of 8 runs", {"merge": {"cpu_s": statistics.median(r["cpu_s"] for r in merged), "wall_s": statistics.median(r["wall_s"] for r in merged),
                                                   "peak_mib": statistics.median(r["peak_rss_bytes"] for r in merged) / MIB,
                                                   "rows_per_s": statistics.median(r["rows_per_s"] for r in merged),
                                                   "spread": "%.1f–%.1f M rows/s" % (min(r["rows_per_s"] for r in merged) / 1e6, max(r["rows_per_s"] for r in merged) / 1e6)}}))
    print("\n%-22s %-23s %9s %15s %9s %9s" % ("workload", "way", "CPU s", "spread", "wall s", "peak MiB"))
    found = []
    for name, medians in table:
        for way, m in medians.items():
            if way in ("copy", "stitch", "decode", "sort", "merge") and m["peak_mib"]:
                found.append(("%s, %s: peak MiB" % (name, way), m["peak_mib"]))
            if "rows_per_s" in m:
                found.append((name + ": merge M rows/s", m["rows_per_s"] / 1e6))
            print("%-22s %-23s %9.3f %15s %9.3f %9.0f" % (name, way, m["cpu_s"], m["spread"], m["wall_s"], m["peak_mib"]))
        pairs = [("copy", "bytes"), ("stitch", "decode"), ("stitch", "bytes"), ("duckdb", "decode"), ("engine sort", "sort"), ("engine sort 2", "sort"),
                 ("duckdb sort", "sort"), ("delete 1 % clustered", "decode"), ("delete 0.1 % scattered", "decode")]
        for above, below in pairs:
            if above in medians and below in medians:
                cpu, wall = (medians[above][key] / medians[below][key] for key in ("cpu_s", "wall_s"))
                print("%-22s %-33s CPU %.2f   wall %.2f" % (name, above + " / " + below, cpu, wall))
                found += [("%s: %s / %s CPU" % (name, above, below), cpu), ("%s: %s / %s wall" % (name, above, below), wall)]
    missed = 0
    for what, value in found:
        for target, side, limit in TARGETS:
            if not what.endswith(target):
                continue
            holds = value <= limit if side == "at most" else value >= limit
            missed += not holds
            print("%-6s %-45s %.2f, %s %.2f" % ("met" if holds else "MISSED", what, value, side, limit))
    if arguments.out:
        with open(arguments.out, "w") as f:
            f.writelines(json.dumps(line) + "\n" for line in lines)
    shutil.rmtree(scratch)
    if arguments.check and missed:
        raise SystemExit(1)


if __name__ == "__main__":
    if os.path.exists(INTEROP) and not os.environ.get("PARTFORGE_INTEROP_IN"):
        os.execve(INTEROP, [INTEROP, *sys.argv], dict(os.environ, PARTFORGE_INTEROP_IN="1"))
    main()
