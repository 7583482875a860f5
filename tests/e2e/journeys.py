"""Jobs from freeze to import, with a comparison of every row. Run by rewrite_local.py and rewrite_remote.py on two pairs of
state store and object store."""
import json
import os
import signal
import time

from rig import Failed, Job, Rig, check, eventually, literal, quoted, told

NUMBERS = "number, number % 3, toString(number)"


def plain(rig, name, rows=1000, parts=2, where="WHERE id % 5 != 0", destination=None, tier="T5", **more):
    """The job that most tests need: two parts, another order, another type, a filter; each part for itself, so that they can be told apart."""
    job = Job(rig, name, "id UInt64, kind UInt8, note String",
              destination or "(kind UInt8, id UInt64, note LowCardinality(String)) ENGINE = MergeTree ORDER BY (kind, id)",
              select="kind, id, note", where=where, tier=tier, **more)
    return job.tables(*["SELECT %s FROM numbers(%d, %d)" % (NUMBERS, part * rows, rows) for part in range(parts)])


# check: PF-1, PF-2, UX-3
def test_small_job(folder, server, place):
    rig = Rig(folder, server, place, "small")
    job = Job(rig, "small", "event_date Date, id UInt64, amount Decimal(18, 2)",
              "(id UInt64, amount String, event_date Date) ENGINE = MergeTree PARTITION BY toYYYYMM(event_date) ORDER BY (id, event_date)",
              select="id, toString(amount) AS amount, event_date", source_engine="MergeTree PARTITION BY toYYYYMM(event_date) ORDER BY event_date",
              tier="T5")
    job.tables("VALUES ('2026-01-01', 1, 1.10), ('2026-01-02', 2, 2.25)", "VALUES ('2026-02-01', 3, 3), ('2026-02-02', 4, -4.5)")
    job.freeze()
    uploaded = rig.json(*job.upload_words())
    check(uploaded["parts"] == 2 and uploaded["job_id"] == job.id and uploaded["skipped"] == 0, "upload: %s" % uploaded)
    check(job.summary()["status"] == "READY", "not READY")
    once = rig.json("worker", "--once", "--tier=T5", "--job-id=" + job.id, "--metrics-addr=", *rig.state, *rig.store, *rig.scratch, "-v")
    check(once["done"] == 1, "worker --once: %s" % once)
    summary = job.summary()
    check(summary["counts"]["READY"] == 1 and summary["rewrite_completed"] == 1 and summary["rewrite_percent"] == 50, "half way: %s" % summary)
    job.work()
    listed = rig.json("list-jobs", *rig.state)
    check([d["status"] for d in listed["job_details"] if d["job_id"] == job.id] == ["READY_FOR_IMPORT"], "list-jobs: %s" % listed)
    imported = rig.json(*job.import_words())
    check(imported["imported"] == 2 and imported["rows"] == 4, "import: %s" % imported)
    check(job.compare() == 4, "not four rows")
    check(server.sql("SELECT amount FROM %s ORDER BY id" % job.destination).split() == ["1.1", "2.25", "3", "-4.5"], "amounts")
    parts = server.number("SELECT count() FROM system.parts WHERE active AND database = '%s' AND table = 'dst'" % job.database)
    check(parts == 2, "%d active parts" % parts)
    events = rig.json("events", "--job-id=" + job.id, "-vv", *rig.state)["events"]
    check(len(events) > 6 and events == sorted(events, key=lambda e: e["seq"]), "events")


