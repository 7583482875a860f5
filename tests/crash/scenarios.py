"""What the crash matrix kills: jobs from freeze to the last row, each on another way through the program.

A scenario is a row of steps. A step is one command; where the way of a scenario needs more than a command (damage, a signal
in the right moment), `act` does that too. After a kill the plain command is given again, as a person would.
"""
import collections
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["PARTFORGE_SOURCE_DIR"], "tests", "e2e"))
from journeys import stopped  # noqa: E402
from rig import Rig, check, eventually, literal, same_rows  # noqa: E402


class Scenario:
    """Everything goes well: the way of most jobs."""
    worker_words, upload_words, import_words = [], [], []
    first_kills = {}     # step: faults that killed that step's command before, one run each
    selects = None       # the points that are killed in it; None = all of its trace that no scenario before it has shown
    also = set()         # points that are killed in it although one before it has shown them
    hits_max = 2         # a point that is hit once a part or a piece is killed at its first hits only
    note = "toString(number)"
    select_extra = ""

    def __init__(self, folder, server, place, name):
        self.server = server
        self.database = "c_" + name
        self.job = "crash-" + name.replace("_", "-")
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        self.rig = Rig(self.folder, server, place, self.database)

    def prepare(self):
        db, sql = self.database, self.server.sql
        sql("CREATE DATABASE %s" % db)
        sql("CREATE TABLE %s.src (id UInt64, day Date, kind LowCardinality(String), note Nullable(String), tags Array(String)) "
            "ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY id" % db)
        sql("SYSTEM STOP MERGES %s.src" % db)
        for part in range(2):
            sql("INSERT INTO %s.src SELECT number + %d, toDate('2026-01-01') + number %% 50, ['a', 'b', 'c'][1 + number %% 3], "
                "if(number %% 7 = 0, NULL, %s), [toString(number %% 5)] FROM numbers(800)" % (db, part * 700, self.note))
        destination = ("CREATE TABLE %s.dst (kind LowCardinality(String), id UInt64, day Date, note String, tags Array(String)) "
                       "ENGINE = MergeTree PARTITION BY kind ORDER BY (day, id)" % db)
        sql(destination)
        self.oracle = ("SELECT kind, id, day, ifNull(note, 'none') AS note, tags FROM %s.src WHERE id %% 11 != 0 %s" % (db, self.select_extra))
        self.schema = self.rig.write("new.sql", destination)
        self.insert = self.rig.write("insert.sql", "INSERT INTO %s.dst %s" % (db, self.oracle))

    def steps(self):
        rig, db = self.rig, self.database
        url = "--clickhouse-url=" + self.server.url
        return collections.OrderedDict([
            ("freeze", ["freeze", "--database=" + db, "--table=src", "--freeze=" + db, url]),
            ("upload", ["upload-freeze", "--database=" + db, "--table=src", "--freeze=" + db, "--bucket=forge", "--job-id=" + self.job, url,
                        "--destination-schema-file=" + self.schema, "--insert-select-file=" + self.insert, *self.upload_words,
                        *rig.state, *rig.store, *rig.scratch]),
            ("worker", ["worker", "--drain", "--job-id=" + self.job, "--lease-ttl=1s", "--parallel=1", "--max-crashes=100", "--metrics-addr=",
                        *self.worker_words, *rig.state, *rig.store, *rig.scratch]),
            ("import", ["import-finished", "--job-id=" + self.job, "--database=" + db, "--table=dst", "--import-lease-ttl=1s", url,
                        *self.import_words, *rig.state, *rig.store]),
        ])

    def exits(self, step, is_after_kill):
        """The exits that a run of the step to its end may have."""
        return {0}

    def act(self, step, words, **how):
        """Runs the step's command on the way of this scenario; answers its exit and stderr."""
        exit_code, _, err = self.rig.run(*words, expect=None, **how)
        return exit_code, err

    def run(self, killed_step=None, fault=None, trace_folder=None):
        self.prepare()
        is_over = False   # the kill: what died before is found by that command or none
        for step, words in self.steps().items():
            for first in () if is_over else self.first_kills.get(step, ()):
                self.rig.run(*words, fault=first, expect=-9)
                time.sleep(1.1)   # the lease of the dead runs out
            trace = os.path.join(trace_folder, step) if trace_folder else None
            if step == killed_step:
                is_over = True
                exit_code, err = self.act(step, words, fault=fault)
                check(exit_code == -9, "%s was not killed at %s: exit %s\n%s" % (step, fault, exit_code, err[-2000:]))
                exit_code, _, err = self.rig.run(*words, expect=None)
            else:
                exit_code, err = self.act(step, words, trace=trace)
            wanted = self.exits(step, step == killed_step)
            check(exit_code in wanted, "%s ended with %s, expected %s\n%s" % (step, exit_code, wanted, err[-4000:]))
        self.judge()
        self.server.sql("DROP DATABASE %s SYNC" % self.database)

    def judge(self):
        """Each row once, and nothing left beside them."""
        rows = same_rows(self.server, self.oracle, "SELECT * FROM %s.dst" % self.database)
        check(rows > 1000, "the oracle is empty")
        summary = self.rig.status(self.job)["summary"]
        check(summary["status"] == "IMPORTED" and not summary["live_commits"], "the job ended as %s" % summary)
        check(not os.listdir(self.detached()), "leftovers: %s" % os.listdir(self.detached()))

    def detached(self):
        return os.path.join(self.server.folder_of(self.database, "dst"), "detached")

    def staged(self):
        return [os.path.join(self.detached(), name) for name in sorted(os.listdir(self.detached())) if name.startswith("pftmp_")]

    def stop_at(self, words, point, fault=None, trace=None):
        """Starts the command and waits until it has stopped at the point; `fault` is for later."""
        process = self.rig.start(*words, fault=point + ":1:stop" + ("," + fault if fault else ""), trace=trace)
        self.wait_for_stop(process)
        return process

    def wait_for_stop(self, process):
        eventually(lambda: process.poll() is not None or stopped(process.pid), "the command stops at its point")
        if process.poll() is not None:
            self.rig.end(process, expect=())

    def go_on(self, process):
        os.kill(process.pid, signal.SIGCONT)

    def end(self, process):
        exit_code, _, err = self.rig.end(process, expect=None)
        return exit_code, err


