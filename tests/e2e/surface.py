"""What a person or a script meets: help without anything, exits, dry runs, secrets, error codes, the demo."""
import csv
import fcntl
import hashlib
import io
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

import rig as rig_module
import schemas
from journeys import flipped, plain
from rig import BINARY, DEPS, SOURCE, Failed, LocalPlace, Rig, check, children_of, eventually, quoted

COMMANDS = None


def commands():
    out = subprocess.run([BINARY, "help"], capture_output=True, text=True, env={}).stdout
    return re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  ", out, re.M)


# check: UX-1
def test_help_needs_nothing(folder, server, place):
    os.makedirs(folder, exist_ok=True)
    names = commands()
    check(len(names) >= 18, "commands: %s" % names)
    runs = [[], ["help"], ["--help"], ["-h"], ["version"], ["version", "--json"], ["explain"], ["explain", "PF2107"], ["debug", "fault-points"],
            ["completions", "bash"], ["completions", "zsh"], ["completions", "fish"], ["config", "init"], ["config", "print"],
            ["engine", "--help"], ["engine", "-h"], ["help", "engine"]]
    check("file inspect" in names, "commands: %s" % names)
    runs += [[*name.split(), "--help"] for name in names] + [["help", *name.split()] for name in names]
    runs += [["file", "--help"], ["help", "file"]]
    # Offline: a network name space of its own has not even loopback. Where it cannot be made, only the environment is empty.
    offline = ["unshare", "-n"] if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0 else []
    if not offline:
        rig_module.skipped("help_needs_nothing, its half without a network", "no name space of the network can be made here")
    for words in runs:
        started = time.monotonic()
        done = subprocess.run([*offline, BINARY, *words], capture_output=True, text=True, env={"HOME": ""}, cwd=folder, stdin=subprocess.DEVNULL)
        took = time.monotonic() - started
        check(done.returncode == (0 if words else 1), "%s ended with %d: %s" % (words, done.returncode, done.stderr))
        check((done.stdout if words else done.stderr).strip() != "", "%s printed nothing" % words)
        check(took < 1, "%s took %.2f s" % (words, took))
        check(not words or done.stderr == "", "%s wrote on stderr: %s" % (words, done.stderr))
    check(not os.listdir(folder), "files were made: %s" % os.listdir(folder))
    for shell, script in (("bash", "bash"), ("sh", None)):
        if script:
            text = subprocess.run([BINARY, "completions", script], capture_output=True, text=True, env={}).stdout
            done = subprocess.run([shell, "-n"], input=text, text=True, capture_output=True)
            check(done.returncode == 0, "the completion script: %s" % done.stderr)


# check: UX-6
def test_a_terminal_without_utf8(folder, server, place):
    rig = Rig(folder, server, place, "ascii")
    rig.environment.update(LC_ALL="C", LANG="C")
    job = plain(rig, "ascii", rows=100)
    job.freeze()
    seen = [rig.run(*job.upload_words()), rig.run("plan", job.id, *rig.state), rig.run(*job.worker_words()), rig.run(*job.import_words()),
            rig.run("job-status", "--details", "--job-id=" + job.id, *rig.state), rig.run("list-jobs", "--details", *rig.state),
            rig.run("rewrite", "--help"), rig.run("help"), rig.run("list-jobs", "--nonsense", expect=2), rig.run("rewrite", "--nonsense", expect=2)]
    for _, out, err in seen:
        check(out.isascii() and err.isascii(), "not ASCII: %s%s" % (out, err))
    check("200 in = 200 out ok" in seen[0][1] and " out + 40 filtered ok" in seen[2][1] and "->" in seen[2][1], "signs: %s%s" % (seen[0][1], seen[2][1]))


def all_said(terminal):
    """What a program writes to its terminal until it ends."""
    said = b""
    try:
        while chunk := terminal.read(4096):
            said += chunk
    except OSError:   # it has ended
        pass
    return said


def test_mistakes_are_told(folder, server, place):
    rig = Rig(folder, None, place, "mistakes")
    check("did you mean worker?" in rig.refused(1002, 2, "wroker"), "no nearest command")
    check("partforge list-jobs" in rig.refused(1002, 2, "overview"), "a command of later")
    check("not part of this version" in rig.refused(1002, 2, "iceberg", "plan", "x"), "a group of later")
    error = json.loads(rig.run("servr", "--json", expect=2)[2].splitlines()[-1])
    check(error["code"] == "PF1002" and not schemas.of_error(error), "an unknown command in JSON: %s" % error)
    check("behind the command" in rig.refused(1002, 2, "--json", "list-jobs"), "a flag before its command")
    check("--poll-interval" in rig.refused(1003, 2, "worker", "--pol-interval=1s"), "no nearest flag")
    rig.refused(1004, 2, "worker", "--poll-interval")
    rig.refused(1005, 2, "worker", "--poll-interval=soon", *rig.state)
    rig.refused(1005, 2, "worker", "--role=baker", *rig.state)
    rig.refused(1006, 2, "job-status")
    rig.refused(1006, 2, "worker", "--drain", *rig.state)
    rig.refused(1007, 2, "list-jobs", "all")
    rig.refused(1008, 2, "list-jobs", "--config=/nowhere.json")
    rig.refused(1009, 2, "list-jobs", "--config=" + rig.write("c.json", '{"state-ulr": "x"}'))
    rig.refused(1010, 2, "worker", "--once", "--drain", "--job-id=x", *rig.state)
    rig.refused(1015, 2, "check", "--job-sql=" + rig.write("q.sql", "SELECT 1"), "--dest-schema=" + rig.write("t.sql", "CREATE"),
                "--source-schema=" + rig.write("s.sql", "CREATE"), "--work-dir=/proc/nothing")
    rig.refused(1012, 2, "list-jobs", "--state-url=sqlite:/a", "--postgres-url=postgres://b/c")
    # What cannot be taken back is asked for; without a terminal only --yes answers.
    risky = ["import-finished", "--job-id=x", "--database=a", "--table=b", "--skip-schema-check",
             "--state-url=sqlite:" + os.path.join(folder, "risky.db")]
    rig.refused(1017, 3, *risky)
    rig.refused(2130, 1, *risky, "--yes")
    for answer, wanted in ((b"no\n", "PF1017"), (b"y\n", "PF2130")):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "r+b", buffering=0) as terminal, subprocess.Popen(
                [BINARY, *risky], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=rig.surroundings()) as asked:
            os.close(theirs)
            terminal.write(answer)
            said = all_said(terminal)
            asked.wait(timeout=60)
        check(b"[y/N]" in said and wanted.encode() in said, "asked on a terminal and told %r: %s" % (answer, said))
    rig.refused(1013, 2, "check", "--job-sql=" + rig.write("empty.sql", " \n"), "--dest-schema=/x", "--source-schema=/y")
    rig.refused(1005, 2, "list-jobs", "--state-url=mysql://x")
    rig.refused(1005, 2, "explain", "PF1")
    rig.refused(1005, 2, "worker", "--default-compression-codec= ", *rig.state)
    rig.refused(6003, 2, "list-jobs", *rig.state)
    done = subprocess.run([BINARY, "list-jobs"], capture_output=True, text=True, env={})
    check(done.returncode == 2 and "error[PF1006]" in done.stderr and "--state-url" in done.stderr, "without a home: %s" % done.stderr)
    rig.refused(6003, 2, "job-status", "--job-id=job-x", *rig.state)
    check(not os.path.exists(os.path.join(place.folder, "mistakes.db")), "a look made a state store")
    rig.run("migrate", *rig.state)
    # check: PF-6
    check(rig.json("migrate", *rig.state)["applied"] == 0, "a second migrate applied something")
    check(rig.json("list-jobs", *rig.state)["jobs"] == [], "jobs from nowhere")
    rig.refused(1016, 9, "list-jobs", "--fail-if-empty", *rig.state)
    unknown = "job-0123456789abcdef"
    for words in (["job-status", "--job-id=" + unknown], ["events", "--job-id=" + unknown], ["plan", unknown], ["gc", "--job-id=" + unknown, *rig.store],
                  ["verify", unknown, *rig.store], ["retry-failed", "--all", "--job-id=" + unknown],
                  ["worker", "--once", "--metrics-addr=", "--job-id=" + unknown, *rig.store, *rig.scratch],
                  ["import-finished", "--job-id=" + unknown, "--database=a", "--table=b", *rig.store]):
        rig.refused(2130, 1, *words, *rig.state)
    error = json.loads(rig.run("job-status", "--job-id=" + unknown, "--json", *rig.state, expect=1)[2].splitlines()[-1])
    check(error["code"] == "PF2130" and error["exit"] == 1 and error["do"] and error["where"] == unknown, "the error as JSON: %s" % error)
    check(not schemas.of_error(error), "; ".join(schemas.of_error(error)))
    error = json.loads(rig.run("job-status", "--jb-id=x", "--json", *rig.state, expect=2)[2].splitlines()[-1])
    check(error["code"] == "PF1003" and error["exit"] == 2, "a usage error as JSON: %s" % error)
    with open(os.path.join(folder, "bad.db"), "wb") as f:
        f.write(b"this is no database" * 100)
    rig.refused(6008, 8, "list-jobs", "--state-url=sqlite:" + os.path.join(folder, "bad.db"))
    # A store of a newer program.
    import sqlite3
    newer = os.path.join(folder, "newer.db")
    rig.run("migrate", "--state-url=sqlite:" + newer)
    with sqlite3.connect(newer) as db:
        tables = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = [t for t in tables if "migration" in t][0]
        columns = [r[1] for r in db.execute("PRAGMA table_info(%s)" % table)]
        row = list(db.execute("SELECT * FROM %s" % table).fetchone())
        row[0] = 9999
        db.execute("INSERT INTO %s VALUES (%s)" % (table, ",".join("?" * len(columns))), row)
    rig.refused(6002, 3, "list-jobs", "--state-url=sqlite:" + newer)