def test_types(folder, server, place):
    rig = Rig(folder, server, place, "types")
    columns = ("id UInt64, lc LowCardinality(String), n Nullable(Int32), lcn LowCardinality(Nullable(String)), a Array(Array(Nullable(String))), "
               "m Map(String, Array(UInt8)), j JSON, t Tuple(x Int8, `y z` Nullable(String)), nested Nested(k String, v UInt16), "
               "d Decimal(38, 10), dt DateTime64(6, 'Asia/Kathmandu'), u UUID, e Enum8('a' = -1, 'ü' = 2), f FixedString(5), ip IPv6, ip4 IPv4, "
               "b Bool, big Int256, fl Float64, dd Date32, s String")
    select = ("id, toString(lc) AS lc, n, lcn, a, m, j, t, nested.k, nested.v, d, dt, u, e, f, ip, ip4, b, big, fl, dd, upper(s) AS s")
    destination = columns.replace("lc LowCardinality(String)", "lc String").replace("e Enum8('a' = -1, 'ü' = 2)", "e String")
    job = Job(rig, "types", columns, "(%s) ENGINE = MergeTree PARTITION BY e ORDER BY (u, id)" % destination,
              select=select.replace(" e,", " toString(e) AS e,"))
    row = ("SELECT number, ['x', 'yy', ''][1 + number % 3], if(number % 4 = 0, NULL, toInt32(number) - 50), if(number % 3 = 0, NULL, toString(number % 7)), "
           "if(number % 5 = 0, [], [[toString(number), NULL], []]), map('k' || toString(number % 3), [toUInt8(number % 250)], 'ü', []), "
           "toJSONString(map('p', toString(number), 'q', 'r'))::JSON, (toInt8(number % 100), if(number % 2 = 0, NULL, 'z')), "
           "['a', 'b'], [toUInt16(number), 2], toDecimal128(number, 10) / 7, toDateTime64('2026-03-29 00:59:59.123456', 6, 'UTC') + number, "
           "reinterpretAsUUID(reverse(reinterpretAsFixedString(toUInt128(number) * 7919))), if(number % 2 = 0, 'a', 'ü'), toFixedString(toString(number % 1000), 5), "
           "toIPv6('2001:db8::' || hex(number % 65536)), toIPv4('10.0.0.' || toString(number % 256)), number % 2 = 0, toInt256('-57896044618658097711785492504343953926634992332820282019728792003956564819968') + number, "
           "if(number % 9 = 0, nan, number / 3), toDate32('1925-01-01') + number, concat('строка ', char(number % 256)) FROM numbers(START, 700)")
    job.tables(row.replace("START", "0"), row.replace("START", "700"))
    check(job.run() == 1400, "not all rows")


def test_odd_names(folder, server, place):
    rig = Rig(folder, server, place, "names")
    columns = ["a b", "q'uote", "back`tick", "dot.ted", "ünïcode 日本", 'double"quote', "per%cent", "back\\slash"]
    job = Job(rig, "names", ", ".join("%s String" % quoted(c) for c in columns) + ", id UInt64",
              "(%s, id UInt64) ENGINE = MergeTree PARTITION BY %s ORDER BY (%s, id)"
              % (", ".join("%s String" % quoted(c) for c in reversed(columns)), quoted("dot.ted"), quoted("a b")),
              select=", ".join(quoted(c) for c in reversed(columns)) + ", id",
              database="d b-'`.ü", table="src.t able'`é", target="dst \"t\" .日")
    job.tables("SELECT %s, number FROM numbers(500)" % ", ".join("concat(%s, toString(number %% %d))" % (literal(c), i + 2) for i, c in enumerate(columns)))
    check(job.run() == 500, "not all rows")
    text = rig.run("job-status", "--job-id=" + job.id, "--parts", *rig.state)[1]
    check("IMPORTED" in text, "the table for people")


# check: PF-29
def test_filter_that_matches_nothing(folder, server, place):
    rig = Rig(folder, server, place, "nothing")
    job = plain(rig, "nothing", where="WHERE id > 1000000000")
    job.freeze()
    job.upload()
    job.work()
    parts = job.status()["parts"]
    check([p["status"] for p in parts] == ["FINISHED", "FINISHED"] and all(p["empty_output"] for p in parts), "parts: %s" % parts)
    check(not [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".tar")], "an empty output has tars")
    queries = server.number("SELECT count() FROM system.parts WHERE database = '%s' AND table = 'dst'" % job.database)
    job.publish()
    check(job.compare() == 0 and queries == 0, "rows from nowhere")