class Unfrozen(Scenario):
    """The upload removes its freeze when all of it is uploaded."""
    upload_words = ["--unfreeze"]


class Chunks(Scenario):
    """Each part in several ranges, whose results move to a second table; whole partitions are merged."""
    worker_words = ["--tier=T6", "--insert-chunk-min-rows=100"]


class Seed(Scenario):
    """The reference program's way: several ranges, several blocks, and the engine's own merges."""
    worker_words = ["--tier=seed", "--insert-chunk-min-rows=100"]
    selects = {"clickhouse.chunk_promoted", "clickhouse.parts_merged"}
    hits_max = 1


class Recovered(Scenario):
    """What a command finds of one that died before it: a lease, scratch, a bound commit, objects."""
    also = {"job.migrated"}   # here of another store
    first_kills = {"worker": ["clickhouse.meta_uploaded:1:kill"], "import": ["publish.bound:1:kill"]}

    def steps(self):
        steps = super().steps()
        steps["gc"] = ["gc", "--delete", "--older-than=0", "--job-id=" + self.job, *self.rig.state, *self.rig.store, *self.rig.scratch]
        return steps

    def judge(self):
        super().judge()
        left = self.rig.json("gc", "--older-than=0", "--job-id=" + self.job, *self.rig.state, *self.rig.store, *self.rig.scratch)
        check(left["objects"] == [] and left["folders"] == [], "gc --delete left %s" % left)


class Large(Recovered):
    """Objects that are uploaded in parts, and what is left of an upload that nobody ended."""
    first_kills = {"upload": ["store.part_written:1:kill"], "worker": ["clickhouse.tar_uploaded:1:kill"]}
    worker_words = ["--s3-concurrency=1"]   # one tar after the other: exactly one is left
    note = "if(number % 3 = 0 AND number % 50 < 31, randomString(125000), toString(number))"

    def judge(self):
        super().judge()
        uploads = self.rig.place.request("GET", "", query="?uploads").decode()   # of all scenarios: others are at work
        check("/jobs/%s/" % self.job not in uploads, "gc --delete left open uploads: %s" % uploads)


class Alone(Scenario):
    """Each source part by an insert of its own: elsewhere small parts share one."""
    worker_words = ["--tier=T5"]
    selects = {"job.claimed", "clickhouse.source_fetched", "clickhouse.meta_uploaded", "job.settled"}


