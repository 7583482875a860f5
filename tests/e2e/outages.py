"""What breaks around the program while it works: disks, processes, services, frozen parts and their schemas."""
import http.server
import json
import os
import random
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
import urllib.error
import urllib.request

from journeys import plain, stopped
import rig as rig_module
from rig import Job, Rig, Skipped, check, children_of, eventually, quoted, told


def engine_child(worker):
    """The process id of the worker's engine."""
    def look():
        for pid in children_of(worker.pid):
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as f:
                    if b"engine" in f.read().split(b"\0"):
                        return pid
            except OSError:
                pass
        return None
    return look


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def slow_job(rig, name, rows=11):
    """A job whose insert takes seconds: a quarter of a second a row. An engine sleeps three seconds a block at most."""
    return plain(rig, name, rows=rows, parts=1, where="WHERE sleepEachRow(0.25) = 0")


def waits_in_insert(rig, job):
    def look():
        parts = job.status(is_quiet=False)["parts"]
        return [p for p in parts if p["status"] == "IN_PROGRESS" and p.get("rewrite_stage") == "insert_select"]
    return look


# check: PF-39
def test_sigterm_in_insert(folder, server, place):
    rig = Rig(folder, server, place, "term")
    job = slow_job(rig, "term")
    job.freeze()
    job.upload()
    worker = rig.start("worker", "--job-id=" + job.id, "--metrics-addr=", "--parallel=1", "--json", *rig.state, *rig.store, *rig.scratch)
    eventually(waits_in_insert(rig, job), "the worker inserts")
    started = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    _, out, err = rig.end(worker, expect=0, timeout=30)
    check(time.monotonic() - started < 15, "the stop took %.1f s" % (time.monotonic() - started))
    summary = job.summary()
    check(summary["counts"]["READY"] == 1, "the row was not given back: %s" % summary["counts"])
    check(told(out)["released"] == 1, out)
    check(not [n for n in os.listdir(os.path.join(folder, "work")) if n.startswith("run")], "scratch is left")


def test_engine_is_killed_in_insert(folder, server, place):
    rig = Rig(folder, server, place, "engine")
    job = slow_job(rig, "engine")
    job.freeze()
    job.upload()
    worker = rig.start(*job.worker_words())
    eventually(waits_in_insert(rig, job), "the worker inserts")
    os.kill(eventually(engine_child(worker), "the engine child"), signal.SIGKILL)
    rig.end(worker)
    part = job.status()["parts"][0]
    check(part["status"] == "FINISHED" and part["insert_attempts"] > 1, "after the kill: %s" % part)
    job.publish()
    check(job.compare() == 11, "not all rows")


# check: PF-9
def test_a_worker_sleeps_past_its_lease(folder, server, place):
    for attempt in range(8):
        name = "sleeper%d" % attempt
        rig = Rig(folder, server, place, name)
        job = plain(rig, name, parts=1)
        job.freeze()
        job.upload()
        words = ["--lease-ttl=1s", "--parallel=1", "--metrics-addr=", *rig.state, *rig.store, "--job-id=" + job.id]
        sleeper = rig.start("worker", "--once", "--json", "--worker-id=sleeper", "--work-dir=" + os.path.join(folder, name), *words,
                            fault="clickhouse.meta_uploaded:1:stop")
        eventually(lambda: stopped(sleeper.pid), "the first worker stops after its upload")
        if place.is_free(name):
            break
        # The thread that renews its lease stood inside a transaction, and nobody else could begin one.
        os.kill(sleeper.pid, signal.SIGCONT)
        rig.end(sleeper)
    check(place.is_free(name), "the worker stops inside a transaction each time")
    time.sleep(1.2)   # its lease of one second runs out
    rig.run("worker", "--drain", "--worker-id=second", *rig.scratch, *words)
    taken = job.status()["parts"][0]
    before = events_of(rig, job)
    os.kill(sleeper.pid, signal.SIGCONT)
    _, out, _ = rig.end(sleeper)
    ended = told(out)
    check((ended["lost"], ended["done"], ended["failed"]) == (1, 0, 0), "the sleeper says: %s" % ended)
    part = job.status()["parts"][0]
    check(part["status"] == "FINISHED" and part["worker_id"].startswith("second") and part["meta_key"] == taken["meta_key"], "after waking: %s" % part)
    check(taken["meta_key"] in place.keys(), "the winner's objects are gone")
    taken_over(before)
    check(events_of(rig, job) == before, "the sleeper changed something: %s" % events_of(rig, job))
    job.publish()
    check(job.compare() == 800, "not all rows")