def test_one_part_is_filtered_away(folder, server, place):
    job = plain(Rig(folder, server, place, "half"), "half", rows=100, parts=3, where="WHERE id < 100 OR id >= 200", tier=None)
    check(job.run() == 200, "not the rows of two parts")


def test_empty_table(folder, server, place):
    rig = Rig(folder, server, place, "empty")
    job = plain(rig, "empty", parts=0)
    job.freeze()
    err = rig.refused(2102, 1, *job.upload_words())
    check("no part of the table" in err, err)
    rig.refused(2130, 1, "job-status", "--job-id=" + job.id, *rig.state) if os.path.exists(os.path.join(folder, "empty.db")) else None


# check: PF-28
def test_three_hundred_partitions(folder, server, place):
    rig = Rig(folder, server, place, "many")
    job = plain(rig, "many", rows=1500, parts=1, where="",
                destination="(kind UInt8, id UInt64, note String) ENGINE = MergeTree PARTITION BY id % 300 ORDER BY id")
    check(job.run() == 1500, "not all rows")
    check(job.summary()["current_output_clickhouse_parts"] == 300, "not 300 parts")


# Of rows with equal versions the last one stays, as with INSERT SELECT: parts come in the order of the source, whoever imports.
def test_equal_versions_keep_the_last_row(folder, server, place):
    rig = Rig(folder, server, place, "versions")
    for number, tier in enumerate([[], ["--tier=T6"], ["--tier=seed", "--insert-chunk-min-rows=300"]]):
        job = Job(rig, "versions%d" % number, "id UInt64, k UInt64, v UInt8",
                  "(k UInt64, v UInt8, id UInt64) ENGINE = ReplacingMergeTree(v) ORDER BY k", select="k, v, id")
        job.tables(*["SELECT number, number %% 50, 1 FROM numbers(%d, 1000)" % (part * 1000) for part in range(6)])
        job.freeze()
        job.upload()
        job.work(*tier)
        job.publish("--import-concurrency=4")
        last = server.number("SELECT count() FROM %s FINAL WHERE id >= 5950" % job.destination)
        check(last == 50, "%s: %d of 50 keys have their last row" % (tier, last))


def test_two_workers_at_once(folder, server, place):
    rig = Rig(folder, server, place, "pair")
    job = plain(rig, "pair", rows=300, parts=6)
    job.freeze()
    job.upload()
    workers = [rig.start(*job.worker_words(), "--worker-id=w%d" % i, "--json") for i in range(2)]
    done = [told(rig.end(worker)[1])["done"] for worker in workers]
    check(sum(done) == 6, "parts done: %s" % done)
    check(all(p["attempts"] == 1 for p in job.status()["parts"]), "a part was done twice")
    job.publish()
    check(job.compare() == 1440, "not all rows")


# check: PF-48
def test_upload_is_killed_and_resumed(folder, server, place):
    rig = Rig(folder, server, place, "resumed")
    job = plain(rig, "resumed", rows=200, parts=4, extra=["--upload-concurrency=1"])
    job.freeze()
    check(rig.run(*job.upload_words(), fault="clickhouse.manifest_uploaded:3:kill", expect=-9)[0] == -9, "not killed")
    summary = job.summary()
    check(summary["total"] == 2 and summary["status"] == "READY" and not summary["sealed"], "after the kill: %s" % summary)
    rig.refused(2132, 3, *job.import_words())
    again = rig.json(*job.upload_words())
    check(again["skipped"] >= 2 and again["parts"] == 4, "the second upload: %s" % again)
    check(job.summary()["total"] == 4, "not four parts")
    job.work()
    job.publish()
    check(job.compare() == 640, "not all rows")
    check(rig.json(*job.upload_words())["skipped"] == 4, "a third upload is no work")