def digest(place, database):
    """Everything durable: all objects, the whole state database, as one text."""
    import sqlite3
    seen = hashlib.sha256()
    for key in place.keys():
        seen.update(key.encode() + place.read(key))
    if os.path.exists(database):
        with sqlite3.connect("file:%s?mode=ro" % database, uri=True) as db:
            for line in db.iterdump():
                seen.update(line.encode())
    return seen.hexdigest()


# check: UX-7
def test_dry_runs_change_nothing(folder, server, place):
    rig = Rig(folder, server, place, "dry")
    state = os.path.join(place.folder, "dry.db")
    job = plain(rig, "dry", rows=100, tier="T5")

    def look():
        tables = server.sql("SELECT name, active, rows, modification_time FROM system.parts WHERE database = '%s' ORDER BY name" % job.database)
        shadow = os.path.join(server.folder, "shadow")
        files = [[place_, sorted(names)] for place_, _, names in sorted(os.walk(shadow))]
        return digest(place, state) + tables + json.dumps(files) + str(os.path.exists(state))

    before = look()
    check(rig.json("freeze", "--dry-run", "--freeze=" + job.freeze_name, *job.source_words())["dry_run"], "not a dry run")
    check(look() == before, "freeze --dry-run changed something")
    job.freeze()
    before = look()
    plan = rig.json(*job.upload_words(), "--dry-run")
    check(plan["dry_run"] and len(plan["parts"]) == 2 and plan["rows"] == 200, "plan: %s" % plan)
    rig.run(*job.upload_words(), "-n")
    check(look() == before, "upload-freeze --dry-run changed something")
    job.upload()
    before = look()
    for words in (["plan", job.id], ["gc", "--older-than=0", *rig.store], ["verify", job.id, *rig.store], ["list-jobs"],
                  ["job-status", "--details", "--job-id=" + job.id], ["events", "--job-id=" + job.id]):
        rig.run(*words, *rig.state)
        rig.run(*words, *rig.state, "--json", "-vv")
        check(look() == before, "%s changed something" % words[0])
    check(rig.json("migrate", *rig.state, "--dry-run")["pending"] == 0, "a migrated store waits for migrations")
    rig.refused(2132, 3, *job.import_words(), "--dry-run")
    check(look() == before, "import-finished --dry-run of an unfinished job changed something")
    job.work()
    before = look()
    plan = rig.json(*job.import_words(), "-n")
    check(plan["dry_run"] and len(plan["artifacts"]) == 2 and plan["rows"] == 160 and plan["already_imported"] == 0, "plan of the import: %s" % plan)
    check(plan["rows"] == sum(one["rows"] for one in plan["artifacts"]) and plan["bytes"] > 0 and plan["partitions"], "sums: %s" % plan)
    check("nothing is written" in rig.run(*job.import_words(), "--dry-run")[1], "the plan of the import as text")
    part = plan["artifacts"][0]["part_id"]
    check(len(rig.json(*job.import_words(), "-n", "--part-id=" + part)["artifacts"]) == 1, "one part only")
    check(rig.json("retry-failed", "--all", "--force", "--dry-run", "--job-id=" + job.id, *rig.state)["parts"][0]["to"] == "READY", "retry")
    check(look() == before, "a dry run changed something")
    job.publish()
    check(job.compare() == 160, "not all rows")
    before = look()
    plan = rig.json(*job.import_words(), "-n")
    check(not plan["artifacts"] and plan["already_imported"] == 2, "after the import: %s" % plan)
    rig.refused(2134, 3, *job.import_words("src"), "--dry-run", "--skip-schema-check")
    rig.refused(1016, 9, *job.import_words(), "--dry-run", "--fail-if-empty")
    check(look() == before, "import-finished --dry-run of a published job changed something")


# check: UX-7
def test_a_dry_rewrite_makes_nothing(folder, server, place):
    rig = Rig(folder, server, place, "dry-rewrite")
    job = plain(rig, "foreseen", rows=100)
    server.sql("DROP TABLE " + job.destination)
    state = os.path.join(place.folder, "dry-rewrite.db")
    words = ["rewrite", "--bucket=forge", *job.source_words(), *job.files(), *rig.state, *rig.store, *rig.scratch]

    def look():
        tables = server.sql("SELECT database, name, uuid FROM system.tables WHERE database = '%s' ORDER BY name" % job.database)
        parts = server.sql("SELECT table, name, active, rows FROM system.parts WHERE database = '%s' ORDER BY table, name" % job.database)
        shadow = [[place_, sorted(names)] for place_, _, names in sorted(os.walk(os.path.join(server.folder, "shadow")))]
        return tables + parts + json.dumps(shadow) + digest(place, state) + str(os.path.exists(state))

    before = look()
    plan = rig.json(*words, "--dry-run")
    check(plan["dry_run"] and not plan["destination_exists"] and len(plan["parts"]) == 2 and plan["rows"] == 200, "plan: %s" % plan)
    check([(one["tier"], one["parts"]) for one in plan["tiers"]] == [("T5b", 2)] and plan["tiers"][0]["reason"], "tiers: %s" % plan)
    check("T5b ×2 (" in rig.run(*words, "-n")[1], "the tiers as text")
    check(rig.json("migrate", *rig.state, "-n")["pending"] > 0, "an absent store needs no migration")
    check(look() == before, "rewrite --dry-run made something")
    left = [name for name in os.listdir(os.path.join(folder, "work")) if name.startswith("run-")]
    check(not left, "scratch is left: %s" % left)
    done = rig.json(*words, "--job-id=" + job.id)
    check(done["tiers"] == plan["tiers"] and done["rows_conserved"] and done["bytes_decoded"] > 0, "done: %s" % done)
    before = look()
    again = rig.json(*words, "--dry-run", "--job-id=" + job.id)
    check(not again["parts"] and again["rewritten"] == 1 and again["imported"] == 1, "of a finished job: %s" % again)
    rig.refused(2104, 3, *words, "--dry-run", "--destination-schema-file=" + rig.write("bad.sql", "CREATE TABLE x AS y"))
    check(look() == before, "a dry run of a finished job changed something")