def events_of(rig, job):
    return rig.json("events", "--job-id=" + job.id, *rig.state)["events"]


def taken_over(events):
    """The events show one part whose first attempt lost its lease, and whose second ended it."""
    seen = [(e["event"], e["epoch"], e["to"]) for e in events if e["part_id"]]
    story = [("claimed", 1, "IN_PROGRESS"), ("lease_expired", 1, ""), ("claimed", 2, "IN_PROGRESS"), ("settled", 2, "FINISHED")]
    check([e for e in seen if e in story] == story and seen[-1] == story[-1] and not [e for e in seen if e[2] in ("FINISHED", "FAILED") and e[1] == 1],
          "the events tell another story: %s" % events)
    actors = [e["actor"] for e in events if e["event"] == "claimed"]
    check(actors[0] != actors[1] and actors[1] == "second", "claimed by %s" % actors)


# check: PF-47
def test_covered_part_in_the_freeze(folder, server, place):
    rig = Rig(folder, server, place, "covered")
    job = plain(rig, "covered", rows=100, parts=2)
    job.freeze()
    server.sql("SYSTEM START MERGES " + job.source)
    server.sql("OPTIMIZE TABLE %s FINAL" % job.source)
    shadow = os.path.join(server.folder, "shadow", job.freeze_name)
    merged = [os.path.join(server.folder_of(job.database, "src"), n) for n in os.listdir(server.folder_of(job.database, "src")) if n.startswith("all_1_2_1")]
    place_of_parts = [place for place, folders, _ in os.walk(shadow) if "all_1_1_0" in folders][0]
    subprocess.run(["cp", "-a", merged[0], place_of_parts], check=True)
    err = rig.refused(2136, 3, *job.upload_words())
    check("all_1_2_1" in err and "all_1_1_0" in err, err)
    plan = rig.json(*job.upload_words(), "--skip-covered", "--dry-run")
    check([p["name"] for p in plan["parts"]] == ["all_1_2_1"] and sorted(plan["skipped"]) == ["all_1_1_0", "all_2_2_0"], "plan: %s" % plan)


# check: PF-46
def test_freeze_name_of_two_tables(folder, server, place):
    rig = Rig(folder, server, place, "shared")
    job = plain(rig, "shared", rows=100, parts=2)
    other = plain(rig, "shared2", rows=100, parts=3)
    for one in (job, other):
        server.sql("ALTER TABLE %s FREEZE WITH NAME 'both'" % one.source)
        one.freeze_name = "both"
    check(rig.json(*job.upload_words())["parts"] == 2, "parts of another table")
    job.work()
    job.publish()
    check(job.compare() == 160, "not all rows")
    refused = Job(rig, "shared3", "id UInt64", "(id UInt64) ENGINE = MergeTree ORDER BY id", table="third")
    refused.tables("SELECT 1")
    refused.freeze_name = "both"
    rig.refused(2102, 1, *refused.upload_words())


def test_freezes_that_are_refused(folder, server, place):
    rig = Rig(folder, server, place, "refusals")
    job = plain(rig, "refusals", rows=100, parts=2)
    job.freeze()
    check(rig.json("freeze", "--freeze=" + job.freeze_name, *job.source_words())["was_there"], "the same freeze is another one")
    server.sql("ALTER TABLE %s FREEZE PARTITION tuple() WITH NAME 'of_then'" % job.source)
    server.sql("INSERT INTO %s SELECT * FROM %s LIMIT 1" % (job.source, job.source))
    rig.refused(2127, 3, "freeze", "--freeze=of_then", *job.source_words())
    server.sql("ALTER TABLE %s DETACH PART 'all_3_3_0'" % job.source)
    rig.refused(2101, 1, "freeze", "--freeze=x", "--database=" + job.database, "--table=nothing", *rig.url)
    server.sql("CREATE VIEW %s.v AS SELECT 1" % quoted(job.database))
    rig.refused(2101, 3, "freeze", "--freeze=x", "--database=" + job.database, "--table=v", *rig.url)
    # The same part under two freezes.
    job.freeze_name = "second"
    job.freeze()
    err = rig.refused(2119, 3, *job.upload_words(), "--freeze=f_refusals")
    check("are one part" in err, err)
    # A mutation that never ends, because merges are stopped.
    server.sql("ALTER TABLE %s DELETE WHERE id = 1" % job.source, mutations_sync=0, alter_sync=0)
    rig.refused(2108, 3, "freeze", "--freeze=y", *job.source_words())
    rig.refused(2108, 3, *job.upload_words())
    server.sql("KILL MUTATION WHERE database = '%s'" % job.database)