def test_import_twice(folder, server, place):
    rig = Rig(folder, server, place, "twice")
    job = plain(rig, "twice")
    job.run()
    again = rig.json(*job.import_words())
    check(again["imported"] == 0 and again["already_imported"] == 2, "the second import: %s" % again)
    rig.refused(1016, 9, *job.import_words(), "--fail-if-empty")
    check(job.compare() == 1600, "rows after the second import")
    # check: PF-49
    part = job.status()["parts"][0]["part_id"]
    err = rig.refused(2131, 3, "retry-failed", "--job-id=" + job.id, "--part-id=" + part, *rig.state)
    check("IMPORTED" in err, err)
    check(job.retry() == 0, "an imported part was retried")


# check: PF-15
def test_two_importers_at_once(folder, server, place):
    rig = Rig(folder, server, place, "importers")
    job = plain(rig, "importers", rows=300, parts=4)
    job.freeze()
    job.upload()
    job.work()
    importers = [rig.start(*job.import_words(), "--wait=60s", "--json") for _ in range(2)]
    done = [json.loads(rig.end(importer)[1]) for importer in importers]
    check(sum(d["imported"] for d in done) == 4, "imported: %s" % done)
    check(job.compare() == 960, "not all rows")


# Rows of one job in two tables would be complete in neither: the first decision chooses the table.
def test_two_importers_into_two_tables(folder, server, place):
    rig = Rig(folder, server, place, "tables")
    job = plain(rig, "tables", rows=50, parts=10)
    server.sql("CREATE TABLE %s.second AS %s" % (quoted(job.database), job.destination))
    job.freeze()
    job.upload()
    job.work()
    importers = {target: rig.start(*job.import_words(target), "--import-concurrency=1") for target in ("dst", "second")}
    ends = {target: rig.end(importer, expect=None) for target, importer in importers.items()}
    rows = {target: server.number("SELECT count() FROM %s.%s" % (quoted(job.database), target)) for target in ends}
    check(sorted(rows.values()) == [0, 400], "rows: %s" % rows)
    for target, (code, _, err) in ends.items():
        wanted = {0} if rows[target] else {3, 5, 6}
        check(code in wanted and (not rows[target]) == ("PF2134" in err or "PF2138" in err or code == 5), "%s ended with %s: %s" % (target, code, err[-2000:]))


def test_an_import_holds_the_lock(folder, server, place):
    rig = Rig(folder, server, place, "locked")
    job = plain(rig, "locked")
    job.freeze()
    job.upload()
    job.work()
    # One artifact at a time and stopped after its pieces are staged: no other thread is inside a transaction then.
    holder = rig.start(*job.import_words(), "--import-lease-ttl=60s", "--import-concurrency=1", fault="clickhouse.pieces_staged:1:stop")
    try:
        eventually(lambda: stopped(holder.pid), "the first import stops at its fault point")
        rig.refused(2135, 5, *job.import_words(), "--wait=0")
    finally:
        os.kill(holder.pid, signal.SIGCONT)
    rig.end(holder)
    check(job.compare() == 1600, "not all rows")