# check: UX-3
def test_every_document_parses(folder, server, place):
    rig = Rig(folder, server, place, "documents")
    job = plain(rig, "documents", rows=100)
    words = ["--json", "-vv"]
    seen = set()

    def document(*command, expect=0):
        _, out, err = rig.run(*command, *words, expect=expect)
        doc = rig_module.told(out) if command[0] in rig_module.STREAMING else json.loads(out)
        name = " ".join(command[:2]) if command[0] == "file" else command[0]
        for line in out.splitlines()[:-1] if command[0] in rig_module.STREAMING else []:
            faults = schemas.of_object(command[0], json.loads(line))
            check(not faults, "; ".join(faults))
        faults = schemas.of_document(name, doc)
        check(not faults, "; ".join(faults))
        check(all(line.startswith("{") for line in err.splitlines()), "log lines are not JSON: %s" % err[:300])
        seen.add(name)
        return doc

    for simple in (["version"], ["explain"], ["config", "print", "worker"], ["debug", "fault-points"]):
        document(*simple)
    document("migrate", *rig.state)
    document("freeze", "--freeze=" + job.freeze_name, *job.source_words())
    document(*job.upload_words())
    document("plan", job.id, *rig.state)
    document("check", "--job-sql=" + os.path.join(folder, "documents.insert.sql"), "--dest-schema=" + os.path.join(folder, "documents.new.sql"),
             *job.source_words(), *rig.scratch)
    document(*job.worker_words())
    document("job-status", "--job-id=" + job.id, "--details", *rig.state)
    document("list-jobs", *rig.state)
    document("verify", job.id, *rig.state, *rig.store)
    document(*job.import_words())
    document("events", "--job-id=" + job.id, *rig.state)
    document("retry-failed", "--job-id=" + job.id, "--all", *rig.state)
    document("gc", *rig.state, *rig.store)
    second = plain(rig, "rewritten", rows=100)
    server.sql("DROP TABLE " + second.destination)
    doc = document("rewrite", "--job-id=" + second.id, "--bucket=forge", *second.source_words(), *second.files(), *rig.state, *rig.store, *rig.scratch)
    check(doc["status"] == "IMPORTED" and doc["imported"] == 1, "rewrite: %s" % doc)   # both parts together
    second.compare()
    again = document("rewrite", "--job-id=" + second.id, "--bucket=forge", *second.source_words(), *second.files(), *rig.state, *rig.store, *rig.scratch)
    check(again["status"] == "IMPORTED", "rewrite again: %s" % again)
    second.compare()
    flights = os.path.join(DEPS, "data", "flights-2013.parquet")
    check(document("file", "inspect", flights)["files"][0]["rows"] == 336776, "rows of the flights")
    check(document("file", "concat", os.path.join(folder, "two.parquet"), flights, flights)["rows_out"] == 2 * 336776, "rows joined")
    left = set(commands()) - seen - {"demo", "completions"}
    check(not left, "commands without a document: %s" % left)
    check(not set(schemas.DOCUMENTS) - seen, "schemas of no document: %s" % (set(schemas.DOCUMENTS) - seen))
    # One document where it is asked for.
    whole = json.loads(rig.run("verify", job.id, *rig.state, *rig.store, "--output=json")[1])
    check(whole["objects"] and not schemas.of_document("verify", whole), "the whole document: %s" % whole)
    # Several jobs, and one object a part.
    waiting = [plain(rig, "waiting%d" % i, rows=100) for i in range(2)]
    for one in waiting:
        one.freeze()
        rig.run(*one.upload_words())
    both = rig.json("plan", *[one.id for one in waiting], *rig.state)
    check([one["job_id"] for one in both["jobs"]] == [one.id for one in waiting] and both["rows"] == 400, "two plans: %s" % both)
    check("sum    2 jobs   4 waiting parts" in rig.run("plan", *[one.id for one in waiting], *rig.state)[1], "two plans as text")
    lines = [json.loads(line) for line in rig.run("plan", waiting[0].id, *rig.state, "--json", "--stream")[1].splitlines()]
    check(len(lines) == 3 and not [fault for line in lines[:-1] for fault in schemas.of_object("plan", line)] and "parts" not in lines[-1] and
          not schemas.of_document("plan", lines[-1]), "a stream of plans: %s" % lines)
    rig.refused(1010, 2, "plan", waiting[0].id, waiting[0].id, *rig.state)
    rig.refused(2151, 1, "verify", job.id, "--part-id=part-none", *rig.state, *rig.store)
    # One object a line.
    for words_ in (["verify", job.id, *rig.store], ["events", "--job-id=" + job.id]):
        _, out, _ = rig.run(*words_, *rig.state, "--output=ndjson")
        check(all(json.loads(line) for line in out.splitlines()) and len(out.splitlines()) > 1, "ndjson of %s" % words_[0])
    streamed = plain(rig, "streamed", rows=100)
    server.sql("DROP TABLE " + streamed.destination)
    _, out, _ = rig.run("rewrite", "--job-id=" + streamed.id, "--bucket=forge", *streamed.source_words(), *streamed.files(), *rig.state, *rig.store,
                        *rig.scratch, "--output=ndjson")
    lines = [json.loads(line) for line in out.splitlines()]
    check({line["type"] for line in lines[:-1]} == {"part", "progress"}, "objects of rewrite: %s" % lines)
    check(not [fault for line in lines[:-1] for fault in schemas.of_object("rewrite", line)], "objects of rewrite: %s" % lines)
    check(not schemas.of_document("rewrite", lines[-1]), "the document at the end: %s" % lines[-1])
    # The same with a terminal beside it.
    shown = plain(rig, "shown", rows=10)
    shown.freeze()
    ours, theirs = pty.openpty()
    done = subprocess.run([BINARY, *shown.upload_words(), "--output=ndjson"], stdout=subprocess.PIPE, stderr=theirs, env=rig.surroundings(), check=True)
    os.close(ours)
    os.close(theirs)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    check(lines[:-1] and {line["type"] for line in lines[:-1]} == {"progress"}, "objects of upload-freeze: %s" % lines)
    # A job that is named twice counts once.
    lines = [json.loads(line) for line in rig.run(*shown.worker_words(), "--job-id=" + shown.id, "--output=ndjson")[1].splitlines()]
    done = lines[-1]
    again = rig.run(*shown.worker_words(), "--job-id=" + shown.id, "--output=ndjson")[1].splitlines()   # tells at once that all is done
    told_ = [line for line in lines + [json.loads(line) for line in again] if line.get("type") == "progress"]
    check(told_ and all(line["rows"] <= done["rows_out"] and line["bytes"] <= done["bytes_in"] for line in told_),
          "a job named twice counts twice: %s" % told_)
    # The progress line is as wide as its own terminal, wherever the result goes.
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    subprocess.run([BINARY, "verify", shown.id, *rig.state, *rig.store], stdout=subprocess.DEVNULL, stderr=theirs, env=rig.surroundings(), check=True)
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    os.close(theirs)
    drawn = [line for line in drawn.split("\r\x1b[K") if line]
    check(drawn and max(map(len, drawn)) < 30, "a progress line of more than 30 columns: %s" % drawn)
    # Quiet: only the id.
    third = plain(rig, "quiet", rows=10)
    third.freeze()
    check(rig.run(*third.upload_words(), "-q")[1:] == (third.id + "\n", ""), "quiet is not quiet")
    check(rig.run("job-status", "--job-id=" + third.id, "-q", *rig.state)[1:] == ("READY\n", ""), "a quiet status")
    check(third.id + "\n" in rig.run("list-jobs", "-q", *rig.state)[1], "quiet jobs")
    check(rig.run("version", "-q")[1].strip() in rig.run("version")[1], "a quiet version")


