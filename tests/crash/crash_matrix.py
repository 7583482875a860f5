"""The crash matrix: kills the real program with SIGKILL at every fault point of upload, rewrite, import, retry and cleaning,
runs the same command again, and compares the destination with the oracle row by row.

First one run of each scenario records which points each command hits (PARTFORGE_FAULT_TRACE); together they must be all
points of the program but the named ones. Then one run per (scenario, step, point, hit); some at once, since they mostly wait.
PARTFORGE_CRASH_SHARE=third runs a third of them, chosen by the commit's hash; all runs every one. A word on the command
line runs those with that word in their name.
"""
import collections
import concurrent.futures
import hashlib
import os
import subprocess
import sys
import time
import traceback

from scenarios import (Abandoned, Alone, Chunks, Large, Paused, Recovered, Refused, RefusedTogether, Scenario, Seed, Undone, Unfrozen)
from rig import BINARY, Failed, Folder, LocalPlace, RemotePlace, Server, check

# check: PF-10, PF-11, PF-12, PF-48
LOCAL, REMOTE = "sqlite+local", "postgres+s3"
SCENARIOS = collections.OrderedDict([
    ("whole", (Scenario, LOCAL)),
    ("alone", (Alone, LOCAL)),
    ("unfrozen", (Unfrozen, LOCAL)),
    ("chunks", (Chunks, LOCAL)),
    ("seed", (Seed, LOCAL)),
    ("paused", (Paused, LOCAL)),
    ("swept", (Recovered, LOCAL)),
    ("recovered", (Recovered, REMOTE)),
    ("large", (Large, REMOTE)),
    ("refused", (Refused, REMOTE)),
    ("together", (RefusedTogether, LOCAL)),
    ("undone", (Undone, REMOTE)),
    ("abandoned", (Abandoned, REMOTE)),
])
NOT_REACHED = {   # points that no command of this version reaches, and why
    "data.replaced_by_concat": "works on no job; killed by e2e/files.py",
    "data.named_lookup": "lake tables", "data.wrote_lookup": "lake tables",
    "data.closed_avro": "lake tables", "data.closed_file": "lake tables", "data.closed_orc": "lake tables", "data.closed_parquet": "lake tables",
    "job.applied_direct": "commits without a fence", "job.staged_direct": "commits without a fence",
    "job.claimed_batch": "compaction of finished parts", "job.replanned": "compaction of finished parts",
    "store.object_copied": "jobs that borrow objects", "store.object_copied_in_parts": "jobs that borrow objects",
}


class Matrix:
    def __init__(self, folder):
        self.folder = folder
        self.server = Server(os.path.join(folder, "server"))
        self.remote = None
        try:
            self.remote = RemotePlace(os.path.join(folder, "remote"))
        except Exception:
            self.stop()
            raise

    def stop(self):
        self.server.stop()
        if self.remote:
            self.remote.stop()

    def make(self, kind, name):
        scenario, place = SCENARIOS[kind]
        here = os.path.join(self.folder, name + ".place")
        return scenario(self.folder, self.server, self.remote if place == REMOTE else LocalPlace(here), name)

    def trace(self, kind):
        """One run without a kill; answers [(step, command, {point: hits}), …]."""
        traces = os.path.join(self.folder, "trace-" + kind)
        os.makedirs(traces)
        made = self.make(kind, "trace_" + kind)
        made.run(trace_folder=traces)
        found = []
        for step, words in made.steps().items():
            hits = collections.Counter()
            path = os.path.join(traces, step)
            if os.path.exists(path):
                with open(path) as f:
                    hits.update(line.strip() for line in f)
            found.append((step, words[0], hits))
        return found

    def kill(self, kind, index, step, fault):
        self.make(kind, "%s_%d" % (kind, index)).run(step, fault)


def chosen_points(traces):
    """[(scenario, step, point, hit), …] from {scenario: trace}."""
    points, known = [], set()
    for kind, trace in traces.items():
        scenario = SCENARIOS[kind][0]
        fresh = set()
        for step, command, hits in trace:
            for point, count in sorted(hits.items()):
                is_new = (command, point) not in known and (command, point) not in fresh
                wanted = point in scenario.selects if scenario.selects is not None else is_new or point in scenario.also
                fresh.add((command, point))
                if wanted:
                    points += [(kind, step, point, hit) for hit in range(1, min(count, scenario.hits_max) + 1)]
        known |= fresh
    return points


def check_all_are_reached(traces):
    listed = subprocess.run([BINARY, "debug", "fault-points"], capture_output=True, text=True, check=True).stdout.split()
    reached = {point for trace in traces.values() for _, _, hits in trace for point in hits}
    missing = sorted(set(listed) - reached - set(NOT_REACHED))
    check(not missing, "no scenario reaches %s" % ", ".join(missing))
    wrong = sorted((reached - set(listed)) | (set(NOT_REACHED) & reached) | (set(NOT_REACHED) - set(listed)))
    check(not wrong, "the list of points that are not reached is wrong about %s" % ", ".join(wrong))


def commit_number():
    done = subprocess.run(["git", "-C", os.environ["PARTFORGE_SOURCE_DIR"], "rev-parse", "HEAD"], capture_output=True)
    return int(hashlib.sha256(done.stdout).hexdigest(), 16)


def each(pool, tasks, work):
    """Runs work(task) for all at once; answers how many failed."""
    failed = 0
    started = {pool.submit(timed, work, task): task for task in tasks}
    for future in concurrent.futures.as_completed(started):
        error, took = future.result()
        name = started[future]
        name = name if isinstance(name, str) else "%s %s %s:%d" % name
        print("%s %-60s %5.1f s%s" % ("FAIL" if error else "ok  ", name, took, "\n" + error if error else ""), flush=True)
        failed += bool(error)
    return failed


def timed(work, task):
    started, error = time.monotonic(), None
    try:
        work(task)
    except Failed as failure:
        error = str(failure)
    except Exception:   # a scenario that breaks is a failed one; the others still run
        error = traceback.format_exc()
    return error, time.monotonic() - started


def run(folder, pool, wanted):
    share = os.environ.get("PARTFORGE_CRASH_SHARE", "third")
    matrix = Matrix(folder)
    try:
        traces = {}
        failed = each(pool, list(SCENARIOS), lambda kind: traces.update({kind: matrix.trace(kind)}))
        check(not failed, "%d scenarios fail without a kill" % failed)
        traces = {kind: traces[kind] for kind in SCENARIOS}
        check_all_are_reached(traces)
        points = chosen_points(traces)
        numbers = {point: index for index, point in enumerate(points)}
        number = commit_number()
        if wanted:
            tasks = [p for p in points if any(word in "%s %s %s:%d" % p for word in wanted)]
        else:
            tasks = [p for p in points if share != "third" or (numbers[p] + number) % 3 == 0]
        failed = each(pool, tasks, lambda p: matrix.kill(p[0], numbers[p], p[1], "%s:%d:kill" % (p[2], p[3])))
        print("%d points in all, %d passed, %d failed" % (len(points), len(tasks) - failed, failed))
        check(tasks and not failed, "%d points failed" % failed)
    finally:
        matrix.stop()


def main():
    try:
        with Folder("crash") as folder, concurrent.futures.ThreadPoolExecutor((os.cpu_count() or 2) + 1) as pool:
            run(folder, pool, sys.argv[1:])
    except Failed as error:
        print("FAIL %s" % error, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