def stopped(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


# check: PF-16
def test_import_into_another_shape(folder, server, place):
    rig = Rig(folder, server, place, "shapes")
    job = plain(rig, "shapes")
    job.freeze()
    job.upload()
    job.work()
    keys = place.keys("partforge/jobs/" + job.id)
    shapes = {
        "order": ("(kind UInt8, id UInt64, note LowCardinality(String)) ENGINE = MergeTree ORDER BY id", 2121),
        "partition": ("(kind UInt8, id UInt64, note LowCardinality(String)) ENGINE = MergeTree PARTITION BY kind ORDER BY (kind, id)", 2121),
        "type": ("(kind UInt8, id UInt64, note String) ENGINE = MergeTree ORDER BY (kind, id)", 2121),
        "missing": ("(kind UInt8, id UInt64) ENGINE = MergeTree ORDER BY (kind, id)", None),
        "renamed": ("(kind UInt8, id UInt64, remark LowCardinality(String)) ENGINE = MergeTree ORDER BY (kind, id)", 2122),
        "engine": ("(kind UInt8, id UInt64, note LowCardinality(String)) ENGINE = ReplacingMergeTree ORDER BY (kind, id)", 2121),
    }
    for name, (shape, code) in shapes.items():
        server.sql("CREATE TABLE %s.%s %s" % (quoted(job.database), name, shape))
        _, _, err = rig.run(*job.import_words(name), expect=3)
        check(("PF%s" % code if code else "PF212") in err, "%s: %s" % (name, err))
        check(server.number("SELECT count() FROM %s.%s" % (quoted(job.database), name)) == 0, "rows in " + name)
        check(not os.listdir(os.path.join(server.folder_of(job.database, name), "detached")), "leftovers of " + name)
    server.sql("CREATE TABLE %s.log (x Int8) ENGINE = Memory" % quoted(job.database))
    rig.refused(2101, 3, *job.import_words("log"))
    rig.refused(2101, 1, *job.import_words("absent"))
    check(job.summary()["counts"]["FINISHED"] == 2 and place.keys("partforge/jobs/" + job.id) == keys, "a refused import changed something")
    server.sql("INSERT INTO %s VALUES (1, 1, 'foreign')" % job.destination)
    rig.refused(2123, 3, *job.import_words())
    server.sql("TRUNCATE TABLE " + job.destination)
    job.publish()
    check(job.compare() == 1600, "not all rows")


def flipped(data, at):
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


# The refusal, and the way back from the source part.
# check: PF-17
def test_flipped_byte_in_a_finished_tar(folder, server, place):
    rig = Rig(folder, server, place, "tarflip")
    job = plain(rig, "tarflip")
    job.freeze()
    job.upload()
    job.work()
    tar = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".tar")][0]
    data = place.read(tar)
    content = data.index(b"data.bin") if b"data.bin" in data else 0
    place.write(tar, flipped(data, min(len(data) - 2000, content + 600)))
    _, _, err = rig.run("verify", job.id, *rig.state, *rig.store, expect=8)
    check("PF2133" in err, err)
    rig.refused(2149, 4, *job.import_words())
    parts = {p["part_id"]: p for p in job.status()["parts"]}
    states = sorted(p["status"] for p in parts.values())
    check(states == ["FAILED", "IMPORTED"], "states: %s" % states)
    failed = [p for p in parts.values() if p["status"] == "FAILED"][0]
    check(failed["failure_class"] == "data" and failed["error"], "the failure: %s" % failed)
    job.retry()
    job.work()
    job.publish()
    check(job.compare() == 1600, "rows after making the part again")


# check: PF-18
def test_flipped_byte_in_a_source_file(folder, server, place):
    rig = Rig(folder, server, place, "srcflip")
    job = plain(rig, "srcflip")
    job.freeze()
    job.upload()
    key = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith("data.bin")][0]
    place.write(key, flipped(place.read(key), 40))
    job.work()
    parts = job.status()["parts"]
    bad = [p for p in parts if p["status"] == "FAILED"]
    check(len(bad) == 1 and bad[0]["failure_class"] == "data" and not [p for p in bad if p.get("meta_key")], "parts: %s" % bad)
    rig.refused(2132, 3, *job.import_words())
    check(server.number("SELECT count() FROM " + job.destination) == 0, "published")


def test_missing_objects(folder, server, place):
    rig = Rig(folder, server, place, "missing")
    job = plain(rig, "missing")
    job.freeze()
    job.upload()
    key = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith("columns.txt")][0]
    kept = place.read(key)
    place.remove(key)
    job.work()
    check(job.summary()["counts"]["FAILED"] == 1, "a part without a file did not fail: %s" % job.summary())
    place.write(key, kept)
    job.retry()
    job.work()
    tar = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".tar")][0]
    kept = place.read(tar)
    place.remove(tar)
    rig.refused(2149, 4, *job.import_words())
    place.write(tar, kept)
    job.retry()
    job.work()
    job.publish()
    check(job.compare() == 1600, "not all rows")


