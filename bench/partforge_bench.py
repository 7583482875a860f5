"""partforge_bench.py run|check: several ways of one rewrite, taken in turn, each in fresh processes on fresh folders.

  ways   bare            one engine, one one-block INSERT SELECT a part, nothing else: the floor of R2. Parts are put into place
                         beside the clock
         bare-one        the same with all parts attached and one INSERT SELECT: the floor of parts that share an insert (T5b)
         bare-2          two engines side by side, each with half of the parts one by one: what a second core gains here at all
         sequential      as the seed describes: an engine a part, the engine's own blocks, a vertical FINAL merge to one part,
                         freeze, tar file, upload
         sequential-one  the same, then one compaction task: an engine, all outputs attached, vertical FINAL, freeze, tar, upload
         blocks          an engine, 1M-row blocks and a vertical FINAL merge, freeze, tar file, upload (R3, one big part)
         partforge       `partforge worker` with one slot over the uploaded job: fetch, check, insert, freeze, stream, commit
         partforge-2     the same with two slots
         partforge-alone the same with one slot, each part by an insert of its own (--tier=T5)
         slow-N          N worker processes of one slot, each part alone, over a store that gives each of them --slow-rate bytes a
                         second each way, as machines of their own would have (the second half of R7)
  unit   CPU seconds of the process tree (user + system, from wait4), wall seconds, peak of the tree's resident sum; ratios of
         medians of one run

  run    --workload events|flights|lineitem|small --rows N --parts K --reps R --ways a,b,c [--huge-pages] [--out FILE]
  check  the same, then compares with bench/thresholds.json and exits 1 when a ratio is missed; --cpu-only and --widen=0.25 are for
         small runs on a machine that does other work

In the first round, which warms the page cache and is not counted, count and order-free hash of all rows of every way's output are
compared with the SELECT over the source (partforge: `verify --level=rows`); later rounds compare counts. A fast wrong answer fails.
Folders of earlier runs stay until the end: ext4 makes files slower after many were removed, and who comes second would pay for it.
Environment: PARTFORGE_BINARY, PARTFORGE_DEPS_PREFIX, PARTFORGE_SOURCE_DIR.
"""
import argparse
import concurrent.futures
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
os.environ.setdefault("PARTFORGE_SOURCE_DIR", ROOT)
os.environ.setdefault("PARTFORGE_DEPS_PREFIX", os.path.join(ROOT, "deps"))
os.environ.setdefault("PARTFORGE_BINARY", os.path.join(ROOT, "build", "release", "bin", "partforge"))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from rig import BINARY, DEPS, Failed, Rig, Server, check, children_of  # noqa: E402

HUGE_PAGES = "thp:always"   # as ChildEngine does with huge pages
EVENTS_COLUMNS = ("event_id UInt64, ts DateTime64(3), tenant UInt32, user_id UInt64, kind LowCardinality(String), url String, duration UInt32, "
                  "price Float64, tags Array(LowCardinality(String)), props Map(LowCardinality(String), String), doc JSON")
EVENTS_SELECT = """SELECT cityHash64(number) event_id, toDateTime64('2026-01-01 00:00:00',3)+toIntervalMillisecond(number*{step}+cityHash64(number,1)%60000) ts,
toUInt32(pow(cityHash64(number,2)%1000/1000.,3)*5000) tenant, cityHash64(number,3)%500000 user_id,
['view','click','buy','login','logout','error','search','share'][1+toUInt8(7*pow(cityHash64(number,4)%1000/1000.,2))] kind,
concat('https://host',toString(cityHash64(number,5)%200),'.example/p/',toString(cityHash64(number,6)%100000),'?q=',hex(cityHash64(number,7)%65536)) url,
toUInt32(cityHash64(number,8)%30000) duration, round((cityHash64(number,9)%100000)/100,2) price,
arrayMap(i->concat('t',toString(cityHash64(number,i)%50)),range(cityHash64(number,10)%5)) tags,
map('browser',['ff','cr','sf','ed'][1+cityHash64(number,11)%4],'os',['l','w','m'][1+cityHash64(number,12)%3],'v',toString(cityHash64(number,13)%300)) props,
concat('{{"a":',toString(cityHash64(number,14)%1000),',"b":{{"c":"',hex(cityHash64(number,15)%4096),'","d":',toString(cityHash64(number,16)%100/10),'}}}}') doc
FROM numbers({first}, {rows})"""