def test_a_paused_job_is_told(folder, server, place):
    rig = Rig(folder, server, place, "paused")
    job = plain(rig, "paused", rows=50, parts=2)
    job.freeze()
    job.upload()
    import sqlite3
    state = os.path.join(place.folder, "paused.db")

    def pause(flag):
        with sqlite3.connect(state) as db:
            check(db.execute("UPDATE jobs SET paused = ? WHERE job_id = ?", (flag, job.id)).rowcount == 1, "no such job")

    pause(1)
    for end in ("--drain", "--once"):
        err = rig.refused(2143, 3, *[w for w in job.worker_words() if w != "--drain"], end)
        check("retry-failed" in err and "2 parts wait" in err, err)
    rig.refused(2143, 3, "rewrite", "--job-id=" + job.id, "--bucket=forge", *job.source_words(), *job.files(), *rig.state, *rig.store, *rig.scratch)
    check(job.summary()["paused"] and job.summary()["counts"]["READY"] == 2, "a paused job was worked on: %s" % job.summary())
    pause(0)
    job.work()
    job.publish()
    check(job.compare() == 80, "not all rows")


# Projections and masks of deleted rows are handled; the plan says so.
def test_notes_of_a_plan(folder, server, place):
    rig = Rig(folder, server, place, "notes")
    job = plain(rig, "notes", rows=50, parts=1)
    server.sql("SYSTEM START MERGES " + job.source)
    server.sql("DELETE FROM %s WHERE id = 7" % job.source, lightweight_deletes_sync=2)
    server.sql("SYSTEM STOP MERGES " + job.source)
    server.sql("ALTER TABLE %s ADD PROJECTION p (SELECT kind ORDER BY kind)" % job.source)
    server.sql("INSERT INTO %s SELECT 1000, 1, 'x'" % job.source)
    job.freeze()
    notes = rig.json(*job.upload_words(), "--dry-run")["notes"]
    check([n.split()[0] for n in notes] == ["PF2109", "PF2110"], "notes: %s" % notes)
    job.upload()
    job.upload()   # the notes are words: they make no other job of it
    plan = rig.json("plan", job.id, *rig.state)
    check(plan["notes"] == notes and not plan["warnings"], "the plan of what waits: %s" % plan)
    job.work()
    job.publish()
    check(job.compare() == 39, "not all rows")


# What the books say must add up before anything is published.
def test_rows_that_do_not_add_up(folder, server, place):
    rig = Rig(folder, server, place, "sums")
    job = plain(rig, "sums", rows=50, parts=2)
    job.freeze()
    job.upload()
    job.work()
    import sqlite3
    state = os.path.join(place.folder, "sums.db")

    def write(count):
        with sqlite3.connect(state) as db:
            number = 0
            for table, column in (("attempts", "result"), ("attempts", "payload")):
                if column not in [r[1] for r in db.execute("PRAGMA table_info(%s)" % table)]:
                    continue
                for row, text in list(db.execute("SELECT rowid, %s FROM %s" % (column, table))):
                    changed = re.sub(r'("rows_written": ?)\d+', lambda m: m.group(1) + str(count), text or "")
                    number += changed != (text or "")
                    db.execute("UPDATE %s SET %s = ? WHERE rowid = ?" % (table, column), (changed, row))
            check(number == 2, "%d results" % number)

    write(41)
    err = rig.refused(2137, 8, *job.import_words())
    check("100 in = 80 out" in err and server.number("SELECT count() FROM " + job.destination) == 0, err)
    check(not rig.json("job-status", "--job-id=" + job.id, *rig.state)["summary"]["rows_conserved"], "job-status does not say so")
    write(40)
    _, out, _ = job.publish()
    check("100 in = 80 out + 20 filtered" in out, "no line of the rows: %s" % out)
    check(job.compare() == 80, "not all rows")