# A wrong --s3-endpoint says nothing about artifacts and parts: all of them stay as they are.
def test_the_wrong_object_store(folder, server, place):
    rig = Rig(folder, server, place, "elsewhere")
    waiting, job = plain(rig, "waiting", rows=10), plain(rig, "elsewhere", rows=100)
    for one in (waiting, job):
        one.freeze()
        one.upload()
    os.makedirs(os.path.join(folder, "empty", "forge"))
    stores = [(["--s3-endpoint=file://" + os.path.join(folder, "empty")], 2126), (["--s3-endpoint=file:///nowhere"], 2126),
              (["--s3-endpoint=file:///dev/null"], 7015)]
    for store, _ in stores:
        rig.run("worker", "--once", "--job-id=" + waiting.id, "--metrics-addr=", *rig.state, *store, *rig.scratch, expect=None)
        counts = waiting.summary()["counts"]
        check(counts["READY"] == 2, "a worker with %s: %s" % (store, counts))
    job.work()
    for store, code in stores:
        err = rig.refused(code, 3 if code == 2126 else 1, *job.import_words(), *store)
        check("retry-failed" not in err, err)
        check(job.summary()["counts"]["FINISHED"] == 2, "an import from %s: %s" % (store, job.summary()))
        err = rig.refused(code, 3 if code == 2126 else 1, "verify", job.id, *rig.state, *store)
        check("retry-failed" not in err, err)
    # What an import that was killed long ago left of its check of the folder.
    probe = os.path.join(server.folder_of(job.database, "dst"), "detached", "pftmp_probe_0123456789abcdef")
    for path in (probe + "_renamed", probe):
        os.makedirs(path)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    job.publish()
    check(job.compare() == 160, "not all rows")


def test_column_names_that_cannot_be_followed(folder, server, place):
    rig = Rig(folder, server, place, "colnames")
    job = Job(rig, "newline", "id UInt64, `a\\nb` String", "(id UInt64, s String) ENGINE = MergeTree ORDER BY id", select="id, `a\\nb` AS s")
    job.tables("SELECT number, 'x' FROM numbers(10)")
    job.freeze()
    check("line break" in rig.refused(2104, 3, *job.upload_words()), "the reason is not told")
    # Ranges are cut by the number of a row in its part, which this column hides.
    job = Job(rig, "hidden", "id UInt64, _part_offset UInt64", "(id UInt64, s UInt64) ENGINE = MergeTree ORDER BY id", select="id, _part_offset AS s")
    job.tables("SELECT number, number * 7 FROM numbers(1000)")
    job.freeze()
    check("_part_offset" in rig.refused(2114, 3, *job.upload_words()), "the reason is not told")
    job.upload("--chunk-unsafe=single")
    job.work("--tier=seed", "--insert-chunk-min-rows=100")
    job.publish()
    check(job.compare() == 1000, "not all rows")