def test_a_shared_lease(folder, server, place):
    """Parts that a worker has together: one is taken from it, then the worker is killed. The others pay for neither."""
    rig = Rig(folder, server, place, "shared-lease")
    job = plain(rig, "shared-lease", rows=3, parts=4, where="WHERE sleepEachRow(0.2) = 0", tier=None)
    job.freeze()
    job.upload()
    retry = ["retry-failed", "--job-id=" + job.id, *rig.state]
    words = [*job.worker_words(), "--lease-ttl=3s", "--json"]

    def parts(status):
        records = [p for p in rig.json("job-status", "--job-id=" + job.id, "--details", "--all", *rig.state)["parts"]
                   if p["part_id"].startswith("part-")]
        check(len(records) == 4 and {p["status"] for p in records} == {status}, "not four that are %s: %s" % (status, records))
        check(all(p["crash_count"] == 0 for p in records), "a crash is counted: %s" % records)
        return records

    def begin():
        worker = rig.start(*words)
        eventually(lambda: job.summary(is_quiet=False)["counts"]["IN_PROGRESS"] == 4, "all four are in progress")
        return worker

    worker = begin()
    one = job.status(is_quiet=False)["parts"][0]["part_id"]
    check(rig.json(*retry, "--part-id=" + one, "--include-in-progress")["retried"] == 1, "it was not taken")
    told = rig_module.told(rig.end(worker)[1])
    check(told["lost"] == 4 and told["done"] == 4 and told["rows_conserved"], "the worker says: %s" % told)
    parts("SUPERSEDED")
    check(rig.json(*retry, "--all", "--force")["retried"] == 4, "the artifact was not taken apart")

    worker = begin()
    check(rig.json(*retry, "--stale", "--stale-after=1ms")["retried"] == 0, "parts of a worker that lives were taken")
    worker.kill()
    rig.end(worker, expect=-9)
    taken = eventually(lambda: rig.json(*retry, "--stale", "--stale-after=1ms")["retried"], "the lease runs out")
    check(taken == 4, "of one lease: %s" % taken)
    parts("READY")

    worker = begin()
    worker.kill()
    rig.end(worker, expect=-9)
    job.work("--lease-ttl=3s")
    check(all(p["tier"] == "T5" for p in parts("FINISHED")), "not each alone after the crash")
    job.publish()
    check(job.compare() == 12, "not all rows")