# A worker that is asked while its engine says nothing: stopped, as if it hung.
# check: PF-50
def test_metrics_answer_while_the_engine_does_not(folder, server, place):
    rig = Rig(folder, server, place, "scrape")
    job = slow_job(rig, "scrape")
    job.freeze()
    job.upload()
    port = free_port()
    worker = rig.start("worker", "--job-id=" + job.id, "--metrics-addr=127.0.0.1:%d" % port, "--parallel=1", *rig.state, *rig.store, *rig.scratch)

    def page():
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=30) as reply:
            return reply.status, reply.read().decode()

    eventually(waits_in_insert(rig, job), "the worker inserts")
    engine = eventually(engine_child(worker), "the engine child")
    os.kill(engine, signal.SIGSTOP)
    eventually(lambda: stopped(engine), "the engine stands still")
    status, text = page()
    check(status == 200 and "partforge_rewrite_current_stage{" in text and "partforge_build_info{" in text, "%s: %s" % (status, text[:2000]))
    status, again = page()
    check(status == 200 and "partforge_forges_started_total" in again, "the second scrape: %s" % again[:2000])
    check(stopped(engine), "the engine answered after all")
    os.kill(engine, signal.SIGCONT)
    eventually(lambda: job.summary(is_quiet=False)["counts"]["FINISHED"] == 1, "the part is done")
    # And killed for good: the page is of the worker's own process.
    os.kill(engine, signal.SIGKILL)
    eventually(lambda: not engine_child(worker)(), "the engine is gone")
    status, text = page()
    check(status == 200 and "partforge_forges_completed_total" in text, "%s: %s" % (status, text[:2000]))
    worker.send_signal(signal.SIGTERM)
    rig.end(worker)
    job.publish()
    check(job.compare() == 11, "not all rows")


# The child is killed when it does not end the insert by itself (clickhouse-parts §9.9).
def test_sigterm_while_the_engine_hangs(folder, server, place):
    rig = Rig(folder, server, place, "deaf")
    job = slow_job(rig, "deaf")
    job.freeze()
    job.upload()
    worker = rig.start("worker", "--job-id=" + job.id, "--metrics-addr=", "--parallel=1", "--json", *rig.state, *rig.store, *rig.scratch)
    eventually(waits_in_insert(rig, job), "the worker inserts")
    engine = eventually(engine_child(worker), "the engine child")
    os.kill(engine, signal.SIGSTOP)
    worker.send_signal(signal.SIGTERM)
    _, out, _ = rig.end(worker, expect=0, timeout=60)
    check(told(out)["released"] == 1 and job.summary()["counts"]["READY"] == 1, "not given back: %s" % out)
    check(not os.path.exists("/proc/%d" % engine), "the engine still stands there")
    job.work()
    job.publish()
    check(job.compare() == 11, "not all rows")


# The schema text; there is no replicated rig to freeze a part of one.
# check: PF-45
def test_replicated_source_schema(folder, server, place):
    rig = Rig(folder, server, place, "replicated")
    source = rig.write("old.sql", "CREATE TABLE shop.orders UUID '0f3b1a1e-5b1c-4b0b-9d3e-0a5b6c7d8e9f' ON CLUSTER '{cluster}' (id UInt64, day Date, v String TTL day + 1) "
                       "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') PARTITION BY day ORDER BY id "
                       "TTL day + INTERVAL 1 MONTH TO VOLUME 'cold' SETTINGS storage_policy = 'tiered', index_granularity = 4096")
    new = rig.write("new.sql", "CREATE TABLE shop.orders_v2 (id UInt64, day Date, v String) ENGINE = MergeTree PARTITION BY day ORDER BY (day, id)")
    insert = rig.write("insert.sql", "INSERT INTO shop.orders_v2 SELECT id, day, v FROM shop.orders")
    words = ["check", "--job-sql=" + insert, "--dest-schema=" + new, "--source-schema=" + source, *rig.scratch]
    verdict = rig.json(*words)
    removed = " ".join(verdict["removals"])
    for word in ("cluster", "uuid", "storage_policy"):
        check(word in removed.lower(), "%s is not among the removals: %s" % (word, removed))
    check(verdict["chunks_allowed"], "not chunkable: %s" % verdict)
    # What must be refused, with its number.
    def refuse(code, dest=None, sql=None, exit_code=3):
        dest_file = rig.write("d.sql", dest) if dest else new
        sql_file = rig.write("i.sql", sql) if sql else insert
        _, _, err = rig.run("check", "--job-sql=" + sql_file, "--dest-schema=" + dest_file, "--source-schema=" + source, *rig.scratch, expect=None)
        check("error[PF%d]" % code in err, "expected PF%d: %s" % (code, err))
    refuse(2104, dest="CREATE TABLE shop.orders (id UInt64) ENGINE = MergeTree ORDER BY id")
    refuse(2104, dest="CREATE TABLE shop.log (id UInt64, day Date, v String) ENGINE = Log")
    refuse(2105, sql="INSERT INTO shop.other SELECT id, day, v FROM shop.orders")
    refuse(2105, sql="INSERT INTO shop.orders_v2 SELECT 1, today(), 'x'")
    refuse(2106, sql="INSERT INTO shop.orders_v2 SELECT id, FROM FROM shop.orders GROUP")
    refuse(2113, sql="INSERT INTO shop.orders_v2 SELECT id, day, v FROM shop.orders SETTINGS max_threads = 1")
    refuse(2115, sql="INSERT INTO shop.orders_v2 SELECT id, day, v FROM shop.orders WHERE id IN (SELECT * FROM url('http://x/', CSV, 'a UInt64'))")
    loose = rig.json("check", "--job-sql=" + rig.write("g.sql", "INSERT INTO shop.orders_v2 SELECT max(id), day, any(v) FROM shop.orders GROUP BY day"),
                     "--dest-schema=" + new, "--source-schema=" + source, *rig.scratch)
    check(not loose["chunks_allowed"] and loose["chunk_refusal"], "an aggregate is chunkable: %s" % loose)
    rig.refused(1013, 2, "check", "--job-sql=/nowhere", "--dest-schema=" + new, "--source-schema=" + source, *rig.scratch)
    rig.refused(1006, 2, "check", "--job-sql=" + insert, "--dest-schema=" + new, *rig.scratch)