def test_damaged_manifests(folder, server, place):
    rig = Rig(folder, server, place, "manifests")
    job = plain(rig, "manifests", rows=100)
    job.freeze()
    job.upload()
    key = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith("manifest.json")][0]
    good = place.read(key)
    other = json.loads(good)
    other["part"]["name"] = "all_7_7_0"
    for damage in (b"", b"{", b"[]", good[:-40], b'{"version": 99}', good.replace(b'"version": 1', b'"version": 2'), json.dumps(other).encode(),
                   flipped(good, len(good) // 2), b"[" * 100000):
        check(damage != good, "no damage")
        place.write(key, damage)
        job.work()
        bad = [p for p in job.status()["parts"] if p["status"] == "FAILED"]
        check(len(bad) == 1 and bad[0]["failure_class"] == "data" and bad[0]["error"].startswith("PF2133: "),
              "a damaged manifest was used: %s\n%s" % (damage[:100], bad))
        job.retry()
    place.write(key, good)
    job.work()
    job.publish()
    check(job.compare() == 160, "not all rows")


def test_damaged_receipts(folder, server, place):
    rig = Rig(folder, server, place, "receipts")
    job = plain(rig, "receipts", rows=100)
    job.freeze()
    job.upload()
    job.work()
    part = job.status()["parts"][0]["part_id"]
    key = "partforge/jobs/%s/imported/%s.json" % (job.id, part)
    # Something lies where the receipt of an import would be: whether the rows are there is for a person to say.
    for damage in (b"", b"{", b"[]", b'{"version": 1}', b'{"commit_id": 7, "table_uuid": []}', b"[" * 100000):
        place.write(key, damage)
        err = rig.refused(2133, 3, *job.import_words(), "--part-id=" + part)
        check(key in err and server.number("SELECT count() FROM " + job.destination) == 0, "a damaged receipt: %s" % err)
    uuid = server.sql("SELECT uuid FROM system.tables WHERE database = '%s' AND name = 'dst'" % job.database).strip()
    place.write(key, json.dumps({"version": 1, "commit_id": "cmt-of-another-store", "table_uuid": uuid, "table": job.database + ".dst"}).encode())
    rig.refused(2134, 3, *job.import_words(), "--part-id=" + part)
    place.remove(key)
    job.publish()
    check(job.compare() == 160, "not all rows")
    receipt = json.loads(place.read(key))
    check(receipt["version"] == 1 and receipt["table_uuid"] == uuid and receipt["rows"] == 80 and receipt["parts"][0]["token"], "receipt: %s" % receipt)


def test_sql_that_fails_on_the_data(folder, server, place):
    rig = Rig(folder, server, place, "failing")
    job = plain(rig, "failing", rows=100, parts=4, where="WHERE throwIf(id % 100 = 50, 'the fiftieth') = 0")
    job.freeze()
    job.upload()
    _, _, err = rig.run("worker", "--once", "--tier=T5", "--job-id=" + job.id, "--metrics-addr=", *rig.state, *rig.store, *rig.scratch, expect=1)
    check("error[PF2145]" in err and "the fiftieth" in err, err)
    job.work(expect=None)
    failed = [p for p in job.status()["parts"] if p["status"] == "FAILED"]
    check(len(failed) == 4 and all("PF2145" in p["error"] and "the fiftieth" in p["error"] and p["failure_class"] == "data" for p in failed),
          "failures: %s" % failed)
    rig.refused(2132, 3, *job.import_words())
    rig.refused(2151, 1, "retry-failed", "--job-id=" + job.id, "--part-id=part-none", *rig.state)
    rig.refused(1010, 2, "retry-failed", "--job-id=" + job.id, "--part-id=x", "--all", *rig.state)
    check(job.retry() == 4, "not four")
    check(job.summary()["counts"]["READY"] == 4, "not READY again")


def test_a_part_that_kills_its_worker(folder, server, place):
    rig = Rig(folder, server, place, "poison")
    job = plain(rig, "poison", rows=50, parts=1)
    job.freeze()
    job.upload()
    words = ["worker", "--drain", "--job-id=" + job.id, "--metrics-addr=", "--parallel=1", "--max-crashes=2", "--lease-ttl=1s",
             *rig.state, *rig.store, *rig.scratch]
    for _ in range(2):
        check(rig.run(*words, fault="clickhouse.source_fetched:1:kill", expect=-9)[0] == -9, "not killed")
    rig.run(*words, expect=None)
    part = job.status()["parts"][0]
    check(part["status"] == "FAILED" and part["failure_class"] == "poison" and "PF2139" in part["error"], "part: %s" % part)
    job.retry()
    job.work()
    job.publish()
    check(job.compare() == 40, "not all rows")


# Many small parts in one insert: what is told of it, and the way back when its artifact is damaged.
def test_parts_together(folder, server, place):
    rig = Rig(folder, server, place, "together")
    job = plain(rig, "together", rows=100, parts=50, tier=None)
    job.freeze()
    job.upload()
    plan = rig.json("plan", job.id, *rig.state)
    check(len(plan["parts"]) == 50 and {(p["tier"], p["together"]) for p in plan["parts"]} == {("T5b", 50)}, "plan: %s" % plan["parts"][:2])
    alone = rig.json("plan", job.id, "--tier=T5", *rig.state)
    check({p["tier"] for p in alone["parts"]} == {"T5"}, "plan --tier=T5: %s" % alone["parts"][:2])
    done = rig.json(*job.worker_words())
    check(done["done"] == 50 and done["failed"] == 0, "worker: %s" % done)
    document = rig.json("job-status", "--job-id=" + job.id, "--details", "--all", *rig.state)
    summary, parts = document["summary"], document["parts"]
    check(summary["total"] == 1 and summary["counts"]["SUPERSEDED"] == 50 and summary["counts"]["FINISHED"] == 1 and
          summary["status"] == "READY_FOR_IMPORT" and summary["rows_in"] == 5000 and summary["written_rows"] == 4000 and summary["rows_conserved"],
          "summary: %s" % summary)
    output = [p for p in parts if p["status"] == "FINISHED"][0]
    inputs = [p for p in parts if p["status"] == "SUPERSEDED"]
    check(output["tier"] == "T5b" and output["source_parts"] == 50 and "50 parts" in output["tier_reason"], "output: %s" % output)
    check(len(inputs) == 50 and {p["superseded_by"] for p in inputs} == {output["part_id"]}, "inputs: %s" % inputs[:2])
    history = rig.json("events", "--job-id=" + job.id, *rig.state)["events"]
    for name, count in (("claimed", 50), ("superseded", 50), ("output_added", 1)):
        check(len([e for e in history if e["event"] == name]) == count, "events %s" % name)
    rig.run("verify", job.id, "--level=rows", *rig.state, *rig.store, *rig.scratch)
    left = rig.json("gc", "--older-than=0", "--job-id=" + job.id, *rig.state, *rig.store, *rig.scratch)
    check(left["objects"] == [], "objects in use are called leftovers: %s" % left)
    tar = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith(".tar")]
    check(len(tar) == 1, "tars: %s" % tar)
    place.write(tar[0], flipped(place.read(tar[0]), 3000))
    rig.run("verify", job.id, *rig.state, *rig.store, expect=8)
    rig.run(*job.import_words(), expect={1, 4, 8})
    failed = [p for p in job.status()["parts"] if p["status"] == "FAILED"]
    check([p["part_id"] for p in failed] == [output["part_id"]] and failed[0]["failure_class"] == "data", "failed: %s" % failed)
    check(job.retry() == 50, "not fifty")
    check(job.summary()["counts"]["READY"] == 50 and job.summary()["total"] == 50, "after retry-failed: %s" % job.summary())
    job.work()
    job.publish()
    check(job.compare() == 4000, "not all rows")


def test_a_bad_part_among_many(folder, server, place):
    rig = Rig(folder, server, place, "among")
    job = plain(rig, "among", rows=100, parts=6, tier=None)
    job.freeze()
    job.upload()
    key = [k for k in place.keys("partforge/jobs/" + job.id) if k.endswith("data.bin")][2]
    kept = place.read(key)
    place.write(key, flipped(kept, 40))
    job.work()
    counts = job.summary()["counts"]
    check(counts["FAILED"] == 1 and counts["SUPERSEDED"] == 5 and counts["FINISHED"] == 1, "counts: %s" % counts)
    place.write(key, kept)
    job.retry()
    job.work()
    job.publish()
    check(job.compare() == 480, "not all rows")


ALL = [test_small_job, test_parts_together, test_a_bad_part_among_many, test_types, test_odd_names, test_filter_that_matches_nothing, test_one_part_is_filtered_away, test_empty_table,
       test_three_hundred_partitions, test_equal_versions_keep_the_last_row, test_two_workers_at_once, test_upload_is_killed_and_resumed, test_import_twice, test_two_importers_at_once,
       test_two_importers_into_two_tables,
       test_an_import_holds_the_lock, test_import_into_another_shape, test_flipped_byte_in_a_finished_tar, test_flipped_byte_in_a_source_file,
       test_missing_objects, test_the_wrong_object_store, test_column_names_that_cannot_be_followed, test_damaged_manifests, test_damaged_receipts, test_sql_that_fails_on_the_data, test_a_part_that_kills_its_worker]