class Workload:
    """Source table bench.src with exactly `parts` parts, the destination, and the SELECT."""

    def __init__(self, name, rows, parts):
        self.name, self.rows, self.parts = name, rows, parts
        if name in ("events", "small"):
            self.columns, self.source_order = EVENTS_COLUMNS, "ts"
            self.destination = "CREATE TABLE bench.dst (%s) ENGINE = MergeTree ORDER BY (tenant, kind, ts)" % EVENTS_COLUMNS
            self.select = "SELECT event_id, ts, tenant, user_id, kind, url, duration, price, tags, props, doc FROM bench.src"
        elif name == "flights":
            self.columns, self.source_order = "date DateTime64(6, 'UTC'), delay Int64, distance Int64, origin String, destination String", "date"
            self.destination = ("CREATE TABLE bench.dst (date DateTime64(6, 'UTC'), delay Int64, distance Int64, origin LowCardinality(String), "
                                "destination LowCardinality(String)) ENGINE = MergeTree ORDER BY (origin, destination, date)")
            self.select = "SELECT date, delay, distance, origin, destination FROM bench.src"
            self.file = os.path.join(DEPS, "data", "flights-3m.parquet")
            self.rows = 3000000
        elif name == "lineitem":
            self.columns, self.source_order = None, "l_orderkey"
            self.file = make_lineitem()
            self.destination = self.select = None
        else:
            raise SystemExit("no such workload: " + name)

    def prepare(self, server):
        server.sql("CREATE DATABASE bench")
        if self.name == "lineitem":
            server.sql("CREATE TABLE bench.src ENGINE = MergeTree ORDER BY l_orderkey SETTINGS index_granularity = 8192 EMPTY AS SELECT * FROM file('%s', Parquet)" % self.file)
            rows = [line.split("\t") for line in server.sql("SELECT name, type FROM system.columns WHERE database = 'bench' AND table = 'src' ORDER BY position").splitlines()]
            columns = ", ".join("%s %s" % (name, kind) for name, kind in rows)
            self.destination = "CREATE TABLE bench.dst (%s) ENGINE = MergeTree ORDER BY (l_shipdate, l_suppkey) SETTINGS allow_nullable_key = 1" % columns
            self.select = "SELECT %s FROM bench.src" % ", ".join(name for name, _ in rows)
            self.rows = server.number("SELECT count() FROM file('%s', Parquet)" % self.file)
        else:
            server.sql("CREATE TABLE bench.src (%s) ENGINE = MergeTree ORDER BY %s SETTINGS parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000, "
                       "max_parts_in_total = 1000000" % (self.columns, self.source_order))
        server.sql("SYSTEM STOP MERGES bench.src")
        each = self.rows // self.parts
        for part in range(self.parts):
            rows = self.rows - each * (self.parts - 1) if part + 1 == self.parts else each
            if self.name in ("events", "small"):
                select = EVENTS_SELECT.format(step=max(1, 2678400000 // self.rows), first=part * each, rows=rows)
            else:
                select = "SELECT * FROM file('%s', Parquet) LIMIT %d OFFSET %d" % (self.file, rows, part * each)
            server.sql("INSERT INTO bench.src " + select, max_threads=1, max_insert_threads=1, min_insert_block_size_rows=100000000,
                       min_insert_block_size_bytes=0, max_block_size=100000000, preferred_block_size_bytes=0, input_format_parquet_max_block_size=100000000,
                       input_format_parquet_prefer_block_bytes=0)
        found = server.number("SELECT count() FROM system.parts WHERE database = 'bench' AND table = 'src' AND active")
        if found != self.parts:   # the reader cut the block: merge what belongs together
            server.sql("SYSTEM START MERGES bench.src")
            server.sql("OPTIMIZE TABLE bench.src FINAL")
            self.parts = server.number("SELECT count() FROM system.parts WHERE database = 'bench' AND table = 'src' AND active")
        self.expected = None if self.name == "small" else server.sql("SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM (%s)" % self.select)


def make_lineitem():
    folder = os.path.join(DEPS, "data", "lineitem")
    tool = os.path.join(DEPS, "testenv", "bin", "tpchgen-cli")
    target = os.path.join(folder, "lineitem.parquet")
    if not os.path.exists(target):
        os.makedirs(folder, exist_ok=True)
        subprocess.run([tool, "parquet", "-s", "1", "--tables=lineitem", "--output-dir=" + folder], check=True)
    return target


class Measured:
    """Child processes with the CPU seconds of their whole trees, their wall seconds, and the peak of the resident sum."""

    def __init__(self):
        self.cpu = self.wall = 0.0
        self.peak = 0
        self.beside = 0.0   # seconds of the bench's own work inside the wall time

    def run(self, argv, **options):
        started = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, **options)
        process.watched = threading.Event()
        threading.Thread(target=self.watch, args=(process,), daemon=True).start()
        return process, started

    def watch(self, process):
        while not process.watched.wait(0.05):
            total = 0
            for pid in [process.pid, *children_of(process.pid)]:
                try:
                    with open("/proc/%d/statm" % pid) as f:
                        total += int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                except OSError:
                    pass
            self.peak = max(self.peak, total)

    def finish(self, process, started):
        _, status, usage = os.wait4(process.pid, 0)
        process.watched.set()
        process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu += usage.ru_utime + usage.ru_stime
        self.wall += time.monotonic() - started - self.beside
        self.beside = 0.0
        self.peak = max(self.peak, usage.ru_maxrss * 1024)
        return process.returncode


    @staticmethod
    def of_side_by_side(several):
        whole = Measured()
        whole.cpu, whole.wall = sum(one.cpu for one in several), max(one.wall for one in several)
        whole.peak = sum(one.peak for one in several)   # not more than that
        return whole


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.server = Server(os.path.join(folder, "server"))
        self.workload = Workload(arguments.workload, arguments.rows, arguments.parts)
        self.workload.prepare(self.server)
        self.rig = Rig(os.path.join(folder, "job"), self.server)
        self.schema = self.rig.write("new.sql", self.workload.destination)
        self.insert = self.rig.write("insert.sql", "INSERT INTO bench.dst " + self.workload.select)
        url = "--clickhouse-url=" + self.server.url
        self.rig.run("freeze", "--database=bench", "--table=src", "--freeze=bench", url)
        self.create = self.server.sql("SHOW CREATE TABLE bench.src FORMAT TSVRaw")
        self.url = url
        self.upload("base")
        self.sources = self.find_sources("base")
        self.part_names = [os.path.basename(p) for p in self.frozen_parts()]

    def frozen_parts(self):
        shadow = os.path.join(self.folder, "server", "shadow", "bench")
        return sorted(root for root, _, names in os.walk(shadow) if "checksums.txt" in names and not root.endswith(".proj"))

    def upload(self, job):
        self.rig.run("upload-freeze", "--database=bench", "--table=src", "--freeze=bench", "--bucket=forge", "--job-id=" + job, self.url,
                     "--destination-schema-file=" + self.schema, "--insert-select-file=" + self.insert, *self.rig.state, *self.rig.store, *self.rig.scratch)

    def find_sources(self, job):
        root = os.path.join(self.rig.folder, "objects", "forge", "partforge", "jobs", job, "source")
        return sorted(os.path.join(root, name) for name in os.listdir(root))

    # What a slot of the worker starts its engine with (src/app/slot_children.cc).
    SLOT_CONFIG = ("--background_pool_size=2", "--background_merges_mutations_concurrency_ratio=1",
                   "--merge_tree.number_of_free_entries_in_pool_to_lower_max_size_of_merge=1",
                   "--merge_tree.number_of_free_entries_in_pool_to_execute_mutation=1",
                   "--merge_tree.number_of_free_entries_in_pool_to_execute_optimize_entire_partition=1")

    # ---- the ways; each answers Measured and the rows of its output
    def start_engine(self, measured, path, config=SLOT_CONFIG):
        environment = dict(os.environ, TZ="UTC")
        if self.arguments.huge_pages:
            environment["JE_MALLOC_CONF"] = HUGE_PAGES
        process, started = measured.run([BINARY, "engine", "--path=" + path, "--", *config], stdout=subprocess.PIPE, env=environment)
        port = json.loads(process.stdout.readline())["port"]
        server = Server.__new__(Server)
        server.url, server.process = "http://127.0.0.1:%d" % port, process
        return server, started

    def stop_engine(self, measured, server, started):
        server.process.terminate()
        server.process.stdout.close()
        measured.finish(server.process, started)

    @staticmethod
    def copy_part(source, target):
        os.makedirs(target)
        for name in os.listdir(source):
            if name == "manifest.json":
                continue
            shutil.copyfile(os.path.join(source, name), os.path.join(target, name))

    def attach(self, server, source, name, beside):
        """`beside`: the Measured whose wall time the copy does not count for."""
        detached = os.path.join(server.sql("SELECT data_paths[1] FROM system.tables WHERE database = 'bench' AND name = 'src'").strip(), "detached")
        begun = time.monotonic()
        self.copy_part(source, os.path.join(detached, name))
        if beside is not None:
            beside.beside += time.monotonic() - begun
        server.sql("ALTER TABLE bench.src ATTACH PART '%s'" % name)

    def tables(self, server):
        server.sql("CREATE DATABASE IF NOT EXISTS bench")
        server.sql(self.create.replace("CREATE TABLE bench.src", "CREATE TABLE IF NOT EXISTS bench.src"))
        server.sql(self.workload.destination)
        server.sql("ALTER TABLE bench.dst MODIFY SETTING default_compression_codec = 'ZSTD(5)', vertical_merge_algorithm_min_rows_to_activate = 0, "
                   "vertical_merge_algorithm_min_bytes_to_activate = 0, vertical_merge_algorithm_min_columns_to_activate = 0")
        server.sql("SYSTEM STOP MERGES bench.src")

    ONE_BLOCK_SETTINGS = dict(max_threads=1, max_insert_threads=1, min_insert_block_size_rows=1 << 40, min_insert_block_size_bytes=0, max_block_size=16777216,
                              preferred_block_size_bytes=0, preferred_max_column_in_block_size_bytes=0)
    ONE_BLOCK = dict(ONE_BLOCK_SETTINGS, max_partitions_per_insert_block=0, insert_deduplicate=0)

    def bare_inserts(self, measured, path, sources, at_once=False, is_first=False):
        """An engine and what it inserts of `sources`, which are put into place beside the clock; answers the rows."""
        server, started = self.start_engine(measured, path)
        self.tables(server)
        server.sql("SYSTEM STOP MERGES bench.dst")
        for source, name in sources:
            self.attach(server, source, name, measured)
            if not at_once:
                self.insert_attached(server, self.ONE_BLOCK)
        if at_once:
            self.insert_attached(server, dict(self.ONE_BLOCK, min_insert_block_size_rows=self.workload.rows))
        answer = self.answer(server, is_first)
        self.stop_engine(measured, server, started)
        return answer

    def bare(self, folder, is_first, at_once=False):
        """`at_once`: the floor of what puts all parts into one insert."""
        measured = Measured()
        answer = self.bare_inserts(measured, os.path.join(folder, "engine"), self.named_sources(), at_once, is_first=is_first)
        return measured, answer

    def bare_2(self, folder, is_first):
        halves = [Measured(), Measured()]
        paths = [os.path.join(folder, "engine%d" % turn) for turn in range(2)]
        sources = [self.named_sources()[turn::2] for turn in range(2)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            rows = sum(pool.map(self.bare_inserts, halves, paths, sources))
        return Measured.of_side_by_side(halves), rows

    def insert_attached(self, server, settings):
        server.sql("INSERT INTO bench.dst " + self.workload.select, **settings)
        server.sql("TRUNCATE TABLE bench.src SYNC")

    def bare_one(self, folder, is_first):
        return self.bare(folder, is_first, at_once=True)

    def named_sources(self):
        """Folder and part name of each source."""
        named = []
        for source in self.sources:
            with open(os.path.join(source, "manifest.json")) as f:
                named.append((source, json.load(f)["part"]["name"]))
        return named

    def answer(self, server, is_first):
        """Rows of the output; in the first round, which is not counted, its hash too."""
        if is_first and self.workload.expected is not None:
            found = server.sql("SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM bench.dst")
            check(found == self.workload.expected, "count and hash are %s, expected %s" % (found, self.workload.expected))
        return server.number("SELECT count() FROM bench.dst")

    def pack(self, path, out, prefix):
        """The frozen parts as tar files on disk, then copied and synced, as the seed does. Its CPU is the bench's own and added."""
        before = os.times()
        for root, _, names in os.walk(os.path.join(path, "shadow", "out")):
            if "checksums.txt" not in names:
                continue
            tar_path = os.path.join(out, "part.tmp")
            with tarfile.open(tar_path, "w") as tar:
                tar.add(root, os.path.basename(root))
            with open(tar_path, "rb") as read, open(os.path.join(out, "%s-%s.tar" % (prefix, os.path.basename(root))), "wb") as write:
                shutil.copyfileobj(read, write, 1 << 20)
                write.flush()
                os.fsync(write.fileno())
        after = os.times()
        return after.user + after.system - before.user - before.system

    def rewrite_one(self, measured, path, out, prefix, sources, settings, is_first):
        """An engine, the parts, one INSERT SELECT, a vertical FINAL merge, freeze, tar, upload; answers the rows."""
        server, started = self.start_engine(measured, path)
        self.tables(server)
        server.sql("SYSTEM STOP MERGES bench.dst")
        for source, name in sources:
            before = os.times()
            self.attach(server, source, name, None)   # fetching is part of the job here, as in the worker
            after = os.times()
            measured.cpu += after.user + after.system - before.user - before.system
        server.sql("INSERT INTO bench.dst " + self.workload.select, max_partitions_per_insert_block=0, insert_deduplicate=0, **settings)
        server.sql("SYSTEM START MERGES bench.dst")
        server.sql("OPTIMIZE TABLE bench.dst FINAL")
        while server.number("SELECT count() FROM system.merges"):
            time.sleep(0.05)
        rows = self.answer(server, is_first)
        server.sql("ALTER TABLE bench.dst FREEZE WITH NAME 'out'")
        measured.cpu += self.pack(path, out, prefix)
        self.stop_engine(measured, server, started)
        return rows

    def sequential(self, folder, is_first):
        measured = Measured()
        out = os.path.join(folder, "out")
        os.makedirs(out)
        rows = 0
        for index, one in enumerate(self.named_sources()):
            rows += self.rewrite_one(measured, os.path.join(folder, "engine-%d" % index), out, str(index), [one],
                                     dict(max_threads=1, max_insert_threads=1), False)
        return measured, rows

    def sequential_one(self, folder, is_first):
        measured, _ = self.sequential(folder, is_first)
        out = os.path.join(folder, "out")
        path = os.path.join(folder, "compactor")
        server, started = self.start_engine(measured, path)
        self.tables(server)
        detached = os.path.join(server.sql("SELECT data_paths[1] FROM system.tables WHERE database = 'bench' AND name = 'dst'").strip(), "detached")
        server.sql("SYSTEM STOP MERGES bench.dst")
        before = os.times()
        for index, name in enumerate(sorted(name for name in os.listdir(out) if name.endswith(".tar"))):
            with tarfile.open(os.path.join(out, name)) as tar:
                part = tar.getnames()[0].split("/")[0]
                tar.extractall(folder, filter="fully_trusted")
            target = "%s_%d_%d_0" % (part.rsplit("_", 3)[0], index + 1, index + 1)
            os.rename(os.path.join(folder, part), os.path.join(detached, target))
            server.sql("ALTER TABLE bench.dst ATTACH PART '%s'" % target)
        after = os.times()
        measured.cpu += after.user + after.system - before.user - before.system
        server.sql("SYSTEM START MERGES bench.dst")
        server.sql("OPTIMIZE TABLE bench.dst FINAL")
        rows = self.answer(server, is_first)
        server.sql("ALTER TABLE bench.dst FREEZE WITH NAME 'out'")
        measured.cpu += self.pack(path, out, "one")
        self.stop_engine(measured, server, started)
        return measured, rows

    def blocks(self, folder, is_first):
        measured = Measured()
        out = os.path.join(folder, "out")
        os.makedirs(out)
        rows = self.rewrite_one(measured, os.path.join(folder, "engine"), out, "0", self.named_sources(),
                                dict(self.ONE_BLOCK_SETTINGS, min_insert_block_size_rows=1000000, max_block_size=1000000), is_first)
        return measured, rows

    def partforge(self, folder, is_first, slots=1, extra=(), processes=1):
        job = "b-" + os.path.basename(folder)
        self.upload(job)
        words = [BINARY, "worker", "--drain", "--job-id=" + job, "--metrics-addr=", "--quiet", "--parallel=%d" % slots,
                 *(["--huge-pages"] if self.arguments.huge_pages else []), *self.rig.state, *self.rig.store, *self.arguments.worker, *extra]
        running = []
        for number in range(processes):
            measured = Measured()
            running.append((measured, *measured.run([*words, "--work-dir=" + os.path.join(folder, "work%d" % number)])))
        for measured, process, started in running:
            exit_code = measured.finish(process, started)
            check(exit_code == 0, "worker ended with %d" % exit_code)
        measured = Measured.of_side_by_side([one for one, _, _ in running])
        status = self.rig.status(job)
        check(status["summary"]["status"] == "READY_FOR_IMPORT", "the job is %s" % status["summary"])
        self.tiers = sorted({part["tier"] for part in status["parts"]})
        self.stages = {}
        for part in status["parts"]:
            for stage, took_ms in part["rewrite_stage_durations_ms"].items():
                self.stages[stage] = self.stages.get(stage, 0) + took_ms
        rows = sum(part["destination_active_part_rows"] for part in status["parts"])
        if is_first and self.workload.expected is not None:
            self.rig.run("verify", job, "--level=rows", *self.rig.state, *self.rig.store, *self.rig.scratch, timeout=1800)
        return measured, rows

    def slow(self, folder, is_first, processes):
        rate = self.arguments.slow_rate
        return self.partforge(folder, is_first, extra=["--tier=T5", "--max-download-rate=" + rate, "--max-upload-rate=" + rate], processes=processes)

    def way(self, name):
        """The function behind the name of a way."""
        if name.startswith("slow-"):
            return functools.partial(self.slow, processes=int(name.removeprefix("slow-")))
        return getattr(self, name.replace("-", "_"))

    def partforge_2(self, folder, is_first):
        return self.partforge(folder, is_first, slots=2)

    def partforge_alone(self, folder, is_first):
        return self.partforge(folder, is_first, extra=["--tier=T5"])

    def run(self):
        ways = self.arguments.ways.split(",")
        results = {way: [] for way in ways}
        lines = []
        for rep in range(self.arguments.reps + 1):      # the first round warms the page cache and is not counted
            for way in ways:
                folder = os.path.join(self.folder, "%s-%d" % (way, rep))
                os.makedirs(folder)
                load = os.getloadavg()[0]
                measured, rows = self.way(way)(folder, rep == 0)
                check(rows == self.workload.rows, "%s: %d rows, %d expected" % (way, rows, self.workload.rows))
                if rep == 0 and self.arguments.reps > 0:
                    continue
                results[way].append(measured)
                line = {"workload": self.workload.name, "rows": self.workload.rows, "parts": self.workload.parts, "way": way, "rep": rep,
                        "cpu_s": round(measured.cpu, 3), "wall_s": round(measured.wall, 3), "peak_rss_bytes": measured.peak, "load1_before": round(load, 2), "cores": os.cpu_count()}
                if way.startswith(("partforge", "slow")):
                    line["tiers"], line["stages_ms"] = self.tiers, self.stages
                lines.append(line)
                print(json.dumps(line), flush=True)
        return results, lines


def summary(results, workload):
    """Prints medians and spreads; answers every ratio that thresholds.json may name."""
    medians = {}
    for way, runs in results.items():
        cpu, wall = sorted(r.cpu for r in runs), sorted(r.wall for r in runs)
        medians[way] = {"cpu": statistics.median(cpu), "wall": statistics.median(wall)}
        print("%-14s CPU %7.2f s (%.2f–%.2f)   wall %7.2f s (%.2f–%.2f)   peak %d MiB   %d runs" %
              (way, medians[way]["cpu"], cpu[0], cpu[-1], medians[way]["wall"], wall[0], wall[-1], max(r.peak for r in runs) >> 20, len(runs)))
    ratios = {}
    for above in medians:
        for below in medians:
            for unit in ("cpu", "wall"):
                if above != below:
                    ratios["%s/%s %s" % (above, below, unit)] = medians[above][unit] / medians[below][unit]
    for way in medians:
        ratios["%s cpu ms a part" % way] = medians[way]["cpu"] * 1000 / workload.parts
        ratios["%s peak MiB" % way] = max(r.peak for r in results[way]) / 1048576
    return ratios


def judge(ratios, arguments, workload):
    """Every threshold that this run can tell something about; the number of missed ones."""
    with open(os.path.join(HERE, "thresholds.json")) as f:
        limits = json.load(f)
    missed = judged = 0
    for limit in limits:
        of_this = arguments.workload in limit["workloads"] and workload.parts in range(limit.get("parts_min", 1), limit.get("parts_max", 1 << 30) + 1)
        if not of_this or workload.rows < limit.get("rows_min", 0) or limit["value"] not in ratios:
            continue
        if any(word not in arguments.worker for word in limit.get("worker", [])):
            continue
        if arguments.cpu_only and "cpu" not in limit["value"].split():
            continue
        value, wider = ratios[limit["value"]], 1 + arguments.widen
        is_met = value <= limit["at_most"] * wider if "at_most" in limit else value * wider >= limit["at_least"]
        missed += 0 if is_met else 1
        judged += 1
        print("%-6s %-3s %-32s %8.2f, %s %s" % ("ok" if is_met else "MISSED", limit["requirement"], limit["value"], value,
                                                "at most" if "at_most" in limit else "at least", limit.get("at_most", limit.get("at_least"))))
    if judged == 0 and arguments.verb == "check":
        print("MISSED nothing in thresholds.json speaks of this run")
        missed = 1
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "check"])
    parser.add_argument("--workload", default="events")
    parser.add_argument("--rows", type=int, default=2000000)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--ways", default="sequential,bare,partforge")
    parser.add_argument("--huge-pages", action="store_true")
    parser.add_argument("--out", help="append the JSON lines to this file")
    parser.add_argument("--slow-rate", default="2MiB", help="bytes a second each way of a worker of slow-N")
    parser.add_argument("--cpu-only", action="store_true", help="judge ratios of CPU seconds alone")
    parser.add_argument("--widen", type=float, default=0.0, help="by which share a ratio may be worse than promised")
    parser.add_argument("--worker", action="append", default=[], help="a further flag of partforge worker")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="pf-bench-")
    bench = None
    try:
        bench = Bench(arguments, folder)
        results, lines = bench.run()
    except Failed as error:
        print("FAIL %s" % error)
        sys.exit(1)
    finally:
        if bench:
            bench.server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    ratios = summary(results, bench.workload)
    if arguments.out:
        with open(arguments.out, "a") as f:
            for line in lines:
                f.write(json.dumps(line) + "\n")
    missed = judge(ratios, arguments, bench.workload)
    sys.exit(1 if missed and arguments.verb == "check" else 0)


if __name__ == "__main__":
    main()