def test_a_crash_is_told(folder, server, place):
    """A signal that only a bug brings: the user is told of a file, which has the call stack and no secret."""
    rig = Rig(folder, server, place, "crash")
    job = plain(rig, "crash", rows=11, parts=1, where="WHERE sleepEachRow(0.2) = 0")
    job.freeze()
    job.upload()
    surroundings = dict(rig.surroundings(None, None), TMPDIR=folder, AWS_SECRET_ACCESS_KEY="canary-of-a-crash")
    worker = subprocess.Popen([BINARY, *job.worker_words(), "--lease-ttl=3s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=surroundings)
    eventually(lambda: job.summary(is_quiet=False)["counts"]["IN_PROGRESS"] == 1, "the part is in progress")
    worker.send_signal(signal.SIGSEGV)
    err = worker.communicate(timeout=60)[1].decode()
    path = os.path.join(folder, "partforge-crash-%d.txt" % worker.pid)
    check(worker.returncode == -signal.SIGSEGV and "error[PF9001]" in err and "why     signal SIGSEGV" in err and path in err, "%d: %s" % (worker.returncode, err))
    with open(path, encoding="utf-8") as file:
        text = file.read()
    check(text.startswith("signal SIGSEGV\nprogram ") and len(text.splitlines()) > 3 and "canary" not in text, text)
    check(os.stat(path).st_mode & 0o777 == 0o600, "others may read it")
    os.remove(path)
    job.work("--lease-ttl=1s")
    job.publish()
    check(job.compare() == 11, "not all rows")


def test_tables_as_csv(folder, server, place):
    rig = Rig(folder, server, place, "csv")
    job = plain(rig, "csv", rows=100)
    job.freeze()
    rig.run(*job.upload_words())

    def rows(*words):
        _, out, _ = rig.run(*words, "--output=csv")
        return list(csv.DictReader(io.StringIO(out)))

    plan = json.loads(rig.run("plan", job.id, *rig.state, "--json")[1])["parts"]
    told = rows("plan", job.id, *rig.state)
    check([row["part_id"] for row in told] == [part["part_id"] for part in plan], "plan as CSV: %s" % told)
    jobs = rows("list-jobs", *rig.state)
    check(len(jobs) == 1 and jobs[0]["job_id"] == job.id, "list-jobs as CSV: %s" % jobs)
    rig.run(*job.worker_words())
    check(len(rows("verify", job.id, *rig.state, *rig.store)) >= 1, "verify as CSV")
    check(rows("version")[0]["version"], "version as CSV")
    rig.environment["PARTFORGE_OUTPUT"] = "csv"
    check(rig.run("version")[1].startswith("version,"), "CSV by the environment")
    check(rig.json("version")["version"], "a flag beats the environment")
    del rig.environment["PARTFORGE_OUTPUT"]
    rig.environment["PARTFORGE_JSON"] = "true"
    check(rows("version")[0]["version"], "--output=csv beats the environment, too")
    del rig.environment["PARTFORGE_JSON"]
    _, out, err = rig.run("job-status", "--job-id=none", *rig.state, "--output=csv", expect=None)
    check(out == "" and err.startswith("error[PF"), "an error beside CSV: %s%s" % (out, err))


def on_a_terminal(rig, *words):
    """What a command prints where its stdout is a terminal of 250 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as terminal, subprocess.Popen(
            [BINARY, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=rig.surroundings()) as command:
        os.close(theirs)
        said = all_said(terminal)
        command.wait(timeout=60)
        check(command.returncode == 0, "%s: %s" % (words, command.stderr.read()))
    return said.decode()


def test_ages_and_details(folder, server, place):
    """A terminal is shown how long ago something was; --details, and whatever keeps the text, when it was and all the rest."""
    rig = Rig(folder, server, place, "ages")
    job = plain(rig, "ages", rows=100)
    job.freeze()
    job.upload()
    age, time_ = re.compile(r"\b(now|\d+ (s|min) ago)\b"), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
    for words in (["list-jobs"], ["job-status", "--parts", "--job-id=" + job.id], ["events", "--job-id=" + job.id]):
        words = [*words, *rig.state]
        text = on_a_terminal(rig, *words)
        check(age.search(text) and not time_.search(text), "%s on a terminal: %s" % (words[0], text))
        for text in (on_a_terminal(rig, *words, "--details"), rig.run(*words)[1], rig.run(*words, "--details")[1]):
            check(time_.search(text) and not age.search(text), "%s with details or in a file: %s" % (words[0], text))
    text = rig.run("list-jobs", "--details", *rig.state)[1]
    check("STARTED_AT" in text and "0 B of " in text, "details of list-jobs: %s" % text)
    text = rig.run("events", "--details", "--job-id=" + job.id, *rig.state)[1]
    check("DETAIL" in text and '{"' in text, "details of events: %s" % text)
    text = rig.run("job-status", "--details", "--job-id=" + job.id, *rig.state)[1]
    check("tables: %s." % job.database in text and "upload: ended " in text and "schema: sha256:" in text, "details of job-status: %s" % text)
    rig.refused(1016, 9, "events", "--fail-if-empty", "--part-id=part-none", "--job-id=" + job.id, *rig.state)


def test_verify_without_sources(folder, server, place):
    """Rows are compared with source parts: one that is damaged is told as that, one that is gone is a warning."""
    rig = Rig(folder, server, place, "sources")
    job = plain(rig, "sources", rows=100)
    job.freeze()
    job.upload()
    _, out, _ = rig.run(*job.worker_words(), "--json")
    shown = [json.loads(line) for line in out.splitlines()[:-1]]
    check({line["type"] for line in shown} == {"part", "progress"}, "lines of a worker that has an end: %s" % shown)
    check(not [fault for line in shown for fault in schemas.of_object("worker", line)], "lines of a worker: %s" % shown)
    words = ["verify", job.id, "--level=rows", *rig.state, *rig.store, *rig.scratch]
    key = [k for k in place.keys("partforge/jobs/" + job.id + "/source") if k.endswith("data.bin")][0]
    kept = place.read(key)
    place.write(key, flipped(kept, 40))
    err = rig.refused(2133, 8, *words)
    check("damaged sources" in err and "retry-failed" not in err, "of a damaged source: %s" % err)
    place.remove(key)
    done = rig.json(*words)
    check((done["ok"], done["warned"], done["failed"]) == (1, 1, 0) and done["rows"] == 160, "of a source that is gone: %s" % done)
    place.write(key, kept)
    check(rig.json(*words)["ok"] == 2, "of a source that is there again")


def test_logs_are_rotated_and_limits_looked_at(folder, server, place):
    rig = Rig(folder, server, place, "rotated")
    rig.run("migrate", *rig.state)
    log = os.path.join(folder, "log")
    process = rig.start("worker", *rig.state, *rig.store, *rig.scratch, "--log-file=" + log, "--log-level=debug", "--nice=7", "--metrics-addr=none")
    eventually(lambda: os.path.exists(log) and os.path.getsize(log) > 0, "a log file")
    check(os.getpriority(os.PRIO_PROCESS, process.pid) == 7, "the priority")
    os.rename(log, log + ".1")
    process.send_signal(signal.SIGHUP)
    eventually(lambda: os.path.exists(log), "a log file after SIGHUP")
    process.send_signal(signal.SIGTERM)
    err = rig.end(process)[2]
    check(err == "", "beside the log file: %s" % err)
    check(os.path.getsize(log + ".1") > 0, "the lines before the rotation")
    rig.refused(7015, None, "worker", *rig.state, "--log-file=" + os.path.join(folder, "none", "log"))
    for flag, number in (("--nice=20", 1005), ("--threads=-1", 1005), ("--tls-ca=" + os.path.join(folder, "none"), 1005),
                         ("--tls-key=" + log, 1010), ("--max-upload-rate=fast", 1005)):
        rig.refused(number, 2, "worker", *rig.state, *rig.store, *rig.scratch, "--once", flag)


def test_parts_are_taken_back(folder, server, place):
    """retry-failed of parts that have not failed: in progress, standing still, finished."""
    rig = Rig(folder, server, place, "taken-back")
    job = plain(rig, "taken-back", rows=11, parts=1, where="WHERE sleepEachRow(0.2) = 0")
    job.freeze()
    job.upload()
    retry = ["retry-failed", "--job-id=" + job.id, *rig.state]
    worker = rig.start(*job.worker_words(), "--json")
    try:
        eventually(lambda: job.summary(is_quiet=False)["counts"]["IN_PROGRESS"] == 1, "the part is in progress")
        part = job.status(is_quiet=False)["parts"][0]
        check(part["lease_left_ms"] > 0 and part["lease_owner"] == part["worker_id"] and "lease_token" not in part, "of the lease: %s" % part)
        check(rig.json(*retry, "--all")["retried"] == 0, "a part in progress was taken")
        check(rig.json(*retry, "--stale", "--stale-after=1ms")["retried"] == 0, "a part of a worker that lives was taken")
        rig.refused(2131, 3, *retry, "--part-id=" + part["part_id"])
        taken = rig.json(*retry, "--part-id=" + part["part_id"], "--include-in-progress")
        check(taken["retried"] == 1 and taken["parts"][0] == {"part_id": part["part_id"], "from": "IN_PROGRESS", "to": "READY"}, "taken: %s" % taken)
    finally:
        _, out, _ = rig.end(worker)
    ended = rig_module.told(out)
    # The first attempt is lost; the same worker took the part a second time.
    check(ended["lost"] == 1 and ended["done"] == 1 and ended["rows_conserved"], "the worker says: %s" % ended)
    before = job.status()["parts"][0]
    check(before["status"] == "FINISHED" and before["epoch"] > part["epoch"] + 1, "after the second attempt: %s" % before)
    check(rig.json(*retry, "--all")["retried"] == 0, "a finished part was taken")
    check(rig.json(*retry, "--all", "--force")["parts"][0]["from"] == "FINISHED", "a forced part")
    check(job.summary()["counts"]["READY"] == 1, "not READY after --force")
    who = {e["actor"] for e in rig.json("events", "--job-id=" + job.id, *rig.state)["events"] if e["event"] == "amended"}
    check(len(who) == 1 and re.fullmatch(r"cli:[^@]+@.+", who.pop()), "the history does not tell who: %s" % who)
    job.work()
    job.publish()
    check(job.compare() == 11, "not all rows")
    rig.refused(2131, 3, *retry, "--all", "--force")
    for words, code in ((["--all", "--stale"], 1010), ([], 1006), (["--all", "--force", "--include-in-progress"], 1010),
                        (["--stale", "--stale-after=0"], 1005)):
        rig.refused(code, 2, *retry, *words)


def test_looks_make_nothing_and_need_no_rights(folder, server, place):
    rig = Rig(folder, None, place, "looks")
    state = os.path.join(folder, "kept", "state.db")
    rig.run("migrate", "--state-url=sqlite:" + state)
    nowhere = os.path.join(folder, "nowhere")
    store = ["--s3-endpoint=file://" + nowhere]
    unknown = "job-0123456789abcdef"
    for words in (["gc", *store], ["gc", "--job-id=" + unknown, *store], ["verify", unknown, *store], ["plan", unknown], ["list-jobs"],
                  ["job-status", "--job-id=" + unknown], ["events", "--job-id=" + unknown],
                  ["import-finished", "--job-id=" + unknown, "--database=a", "--table=b", *store]):
        rig.run(*words, "--state-url=sqlite:" + state, expect={0, 1})
        check(not os.path.exists(nowhere), "%s made a folder of objects" % words[0])
        check(os.listdir(os.path.dirname(state)) == ["state.db"], "%s left something beside the state" % words[0])
    for words in (["list-jobs"], ["job-status", "--job-id=" + unknown], ["migrate", "--dry-run"]):
        rig.run(*words, "--state-url=sqlite:" + os.path.join(folder, "none", "state.db"), expect={0, 2})
        check(not os.path.exists(os.path.join(folder, "none")), "%s made a state store" % words[0])
    if os.geteuid() != 0:
        raise rig_module.Skipped("another user can be taken on by root alone")
    # A user who may read the file and its folder, and write neither.
    top = os.path.dirname(folder)
    os.chmod(top, 0o755)
    os.chmod(state, 0o444)
    os.chmod(os.path.dirname(state), 0o555)
    for words in (["list-jobs"], ["list-jobs", "--json"], ["migrate", "--dry-run"]):
        done = subprocess.run([BINARY, *words, "--state-url=sqlite:" + state], capture_output=True, text=True, user=65534, group=65534,
                              extra_groups=[], env={"HOME": "/nonexistent"}, stdin=subprocess.DEVNULL)
        check(done.returncode == 0, "%s as another user: %s" % (words[0], done.stderr))
    done = subprocess.run([BINARY, "retry-failed", "--all", "--job-id=" + unknown, "--state-url=sqlite:" + state], capture_output=True, text=True,
                          user=65534, group=65534, extra_groups=[], env={"HOME": "/nonexistent"}, stdin=subprocess.DEVNULL)
    check(done.returncode == 1 and "PF6008" in done.stderr, "a command that writes: %s" % done.stderr)
    os.chmod(os.path.dirname(state), 0o755)


# check: UX-5
def test_every_exit(folder, server, place):
    rig = Rig(folder, server, place, "exits")
    job = plain(rig, "exits", rows=100, parts=3)
    rig.run("version", expect=0)
    rig.run("list-jobs", *rig.state, expect=2)
    rig.run("list-jobs", "--nonsense", expect=2)
    empty = ["--state-url=sqlite:" + os.path.join(folder, "empty.db")]
    rig.run("migrate", *empty)
    rig.run("job-status", "--job-id=job-x", *empty, expect=1)
    job.freeze()
    check(rig.json("freeze", "--freeze=" + job.freeze_name, *job.source_words())["was_there"], "the same freeze is another one")
    server.sql("ALTER TABLE %s FREEZE PARTITION tuple() WITH NAME 'of_others'" % job.source)
    server.sql("INSERT INTO %s SELECT * FROM %s LIMIT 1" % (job.source, job.source))
    rig.run("freeze", "--freeze=of_others", *job.source_words(), expect=3)
    server.sql("ALTER TABLE %s DETACH PART 'all_4_4_0'" % job.source)
    job.upload()
    rig.run("import-finished", "--clickhouse-url=http://127.0.0.1:9", *job.import_words()[1:4], *rig.state, *rig.store, expect={3, 7})
    rig.run("list-jobs", "--state-url=postgres://a@127.0.0.1:9/b", expect=7)
    job.work()
    tar = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".tar")][0]
    good = place.read(tar)
    place.write(tar, flipped(good, len(good) // 2))
    rig.run("verify", job.id, *rig.state, *rig.store, expect=8)
    # 6: the importer dies between sending and knowing, and somebody removes the bound directory before the next run.
    place.write(tar, good)
    check(rig.run(*job.import_words(), "--import-concurrency=1", "--import-lease-ttl=1s", fault="publish.bound:1:kill", expect=-9)[0] == -9, "not killed")
    detached = os.path.join(server.folder_of(job.database, "dst"), "detached")
    bound = [n for n in os.listdir(detached) if n.startswith("pftmp_")]
    check(bound, "nothing is bound: %s" % os.listdir(detached))
    kept = os.path.join(folder, "kept")
    os.makedirs(kept)
    for name in bound:
        os.rename(os.path.join(detached, name), os.path.join(kept, name))
    _, _, err = rig.run(*job.import_words(), "--import-lease-ttl=1s", expect=6)
    check("PF2138" in err, err)
    check(job.summary()["live_commits"][0]["in_doubt"], "the doubt is not recorded")
    for name in bound:
        os.rename(os.path.join(kept, name), os.path.join(detached, name))
    rig.run(*job.import_words(), "--import-lease-ttl=1s")
    job.compare()
    rig.run(*job.import_words(), "--fail-if-empty", expect=9)
    # 4: one part is damaged.
    part = plain(rig, "partly", rows=100, parts=2)
    part.freeze()
    part.upload()
    part.work()
    tar = [k for k in place.keys("partforge/jobs/" + part.id) if k.endswith(".tar")][0]
    place.write(tar, flipped(place.read(tar), 2000))
    rig.run(*part.import_words(), expect=4)
    # 5: another import holds the table.
    other = plain(rig, "held", rows=100)
    other.freeze()
    other.upload()
    other.work()
    # The holder waits and is not stopped: that could be inside of a transaction, which would hold the state store, too.
    holder = rig.start(*other.import_words(), fault="clickhouse.piece_staged:1:delay=10000")
    eventually(lambda: other.summary(is_quiet=False)["counts"]["IMPORTING"] > 0, "the holder has begun")
    rig.run(*other.import_words(), "--wait=0", expect=5)
    rig.end(holder)
    # 130 and 143: a foreground command that is stopped; the same command then goes on.
    slow = plain(rig, "slow", rows=6, parts=1, where="WHERE sleepEachRow(0.4) = 0")
    server.sql("DROP TABLE " + slow.destination)
    words = ["rewrite", "--job-id=" + slow.id, "--bucket=forge", *slow.source_words(), *slow.files(), *rig.state, *rig.store, *rig.scratch]
    for number, wanted in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        command = rig.start(*words, "--lease-ttl=1s")
        eventually(lambda: os.path.exists(os.path.join(place.folder, "exits.db")) and in_progress(rig, slow), "the rewrite has claimed")
        command.send_signal(number)
        rig.end(command, expect=wanted)
    rig.run(*words)
    slow.compare()
    check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130, 143} <= rig_module.EXITS, "exits seen: %s" % sorted(rig_module.EXITS))


def test_a_stop_at_the_start(folder, server, place):
    """A command that is told to stop while it still reads its settings: nothing is begun, and the exit is the one of a later stop."""
    rig = Rig(folder, None, place, "early")
    rig.run("migrate", *rig.state)
    settings = os.path.join(folder, "settings")
    os.mkfifo(settings)
    for words, number, wanted in ((["list-jobs"], signal.SIGTERM, 143), (["list-jobs"], signal.SIGINT, 130), (["gc", *rig.store], signal.SIGTERM, 143),
                                  (["worker", "--json", "--metrics-addr=none", *rig.store, *rig.scratch], signal.SIGTERM, 0)):
        command = rig.start(*words, *rig.state, "--config=" + settings)
        with open(settings, "w", encoding="utf-8") as writer:   # opens once the command reads it
            command.send_signal(number)
            eventually(lambda: not pending(command.pid, number), "the signal is taken", 10)
            writer.write("{}")
        _, out, err = rig.end(command, expect=wanted)
        if wanted:
            check(out == "" and "stopped" in err, "%s stopped early: %s%s" % (words[0], out, err))
        else:
            check(rig_module.told(out)["done"] == 0, "a worker stopped early: %s%s" % (out, err))
    # The second signal ends it where it stands.
    command = rig.start("list-jobs", *rig.state, "--config=" + settings)
    with open(settings, "w", encoding="utf-8"):
        command.send_signal(signal.SIGTERM)
        eventually(lambda: not pending(command.pid, signal.SIGTERM), "the first signal is taken", 10)
        command.send_signal(signal.SIGTERM)
        rig.end(command, expect=143)


def pending(pid, number):
    """Whether a signal waits for the process to take it."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as status:
        found = re.search(r"^ShdPnd:\s*([0-9a-f]+)", status.read(), re.M)
    return bool(int(found.group(1), 16) >> (number - 1) & 1)


def in_progress(rig, job):
    code, out, _ = rig.run("job-status", "--job-id=" + job.id, "--json", *rig.state, expect=None)
    return code == 0 and json.loads(out)["summary"]["counts"]["IN_PROGRESS"] == 1


# check: UX-9
def test_every_command_may_be_killed(folder, server, place):
    rig = Rig(folder, server, place, "killed")

    def dies(point, *words, hit=1):
        """The command is killed at the point, and the same command again ends well."""
        rig.run(*words, fault="%s:%d:kill" % (point, hit), expect=-9)
        return rig.run(*words)

    dies("job.sqlite_committed", "migrate", *rig.state)
    job = plain(rig, "killed", rows=100)
    server.sql("DROP TABLE " + job.destination)
    words = ["rewrite", "--job-id=" + job.id, "--bucket=forge", "--lease-ttl=1s", "--import-lease-ttl=1s", "--max-crashes=50", *job.source_words(), *job.files(),
             *rig.state, *rig.store, *rig.scratch]
    # One command on its way through all of its steps: each run is killed a step later than the one before.
    for point in ("clickhouse.table_frozen", "clickhouse.part_registered", "clickhouse.job_sealed", "clickhouse.source_attached",
                  "clickhouse.meta_uploaded", "job.settled", "publish.decided", "publish.bound", "clickhouse.piece_attached", "publish.published"):
        rig.run(*words, fault=point + ":1:kill", expect=-9)
    rig.run(*words)
    job.compare()
    check(not [n for n in os.listdir(os.path.join(folder, "work")) if n.startswith("run") and os.path.isdir(os.path.join(folder, "work", n))],
          "scratch is left: %s" % os.listdir(os.path.join(folder, "work")))
    left = rig.json("gc", "--older-than=0", *rig.state, *rig.store, *rig.scratch)["objects"]
    check(left, "the killed attempts left nothing, so gc is not tested")
    dies("clickhouse.leftovers_deleted", "gc", "--older-than=0", "--delete", *rig.state, *rig.store, *rig.scratch)
    check(rig.json("gc", "--older-than=0", *rig.state, *rig.store, *rig.scratch)["objects"] == [], "gc left something")
    dies("job.locked_run_folder", "verify", job.id, "--level=rows", *rig.state, *rig.store, *rig.scratch)
    dies("job.locked_run_folder", "check", *["--%s=%s" % (flag, os.path.join(folder, "killed." + name)) for flag, name in
                                             (("job-sql", "insert.sql"), ("dest-schema", "new.sql"))], *job.source_words(), *rig.scratch)
    check(rig.run("list-jobs", *rig.state)[1].count(job.id) == 1, "more jobs than one")
    # The same steps as commands of their own; upload-freeze, worker and import-finished at all of their points: the crash matrix.
    second = plain(rig, "killed2", rows=100, where="WHERE throwIf(id = 7 AND materialize(1) = 1, 'seven') = 0")
    rig.run("freeze", "--freeze=" + second.freeze_name, *second.source_words(), fault="clickhouse.table_frozen:1:kill", expect=-9)
    rig.run("freeze", "--freeze=" + second.freeze_name, *second.source_words())   # it is there, and is told apart from another one
    dies("clickhouse.job_sealed", *second.upload_words())
    second.work()
    check(second.summary()["counts"]["FAILED"] == 1, "no part failed: %s" % second.summary())
    rig.run("retry-failed", "--all", "--job-id=" + second.id, *rig.state, fault="job.sqlite_committed:1:kill", expect=-9)
    rig.run("retry-failed", "--all", "--job-id=" + second.id, *rig.state)
    check(second.summary()["counts"]["READY"] == 1 and not second.summary()["paused"], "after retry-failed: %s" % second.summary())
    second.work()
    dies("publish.bound", *second.import_words(), "--partial", "--import-lease-ttl=1s")
    check(server.number("SELECT count() FROM " + second.destination) == 100, "rows of the part that did not fail")
    job.compare()
    # The id of a finished job does not make another request done.
    other = plain(rig, "other", rows=50)
    rig.refused(6006, 5, "rewrite", "--job-id=" + job.id, "--bucket=forge", *other.source_words(), *job.files(), *rig.state, *rig.store, *rig.scratch)
    rig.refused(6006, 5, "rewrite", "--job-id=" + job.id, "--bucket=forge", *job.source_words(), *other.files(), *rig.state, *rig.store, *rig.scratch)
    rig.refused(6006, 5, "rewrite", "--job-id=" + job.id, "--bucket=elsewhere", *job.source_words(), *job.files(), *rig.state, *rig.store, *rig.scratch)


# Commands that only look change nothing durable, so a kill of them is a kill of a reader: at any moment.
# check: UX-9
def test_every_reader_may_be_killed(folder, server, place):
    rig = Rig(folder, server, place, "readers")
    job = plain(rig, "readers", rows=100)
    job.freeze()
    job.upload()
    before = digest(place, os.path.join(place.folder, "readers.db"))
    readers = [["list-jobs"], ["job-status", "--details", "--job-id=" + job.id], ["events", "--job-id=" + job.id], ["plan", job.id],
               ["verify", job.id, *rig.store], ["gc", "--older-than=0", *rig.store, *rig.scratch]]
    for words in readers:
        for delay_ms in (0, 5, 20, 60):   # before, at and after its start; a command that was faster has ended well
            command = rig.start(*words, *rig.state)
            time.sleep(delay_ms / 1000)
            command.kill()
            rig.end(command, expect={-9, 0})
        rig.run(*words, *rig.state)
        check(digest(place, os.path.join(place.folder, "readers.db")) == before, "%s changed something" % words[0])


CANARY = "canary-7f3a91c2d4"


# check: UX-10
def test_no_secret_is_shown(folder, server, place):
    rig = Rig(folder, server, place, "canary")
    job = plain(rig, "canary", rows=100)
    secret = os.path.join(folder, "secret")
    with open(secret, "w") as f:
        f.write(CANARY + "\n")
    os.chmod(secret, 0o600)
    rig.environment.update(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY=CANARY, AWS_SESSION_TOKEN=CANARY + "-t", PGPASSWORD=CANARY,
                           CLICKHOUSE_PASSWORD=CANARY)
    texts = []

    def run(*words, expect=0):
        process = rig.start(*words, "-vv")
        lines = set()
        while process.poll() is None:
            for pid in [process.pid] + children_of(process.pid):
                try:
                    with open("/proc/%d/cmdline" % pid, "rb") as f:
                        lines.add(f.read().decode(errors="replace"))
                except OSError:
                    pass
            time.sleep(0.02)
            if process.stdout.closed:
                break
            if len(lines) > 50:
                break
        _, out, err = rig.end(process, expect=expect)
        texts.extend([(words[0] + " command line", line) for line in lines])
        texts.append((words[0] + " stdout", out))
        texts.append((words[0] + " stderr", err))

    url = "postgres://me:%s@127.0.0.1:9/x" % CANARY
    run("freeze", "--freeze=" + job.freeze_name, *job.source_words(), expect=None)
    # The engine of the test has no users, so a password is no matter there.
    run(*job.upload_words(), "--clickhouse-password-file=" + secret)
    run(*job.worker_words())
    run(*job.import_words(), "--clickhouse-password-file=" + secret)
    run("config", "print", "worker")
    run("config", "print", "worker", "--json")
    for words in (["list-jobs", "--state-url=" + url, "--allow-password-on-command-line"],
                  ["list-jobs", "--state-url=" + url], ["freeze", "--clickhouse-password=" + CANARY, "--freeze=a", "--database=b", "--table=c"]):
        # Their own argument is on the command line; whatever the program prints must not hold it.
        _, out, err = rig.run(*words, expect={2, 7})
        texts.append(("%s stdout" % words[0], out))
        texts.append(("%s stderr" % words[0], err))
    check("PF1014" in texts[-1][1] and "PF1014" in texts[-3][1], "a secret on the command line was accepted")
    rig.environment["PARTFORGE_STATE_URL"] = url
    run("list-jobs", expect=7)
    run("config", "print", "list-jobs")
    check("postgres://me:***@" in texts[-2][1], "config print hides more than the password: %s" % texts[-2][1])
    del rig.environment["PARTFORGE_STATE_URL"]
    for key in place.keys("partforge"):
        texts.append(("object " + key, place.read(key).decode(errors="replace")))
    for name in os.listdir(place.folder):
        path = os.path.join(place.folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as f:
                texts.append(("state " + name, f.read().decode(errors="replace")))
    for where, text in texts:
        check(CANARY not in text, "the canary is in %s: …%s…" % (where, text[max(0, text.find(CANARY) - 80):][:200]))
    # A process title that held one is rewritten at once.
    sleeper = rig.start("worker", "--state-url=sqlite:" + os.path.join(place.folder, "canary.db"), "--metrics-addr=", *rig.store, *rig.scratch,
                        "--s3-endpoint=http://u:%s@127.0.0.1:9" % CANARY, "--allow-password-on-command-line")
    try:
        def hidden():
            with open("/proc/%d/cmdline" % sleeper.pid, "rb") as f:
                return CANARY.encode() not in f.read()
        eventually(hidden, "the command line is rewritten", 10)
    finally:
        sleeper.send_signal(signal.SIGTERM)
        rig.end(sleeper, expect=None)


# Names that become paths and keys. Hostile archives: outages.py.
# check: UX-11
def test_hostile_names(folder, server, place):
    rig = Rig(folder, server, place, "hostile_names")
    job = plain(rig, "hostile", rows=10, parts=1)
    job.freeze()
    before = place.keys("partforge/jobs")   # of the other tests, which share the place

    def refused(flag, name):
        err = rig.refused(8006, 3, *[w for w in job.upload_words() if not w.startswith(flag + "=")], flag + "=" + name)
        check("\x1b" not in err and len(err) < 4000, "%s %r: %s" % (flag, name, err))

    for name in ("../evil", "a/b", "..", "/", "x" * 300, "a\nb", "a b", "é", "\x1b[2J", "a*"):
        refused("--job-id", name)
    for name in ("../shadow", "/etc", "a/../../b", ".", "a\nb", "\x1b[2J"):
        refused("--freeze", name)
    for name in ("../up", "a/../b", "a/*", "[x]", "./a", "\x1b[2J", "a\nb", "x" * 2000):
        refused("--prefix", name)
    check(place.keys("partforge/jobs") == before, "objects of a refused upload")
    check(not os.path.exists(os.path.join(place.folder, "hostile_names.db")), "a state store of a refused upload")
    rig.run("migrate", *rig.state)
    for name in ("\x1b[2J", "' OR 1=1 --", "%s%n", "a" * 5000, "../../etc/passwd"):   # only looked up: no such job
        _, _, err = rig.run("job-status", "--job-id=" + name, *rig.state, expect=1)
        check("PF2130" in err and "\x1b" not in err, "%r: %s" % (name, err))


# check: UX-8
def test_demo(folder, server, place):
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(DEPS, "data", "flights-2013.parquet")) and "share" not in BINARY:
        raise rig_module.Skipped("scripts/setup has not fetched the demo data")
    environment = {"PATH": os.environ["PATH"], "TMPDIR": folder, "LC_ALL": "C.UTF-8", "PARTFORGE_DEPS_PREFIX": DEPS, "HOME": folder}
    started = time.monotonic()
    done = subprocess.run([BINARY, "demo"], capture_output=True, text=True, env=environment, timeout=300)
    took = time.monotonic() - started
    check(done.returncode == 0, "the demo ended with %d: %s" % (done.returncode, done.stderr))
    check(done.stdout.count("✓") == 3 and "✗" not in done.stdout, "ticks: %s" % done.stdout)
    check("336 776 = 336 776 ✓" in done.stdout and len(done.stdout.splitlines()) <= 25, done.stdout)
    check(all(line.isascii() or "✓" in line or "→" in line or "…" in line or "·" in line or "─" in line for line in done.stdout.splitlines()), done.stdout)
    if "build/release" in BINARY:
        check(took < 60, "the demo took %.0f s" % took)
    left = [os.path.join(p, n) for p, d, f in os.walk(folder) for n in f]
    check(not left, "left behind: %s" % left)
    # Killed itself: its children end, and gc --delete takes the rest away.
    demo = subprocess.Popen([BINARY, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    eventually(lambda: [1 for p, d, f in os.walk(folder) if "state.db" in f], "the demo has a state store")
    children = children_of(demo.pid)
    check(children, "the demo has no children")
    demo.kill()
    demo.wait()
    eventually(lambda: not [pid for pid in children if os.path.exists("/proc/%d" % pid) and not zombie(pid)], "the demo's children end", 30)
    check([1 for p, d, f in os.walk(folder) if f], "a killed demo left nothing to test gc with")
    subprocess.run([BINARY, "gc", "--delete", "--state-url=sqlite:" + os.path.join(folder, "none.db")], env=environment, capture_output=True)
    subprocess.run([BINARY, "migrate", "--state-url=sqlite:" + os.path.join(folder, "gc.db")], env=environment, check=True, capture_output=True)
    done = subprocess.run([BINARY, "gc", "--delete", "--state-url=sqlite:" + os.path.join(folder, "gc.db")], env=environment, capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    left = [os.path.join(p, n) for p, d, f in os.walk(folder) for n in f if not n.startswith("gc.db")]
    check(not left, "gc left: %s" % left[:10])


def zombie(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_docs_name_real_commands_and_flags(folder, server, place):
    known = {name: set(re.findall(r"--([a-z0-9-]+)", subprocess.run([BINARY, *name.split(), "--help"], capture_output=True, text=True, env={}).stdout))
             for name in commands()}
    pages = [os.path.join(SOURCE, "README.md")] + [os.path.join(SOURCE, "docs", n) for n in sorted(os.listdir(os.path.join(SOURCE, "docs"))) if n.endswith(".md")]
    seen = 0
    for page in pages:
        with open(page, encoding="utf-8") as f:
            text = f.read()
        for block in re.findall(r"```sh\n(.*?)```", text, re.S):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"\s*partforge ([a-z-]+)(.*)", line.split("#")[0])
                if not found:
                    continue
                name, rest = found.groups()
                if name not in known and rest.split():
                    name = "%s %s" % (name, rest.split()[0])
                check(name in known, "%s names a command that is not there: %s" % (page, line))
                for flag in re.findall(r"--([a-z0-9-]+)", rest):
                    check(flag in known[name], "%s names a flag that is not there: %s --%s" % (page, name, flag))
                seen += 1
    check(seen > 10, "only %d commands found" % seen)


def test_broken_pipe(folder, server, place):
    done = subprocess.run(["bash", "-c", "'%s' explain | head -n 1 > /dev/null; echo ${PIPESTATUS[0]}" % BINARY], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"]})
    check(done.stdout.strip() in ("0", "141") and done.stderr == "", "a broken pipe: %s %s" % (done.stdout, done.stderr))


def lint(page):
    """Names, units, types and help of a metrics page."""
    kinds, helps, samples = {}, set(), set()
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            kinds[name] = kind
        elif line.startswith("# HELP "):
            check(len(line.split(" ", 3)) == 4, "no help text: " + line)
            helps.add(line.split(" ")[2])
        elif line:
            found = re.fullmatch(r"([a-z_][a-z0-9_]*)(\{[^}]*\})? (\S+)", line)
            check(found, "no sample: " + line)
            float(found.group(3))
            samples.add(found.group(1))
            for label in re.findall(r'([a-z_]+)="', found.group(2) or ""):
                check(label not in ("key", "message", "path", "url", "error"), "a label without bounds: " + line)
    for name in samples:
        family = re.sub("_(bucket|sum|count)$", "", name) if re.sub("_(bucket|sum|count)$", "", name) in kinds else name
        check(family in kinds and family in helps, "no type or help: " + name)
        check(name.startswith(("partforge_", "process_")), "no prefix: " + name)
        check((kinds[family] == "counter") == family.endswith("_total"), "%s is a %s" % (family, kinds[family]))
        check(not re.search("_(ms|millis|mib|kb|minutes)(_|$)", family), "no base unit: " + family)
    return samples


# check: UX-13
def test_metrics_and_health(folder, server, place):
    import urllib.request
    rig = Rig(folder, server, place, "metrics")
    job = plain(rig, "metrics", rows=11, parts=1, where="WHERE sleepEachRow(0.2) = 0")
    job.freeze()
    job.upload()
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    worker = rig.start("worker", "--metrics-addr=127.0.0.1:%d" % port, *rig.state, *rig.store, *rig.scratch)
    try:
        def get(path):
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=5) as reply:
                    return reply.read().decode()
            except OSError:
                return None
        eventually(lambda: get("/livez"), "the worker answers")
        page = get("/metrics")
        check("partforge_build_info{" in page and "# TYPE" in page, page)
        seen = set()

        def done():
            seen.update(lint(get("/metrics")))
            return job.summary(is_quiet=False)["counts"]["FINISHED"] == 1
        eventually(done, "the part is done")
        seen.update(lint(get("/metrics")))
        for name in ("partforge_forges_completed_total", "partforge_rewrite_current_stage", "process_resident_memory_bytes"):
            check(name in seen, "%s is not among %s" % (name, sorted(seen)))
        check(get("/readyz").startswith("ok"), "not ready")
        built = re.findall(r"^partforge_build_info\{(.*)\} 1$", get("/metrics"), re.M)
        told = json.loads(get("/version"))
        check(len(built) == 1 and 'revision="%s"' % told["revision"] in built[0] and re.search(r'engine_version="\d+\.', built[0]), "built: %s" % built)
        check(rig.json("version")["revision"] == told["revision"], "two revisions")
    finally:
        worker.send_signal(signal.SIGTERM)
        rig.end(worker)


ALL = [test_help_needs_nothing, test_a_terminal_without_utf8, test_mistakes_are_told, test_dry_runs_change_nothing, test_a_dry_rewrite_makes_nothing, test_a_shared_lease, test_a_crash_is_told, test_parts_are_taken_back, test_looks_make_nothing_and_need_no_rights, test_every_document_parses, test_every_exit, test_a_stop_at_the_start,
       test_every_command_may_be_killed, test_every_reader_may_be_killed, test_no_secret_is_shown, test_hostile_names, test_docs_name_real_commands_and_flags, test_broken_pipe, test_tables_as_csv, test_ages_and_details, test_verify_without_sources, test_logs_are_rotated_and_limits_looked_at, test_metrics_and_health, test_demo]

if __name__ == "__main__":
    rig_module.main("surface", ALL, LocalPlace)