# check: PF-53
def test_import_by_another_user(folder, server, place):
    if os.geteuid() != 0:
        raise Skipped("needs root to become another user")
    rig = Rig(folder, server, place, "nobody")
    job = plain(rig, "nobody", rows=50, parts=1)
    job.freeze()
    job.upload()
    job.work()
    above = folder
    while above != "/tmp":
        os.chmod(above, 0o755)
        above = os.path.dirname(above)
    subprocess.run(["chmod", "-R", "a+rwX", place.folder], check=True)
    done = subprocess.run([rig_module.BINARY, *job.import_words()], capture_output=True, text=True, user=65534, group=65534, extra_groups=[],
                          env=dict(rig.surroundings(), HOME="/nonexistent"))
    check(done.returncode == 3 and "error[PF2124]" in done.stderr and "65534" in done.stderr, "%d: %s" % (done.returncode, done.stderr))
    check(job.summary()["counts"]["FINISHED"] == 1 and not job.summary()["live_commits"], "something was decided")
    detached = os.path.join(server.folder_of(job.database, "dst"), "detached")
    check(not os.listdir(detached), "left: %s" % os.listdir(detached))
    job.publish()
    check(job.compare() == 40, "not all rows")


# check: PF-13
def test_an_attach_that_was_cut_off(folder, server, place):
    rig = Rig(folder, server, place, "cut")
    job = plain(rig, "cut", rows=50, parts=2)
    job.freeze()
    job.upload()
    job.work()
    check(rig.run(*job.import_words(), "--import-lease-ttl=1s", "--import-concurrency=1", fault="clickhouse.piece_placed:1:kill", expect=-9)[0] == -9, "not killed")
    detached = os.path.join(server.folder_of(job.database, "dst"), "detached")
    placed = [n for n in os.listdir(detached) if not n.startswith("pftmp_")]
    check(len(placed) == 1, "placed: %s" % os.listdir(detached))
    os.rename(os.path.join(detached, placed[0]), os.path.join(detached, "attaching_" + placed[0]))
    job.publish("--import-lease-ttl=1s")
    check(job.compare() == 80, "not all rows")


# check: PF-42
def test_full_work_disk(folder, server, place):
    if os.geteuid() != 0:
        raise Skipped("needs root to mount a small tmpfs")
    rig = Rig(folder, server, place, "full")
    big = Job(rig, "full", "id UInt64, v String", "(id UInt64, v String) ENGINE = MergeTree ORDER BY id")
    big.tables("SELECT number, randomPrintableASCII(1000) FROM numbers(60000)", "SELECT number, 'x' FROM numbers(100)")
    big.freeze()
    big.upload()
    disk = os.path.join(folder, "disk")
    os.makedirs(disk)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", disk], capture_output=True)
    if done.returncode != 0:
        raise Skipped("no tmpfs can be mounted here: " + done.stderr.decode().strip())
    try:
        worker = rig.start("worker", "--job-id=" + big.id, "--metrics-addr=", "--parallel=1", "--poll-interval=200ms", "--min-free-space=1%",
                           "--work-dir=" + disk, *rig.state, *rig.store)
        eventually(lambda: big.summary(is_quiet=False)["counts"]["FINISHED"] == 1, "the small part is done")
        check(worker.poll() is None, "the worker died")
        worker.send_signal(signal.SIGTERM)
        rig.end(worker)
        counts = big.summary()["counts"]
        check(counts["READY"] == 1 and counts["FINISHED"] == 1 and counts["FAILED"] == 0, "counts: %s" % counts)
        # The object store on a full disk.
        os.makedirs(os.path.join(disk, "objects", "forge"))
        other = Job(rig, "full2", "id UInt64, v String", "(id UInt64, v String) ENGINE = MergeTree ORDER BY id")
        other.tables("SELECT number, randomPrintableASCII(1000) FROM numbers(60000)")
        other.freeze()
        rig.refused(7007, 1, *other.upload_words(), "--s3-endpoint=file://" + os.path.join(disk, "objects"))
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    big.work()
    big.publish()
    check(big.compare() == 60100, "not all rows")


