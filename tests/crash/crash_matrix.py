"""The crash matrix: kills the real program with SIGKILL at every fault point of upload, rewrite and import, runs the same
command again, and compares the destination with the oracle row by row.

First one run records which points each step hits (PARTFORGE_FAULT_TRACE); then one run per (step, point, hit).
PARTFORGE_CRASH_SHARE=third runs a third of them, chosen by the commit's hash; all runs every one.
"""
import collections
import hashlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["PARTFORGE_SOURCE_DIR"], "tests", "e2e"))
from rig import Failed, Folder, Rig, Server, check, same_rows  # noqa: E402

# check: PF-10, PF-11, PF-12, PF-48
HITS_MAX = 2   # a point that is hit once a part or a piece is killed at its first hits only

MODES = {
    "whole": [],
    "chunks": ["--tier=seed", "--insert-chunk-min-rows=400"],
    "merged": ["--tier=T6"],
}


class Scenario:
    def __init__(self, folder, server, name, mode):
        self.server = server
        self.mode = mode
        self.database = "c_" + name
        self.job = "crash-" + name.replace("_", "-")
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        self.rig = Rig(self.folder, server)

    def prepare(self):
        db, sql = self.database, self.server.sql
        sql("CREATE DATABASE %s" % db)
        sql("CREATE TABLE %s.src (id UInt64, day Date, kind LowCardinality(String), note Nullable(String), tags Array(String)) "
            "ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY id" % db)
        sql("SYSTEM STOP MERGES %s.src" % db)
        for part in range(2):
            sql("INSERT INTO %s.src SELECT number + %d, toDate('2026-01-01') + number %% 50, ['a', 'b', 'c'][1 + number %% 3], "
                "if(number %% 7 = 0, NULL, toString(number)), [toString(number %% 5)] FROM numbers(800)" % (db, part * 700))
        destination = ("CREATE TABLE %s.dst (kind LowCardinality(String), id UInt64, day Date, note String, tags Array(String)) "
                       "ENGINE = MergeTree PARTITION BY kind ORDER BY (day, id)" % db)
        sql(destination)
        select = "SELECT kind, id, day, ifNull(note, 'none') AS note, tags FROM %s.src WHERE id %% 11 != 0" % db
        self.oracle = select
        self.schema = self.rig.write("new.sql", destination)
        self.insert = self.rig.write("insert.sql", "INSERT INTO %s.dst %s" % (db, select))

    def steps(self):
        rig, db = self.rig, self.database
        url = "--clickhouse-url=" + self.server.url
        return collections.OrderedDict([
            ("freeze", ["freeze", "--database=" + db, "--table=src", "--freeze=" + db, url]),
            ("upload", ["upload-freeze", "--database=" + db, "--table=src", "--freeze=" + db, "--bucket=forge", "--job-id=" + self.job, url,
                        "--destination-schema-file=" + self.schema, "--insert-select-file=" + self.insert, *rig.state, *rig.store, *rig.scratch]),
            ("worker", ["worker", "--drain", "--job-id=" + self.job, "--lease-ttl=1s", "--parallel=1", "--max-crashes=100", "--metrics-addr=",
                        *MODES[self.mode], *rig.state, *rig.store, *rig.scratch]),
            ("import", ["import-finished", "--job-id=" + self.job, "--database=" + db, "--table=dst", "--import-lease-ttl=1s", url, *rig.state, *rig.store]),
        ])

    def run(self, killed_step=None, fault=None, trace_folder=None):
        self.prepare()
        was_killed = False
        for step, words in self.steps().items():
            trace = os.path.join(trace_folder, step) if trace_folder else None
            if step == killed_step:
                exit_code, _, err = self.rig.run(*words, fault=fault, expect=None)
                was_killed = exit_code == -9
                check(was_killed, "%s was not killed at %s: exit %s\n%s" % (step, fault, exit_code, err[-2000:]))
                self.rig.run(*words)
            else:
                self.rig.run(*words, trace=trace)
        rows = same_rows(self.server, self.oracle, "SELECT * FROM %s.dst" % self.database)
        check(rows > 1000, "the oracle is empty")
        summary = self.rig.status(self.job)["summary"]
        check(summary["status"] == "IMPORTED" and not summary["live_commits"], "the job ended as %s" % summary)
        detached = self.server.number("SELECT count() FROM system.detached_parts WHERE database = '%s'" % self.database)
        check(detached == 0, "%d directories are left in detached/" % detached)
        left = os.path.join(self.server.sql("SELECT data_paths[1] FROM system.tables WHERE database = '%s' AND name = 'dst'" % self.database).strip(), "detached")
        check(not [n for n in os.listdir(left) if n.startswith("pf")], "leftovers in %s: %s" % (left, os.listdir(left)))
        self.server.sql("DROP DATABASE %s SYNC" % self.database)


def trace_points(folder, server, mode):
    traces = os.path.join(folder, "trace-" + mode)
    os.makedirs(traces)
    Scenario(folder, server, "trace_" + mode, mode).run(trace_folder=traces)
    points = []
    for step in ("freeze", "upload", "worker", "import"):
        path = os.path.join(traces, step)
        hits = collections.Counter()
        if os.path.exists(path):
            with open(path) as f:
                hits.update(line.strip() for line in f)
        for point, count in sorted(hits.items()):
            points += [(mode, step, point, hit) for hit in range(1, min(count, HITS_MAX) + 1)]
    return points


def commit_number():
    done = subprocess.run(["git", "-C", os.environ["PARTFORGE_SOURCE_DIR"], "rev-parse", "HEAD"], capture_output=True)
    return int(hashlib.sha256(done.stdout).hexdigest(), 16)


def main():
    share = os.environ.get("PARTFORGE_CRASH_SHARE", "third")
    wanted = sys.argv[1:]
    passed = failed = 0
    with Folder("crash") as folder:
        server = Server(os.path.join(folder, "server"))
        try:
            points = trace_points(folder, server, "whole")
            known = {(step, point) for _, step, point, _ in points}
            for mode in ("chunks", "merged"):   # of the other modes only what is new
                points += [p for p in trace_points(folder, server, mode) if p[1] == "worker" and (p[1], p[2]) not in known]
            number = commit_number()
            for index, (mode, step, point, hit) in enumerate(points):
                name = "%s %s %s:%d" % (mode, step, point, hit)
                if wanted and not any(word in name for word in wanted):
                    continue
                if not wanted and share == "third" and (index + number) % 3 != 0:
                    continue
                try:
                    Scenario(folder, server, "%s_%d" % (mode, index), mode).run(step, "%s:%d:kill" % (point, hit))
                    passed += 1
                    print("ok   " + name, flush=True)
                except Failed as error:
                    failed += 1
                    print("FAIL %s\n%s" % (name, error), flush=True)
            print("%d points in all" % len(points))
            check(failed == 0, "%d points failed" % failed)
        except Failed as error:
            print("FAIL %s" % error, flush=True)
            failed = max(failed, 1)
        finally:
            server.stop()
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