class Refused(Scenario):
    """The server refuses an artifact, which is taken back whole, made again and imported."""
    worker_words = ["--tier=T5"]   # several artifacts: the others are imported
    import_words = ["--import-concurrency=1"]   # else others work on while one waits

    def steps(self):
        steps = super().steps()
        steps["retry"] = ["retry-failed", "--all", "--job-id=" + self.job, *self.rig.state]
        steps["worker again"], steps["import again"] = steps["worker"], steps["import"]
        return steps

    def exits(self, step, is_after_kill):
        # 3: the part had FAILED before the kill, and an import of what is left needs --partial.
        if step == "import":
            return {3, 4} if is_after_kill else {4}
        return super().exits(step, is_after_kill)

    def act(self, step, words, **how):
        if step != "import":
            return super().act(step, words, **how)
        importer = self.stop_at(words, "publish.bound", **how)
        for part in self.staged():
            os.truncate(os.path.join(part, "data.bin"), 1)
        self.go_on(importer)
        return self.end(importer)


class RefusedTogether(Refused):
    """The same of an artifact of several source parts: its row goes, and they are rewritten again."""
    worker_words = []
    selects = {"app.output_taken_back", "clickhouse.retract_bound"}

    def exits(self, step, is_after_kill):
        return {1, 3, 4, 8} if step == "import" else Scenario.exits(self, step, is_after_kill)


class Undone(Scenario):
    """While a refused artifact is taken back, another importer that had stalled attaches a piece of it."""
    worker_words = ["--tier=T5"]
    import_words = ["--import-concurrency=1"]   # else others work on while one waits
    selects = {"clickhouse.retract_undone"}

    def act(self, step, words, **how):
        if step != "import":
            return super().act(step, words, **how)
        how["fault"] = "clickhouse.retract_bound:1:stop" + ("," + how["fault"] if how.get("fault") else "")
        importer = self.stop_at(words, "publish.bound", **how)
        token = os.path.basename(min(self.staged(), key=lambda path: int(path.rsplit("_", 2)[1])))[len("pftmp_"):]
        path = os.path.join(self.detached(), "pftmp_" + token, "data.bin")
        with open(path, "rb") as f:
            content = f.read()
        os.truncate(path, 1)
        self.go_on(importer)
        eventually(lambda: importer.poll() is not None or not os.path.exists(path), "the piece is on its way")
        self.wait_for_stop(importer)
        found = [name for name in os.listdir(self.detached()) if name.endswith(token)]
        check(len(found) == 1, "the refused piece: %s" % os.listdir(self.detached()))
        place = os.path.join(self.detached(), found[0])
        with open(os.path.join(place, "data.bin"), "wb") as f:
            f.write(content)
        os.rename(place, os.path.join(self.detached(), token))
        self.server.sql("ALTER TABLE %s.dst ATTACH PART %s" % (self.database, literal(token)))
        self.go_on(importer)
        return self.end(importer)


class Abandoned(Scenario):
    """An import is told to stop when it has decided on an artifact and bound nothing: the decision is taken back."""
    worker_words = ["--tier=T5"]
    import_words = ["--import-concurrency=1"]   # else others work on while one waits

    def steps(self):
        steps = super().steps()
        steps["import again"] = steps["import"]
        return steps

    def exits(self, step, is_after_kill):
        return {143} if step == "import" and not is_after_kill else super().exits(step, is_after_kill)

    def act(self, step, words, **how):
        if step != "import":
            return super().act(step, words, **how)
        importer = self.stop_at(words, "publish.decided", **how)
        importer.send_signal(signal.SIGTERM)
        self.go_on(importer)
        return self.end(importer)


class Paused(Scenario):
    """SQL that fails alike on every part: the job is paused, and stays so."""
    select_extra = "AND throwIf(id >= 0, 'as if a type did not fit', toInt16(53)) = 0 SETTINGS allow_custom_error_code_in_throwif = 1"

    def steps(self):
        steps = super().steps()
        del steps["import"]
        return steps

    def exits(self, step, is_after_kill):
        # A worker that finds the job paused already does nothing, and says so with 3 (PF2143).
        return {0, 1, 4} | ({3} if is_after_kill else set()) if step == "worker" else super().exits(step, is_after_kill)

    def judge(self):
        summary = self.rig.status(self.job)["summary"]
        check(summary["counts"]["FAILED"] >= 3 and summary["paused"], "the job ended as %s" % summary)
        check(self.server.number("SELECT count() FROM %s.dst" % self.database) == 0, "rows of a job that failed")