# check: UX-11
def test_hostile_archives(folder, server, place):
    import io
    import tarfile
    rig = Rig(folder, server, place, "hostile")
    job = plain(rig, "hostile", rows=50, parts=1)
    job.freeze()
    job.upload()
    job.work()
    key = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".tar")][0]
    meta_key = job.status()["parts"][0]["meta_key"]
    good, meta = place.read(key), place.read(meta_key)

    def archive(*entries):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, kind, content in entries:
                info = tarfile.TarInfo(name)
                info.type, info.size, info.linkname = kind, len(content), "/etc/passwd"
                tar.addfile(info, io.BytesIO(content))
        return buffer.getvalue()[:len(good)].ljust(len(good), b"\0")   # as long as the description says: else that is all that is seen
    part = json.loads(meta)["parts"][0]["name"]
    hostile = {
        "leaves its folder": (lambda: archive(("%s/../../../../tmp/pf-evil" % part, tarfile.REGTYPE, b"x")), {8005}),
        "absolute": (lambda: archive(("/tmp/pf-evil", tarfile.REGTYPE, b"x")), {8005}),
        "symbolic link": (lambda: archive(("%s/data.bin" % part, tarfile.SYMTYPE, b"")), {8002}),
        "hard link": (lambda: archive(("%s/data.bin" % part, tarfile.LNKTYPE, b"")), {8002}),
        "device": (lambda: archive(("%s/data.bin" % part, tarfile.CHRTYPE, b"")), {8002}),
        "no tar": (lambda: b"x" * len(good), {8002}),
        "cut off": (lambda: good[:len(good) // 2], {2133}),
        "nothing": (lambda: b"", {2133}),
    }
    for name, (make, codes) in hostile.items():
        place.write(key, make())
        rig.run(*job.import_words(), expect=8)
        check(server.number("SELECT count() FROM " + job.destination) == 0, "%s: rows came" % name)
        failed = job.status()["parts"][0]
        found = re.match(r"PF(\d+): ", failed["error"])
        check(failed["status"] == "FAILED" and failed["failure_class"] == "data" and found and int(found.group(1)) in codes, "%s: %s" % (name, failed))
        check(not os.path.exists("/tmp/pf-evil"), "%s wrote outside" % name)
        job.clean_target()
        # The part's own artifact is good again: a retry after the repair must work without a new rewrite.
        place.write(key, good)
        rig.run("retry-failed", "--job-id=" + job.id, "--all", *rig.state)
        if job.summary()["counts"]["READY"]:
            job.work()
            key = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".tar") and k.startswith(job.status()["parts"][0]["finished_key"])][0]
            good = place.read(key)
    for damage in (b"{", b"[]", b'{"version": 99}', meta[:-40], meta.replace(b'"rows"', b'"ro_s"')):
        meta_key = job.status()["parts"][0]["meta_key"]
        meta = place.read(meta_key)
        place.write(meta_key, damage)
        rig.run(*job.import_words(), expect={4, 8})
        check(job.status()["parts"][0]["status"] == "FAILED", "a damaged description was used: %s\n%s" % (damage[:100], job.status()["parts"][0]))
        place.write(meta_key, meta)
        rig.run("retry-failed", "--job-id=" + job.id, "--all", *rig.state)
        job.work()
    job.publish()
    check(job.compare() == 40, "not all rows")


LOCAL = [test_sigterm_in_insert, test_import_by_another_user, test_an_attach_that_was_cut_off, test_engine_is_killed_in_insert, test_a_worker_sleeps_past_its_lease, test_covered_part_in_the_freeze,
         test_freeze_name_of_two_tables, test_freezes_that_are_refused, test_replicated_source_schema, test_a_paused_job_is_told, test_notes_of_a_plan, test_rows_that_do_not_add_up,
         test_metrics_answer_while_the_engine_does_not,
         test_sigterm_while_the_engine_hangs, test_full_work_disk, test_hostile_archives]


class Outage:
    """PostgreSQL is away as long as this lasts."""

    def __init__(self, place):
        base = open(os.path.join(place.postgres.folder, "pgbase")).read().strip()
        self.data, self.log = os.path.join(base, "data"), os.path.join(base, "log")
        self.pg_ctl = subprocess.run("ls /usr/lib/postgresql/*/bin/pg_ctl | tail -n 1", shell=True, capture_output=True, text=True).stdout.strip()
        self.as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []

    def __enter__(self):
        subprocess.run([*self.as_user, self.pg_ctl, "-D", self.data, "-m", "immediate", "-w", "stop"], check=True, stdout=subprocess.DEVNULL)

    def __exit__(self, kind, value, trace):
        subprocess.run([*self.as_user, self.pg_ctl, "-D", self.data, "-w", "-l", self.log, "start"], check=True, stdout=subprocess.DEVNULL)


# An outage that is shorter than the lease.
# check: PF-40
def test_postgres_is_away(folder, server, place):
    rig = Rig(folder, server, place, "away")
    job = slow_job(rig, "away")
    job.freeze()
    job.upload()
    worker = rig.start(*job.worker_words(), "--state-progress-interval=500ms")
    eventually(waits_in_insert(rig, job), "the worker inserts")
    with Outage(place):
        rig.refused(6001, 7, "job-status", "--job-id=" + job.id, *rig.state)
        rig.refused(6001, 7, *job.import_words())
        time.sleep(3)   # the outage itself
        check(worker.poll() is None, "the worker died with the state store")
    rig.end(worker)
    part = job.status()["parts"][0]
    check(part["status"] == "FINISHED" and part["attempts"] == 1, "the work was done again: %s" % part)
    job.publish()
    check(job.compare() == 11, "not all rows")


# Past the lease, when the work is done and only its commit is on the way: nobody took the part over, so it holds.
# check: PF-40
def test_postgres_is_away_past_the_lease_of_a_commit(folder, server, place):
    rig = Rig(folder, server, place, "late")
    job = plain(rig, "late", rows=100, parts=1)
    job.freeze()
    job.upload()
    # The delay stands between the upload of the description and the commit: the store goes away in it.
    worker = rig.start(*job.worker_words(), "--lease-ttl=5s", fault="clickhouse.meta_uploaded:1:delay=1500")
    eventually(lambda: [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".json") and "/meta/" in k], "the description is uploaded")
    with Outage(place):
        time.sleep(2.5)   # the commit is tried and tried again, with pauses
        os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(4)     # the lease runs out
    os.kill(worker.pid, signal.SIGCONT)
    rig.end(worker)
    part = job.status()["parts"][0]
    check(part["status"] == "FINISHED" and part["attempts"] == 1 and part["epoch"] == 1, "the commit did not hold: %s" % part)
    job.publish()
    check(job.compare() == 80, "not all rows")


# Past the lease in the middle of the work: it is given up and done again, by the same worker.
# check: PF-40
def test_postgres_is_away_past_the_lease_of_a_worker_alone(folder, server, place):
    rig = Rig(folder, server, place, "alone")
    job = slow_job(rig, "alone")
    job.freeze()
    job.upload()
    worker = rig.start(*job.worker_words(), "--lease-ttl=1s", "--poll-interval=200ms")
    eventually(waits_in_insert(rig, job), "the worker inserts")
    with Outage(place):
        time.sleep(2)   # the lease runs out
        check(worker.poll() is None, "the worker died with the state store")
    rig.end(worker)
    part = job.status()["parts"][0]
    check(part["status"] == "FINISHED" and part["attempts"] == part["epoch"] == 2 and part["crash_count"] <= 1, "after the outage: %s" % part)
    job.publish()
    check(job.compare() == 11, "not all rows")


# Past the lease, and another worker took the part over: what the first one made is dropped.
# check: PF-40
def test_postgres_is_away_and_another_takes_over(folder, server, place):
    rig = Rig(folder, server, place, "over")
    job = slow_job(rig, "over")
    job.freeze()
    job.upload()
    words = ["--lease-ttl=1s", "--parallel=1", "--metrics-addr=", "--max-crashes=100", *rig.state, *rig.store, "--job-id=" + job.id]
    first = rig.start("worker", "--once", "--json", "--worker-id=first", "--work-dir=" + os.path.join(folder, "first"), *words)
    eventually(waits_in_insert(rig, job), "the first worker inserts")
    with Outage(place):
        os.kill(first.pid, signal.SIGSTOP)   # it is the slower one to see that the store is back
        time.sleep(1.2)   # its lease runs out
    rig.run("worker", "--drain", "--worker-id=second", *rig.scratch, *words)
    taken, before = job.status()["parts"][0], events_of(rig, job)
    check(taken["status"] == "FINISHED" and taken["attempts"] == 2 and taken["worker_id"].startswith("second"), "not taken over: %s" % taken)
    os.kill(first.pid, signal.SIGCONT)
    ended = told(rig.end(first)[1])
    check((ended["lost"], ended["done"], ended["failed"]) == (1, 0, 0), "the first worker says: %s" % ended)
    check(job.status()["parts"][0] == taken and events_of(rig, job) == before, "the first worker changed something")
    taken_over(before)
    job.publish()
    check(job.compare() == 11, "not all rows")


class Flaky(http.server.BaseHTTPRequestHandler):
    """Passes requests on; answers some with 503 and cuts some bodies."""
    protocol_version = "HTTP/1.1"
    target, chance, counts = "", random.Random(7), {"503": 0, "cut": 0, "passed": 0}

    def log_message(self, *arguments):
        pass

    def pass_on(self):
        self.close_connection = True
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        dice = self.chance.random()
        if dice < 0.06:
            self.counts["503"] += 1
            self.answer(503, {"Content-Type": "application/xml"}, b"<Error><Code>SlowDown</Code><Message>no</Message></Error>")
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "expect", "content-length")}
        request = urllib.request.Request(self.target + self.path, data=body if body or self.command in ("PUT", "POST") else None, method=self.command,
                                         headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                status, found, data = reply.status, dict(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            status, found, data = error.code, dict(error.headers), error.read()
        if self.command == "GET" and len(data) > 200 and dice < 0.12:
            self.counts["cut"] += 1
            self.answer(status, found, data, cut=len(data) // 2)
            return
        self.counts["passed"] += 1
        self.answer(status, found, data)

    def answer(self, status, headers, data, cut=None):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "server", "date"):
                self.send_header(name, value)
        size = int(headers["Content-Length"]) if self.command == "HEAD" and "Content-Length" in headers else len(data)
        self.send_header("Content-Length", str(size))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data if cut is None else data[:cut])

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on


class FlakyServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


# check: PF-41
def test_object_store_misbehaves(folder, server, place):
    Flaky.target = place.endpoint
    proxy = FlakyServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        rig = Rig(folder, server, place, "flaky")
        rig.store = ["--s3-endpoint=http://127.0.0.1:%d" % proxy.server_address[1]]
        job = plain(rig, "flaky", rows=3000, parts=3)
        check(job.run() == 7200, "not all rows")
        rig.run("verify", job.id, *rig.state, *rig.store)
    finally:
        proxy.shutdown()
    check(Flaky.counts["503"] > 2 and Flaky.counts["cut"] > 0, "too few faults: %s" % Flaky.counts)


def test_services_that_do_not_answer(folder, server, place):
    rig = Rig(folder, server, place, "dead")
    job = plain(rig, "dead", rows=10, parts=1)
    job.freeze()
    dead = "http://127.0.0.1:9"
    rig.refused(7008, 7, *[w for w in job.upload_words() if not w.startswith("--clickhouse-url")], "--clickhouse-url=" + dead)
    rig.refused(7004, 1, *[w for w in job.upload_words() if not w.startswith("--bucket")], "--bucket=nowhere")
    rig.refused(7002, 1, "upload-freeze", *job.upload_words()[1:], "--s3-endpoint=http://example.org")
    _, _, err = rig.run("list-jobs", "--state-url=postgres://nobody@127.0.0.1:9/x", expect=7)
    check("PF6001" in err, err)
    job.upload()
    rig.refused(6006, 5, *job.upload_words(), "--prefix=elsewhere")


REMOTE = [test_postgres_is_away, test_postgres_is_away_past_the_lease_of_a_commit, test_postgres_is_away_past_the_lease_of_a_worker_alone,
          test_postgres_is_away_and_another_takes_over, test_object_store_misbehaves, test_services_that_do_not_answer, test_sigterm_in_insert,
          test_a_worker_sleeps_past_its_lease]
