"""Random soak: random tables and row-local SQL, three workers and one importer that are killed all the time; afterwards the
destination holds the multiset of rows that the oracle gives.

A seed is printed and taken back from PARTFORGE_TEST_SEED. Two rounds; thirty with PARTFORGE_CRASH_SHARE=all. Kills stop
after KILLING_S in each round, so that a round ends.
"""
import os
import random
import signal
import time

import rig as rig_module
from rig import Job, LocalPlace, Rig, check, children_of, eventually

KILLING_S = 12     # of a round; what is left runs undisturbed
FINISH_S = 240     # for that, on a loaded machine

# name, type, value of row `number`, and what a SELECT may make of it: (expression, type in the destination).
COLUMNS = [
    ("lc", "LowCardinality(String)", "['x', 'yy', ''][1 + number % 3]", [("lc", "LowCardinality(String)"), ("upper(lc)", "String")]),
    ("n", "Nullable(Int32)", "if(number % 4 = 0, NULL, toInt32(number) - 50)", [("n", "Nullable(Int32)"), ("toInt64(ifNull(n, -1))", "Int64")]),
    ("lcn", "LowCardinality(Nullable(String))", "if(number % 3 = 0, NULL, toString(number % 7))",
     [("lcn", "LowCardinality(Nullable(String))"), ("lcn", "Nullable(String)"), ("ifNull(toString(lcn), 'none')", "String")]),
    ("a", "Array(Array(Nullable(String)))", "if(number % 5 = 0, [], [[toString(number), NULL], []])",
     [("a", "Array(Array(Nullable(String)))"), ("length(a)", "UInt64"), ("arrayFlatten(a)", "Array(Nullable(String))")]),
    ("m", "Map(String, UInt32)", "map('k' || toString(number % 3), toUInt32(number), 'ü', toUInt32(1))",
     [("m", "Map(String, UInt32)"), ("mapKeys(m)", "Array(String)")]),
    ("j", "JSON", "toJSONString(map('p', toString(number), 'q', 'r'))::JSON", [("j", "JSON")]),
    ("nested", "Nested(k String, v UInt16)", "['a', toString(number % 9)], [toUInt16(number % 60000), 2]", None),
    ("d", "Decimal(18, 4)", "toDecimal64(number, 4) / 7", [("d", "Decimal(18, 4)"), ("toString(d)", "String"), ("toFloat64(d)", "Float64")]),
    ("d38", "Decimal(38, 10)", "toDecimal128(number, 10) / 3", [("d38", "Decimal(38, 10)"), ("d38 * 2", "Decimal(38, 10)")]),
    ("e", "Enum8('a' = -1, 'ü' = 2)", "if(number % 2 = 0, 'a', 'ü')", [("e", "Enum8('a' = -1, 'ü' = 2)"), ("toString(e)", "String")]),
    ("t", "Tuple(x Int8, `y z` Nullable(String))", "(toInt8(number % 100), if(number % 2 = 0, NULL, 'z'))",
     [("t", "Tuple(x Int8, `y z` Nullable(String))"), ("t.1", "Int8")]),
    ("fl", "Float64", "if(number % 9 = 0, nan, number / 3)", [("fl", "Float64"), ("if(isNaN(fl), 0, fl)", "Float64")]),
    ("fs", "FixedString(5)", "toFixedString(toString(number % 1000), 5)", [("fs", "FixedString(5)"), ("hex(fs)", "String")]),
    ("dt", "DateTime64(3, 'UTC')", "toDateTime64('2026-03-29 00:59:59.123', 3, 'UTC') + number", [("dt", "DateTime64(3, 'UTC')"), ("toDate(dt)", "Date")]),
    ("u", "UUID", "reinterpretAsUUID(reverse(reinterpretAsFixedString(toUInt128(number) * 7919)))", [("u", "UUID"), ("toString(u)", "String")]),
    ("b", "Bool", "number % 2 = 0", [("b", "Bool"), ("NOT b", "Bool")]),
]
FILTERS = ["1", "id % 3 != 1", "id > 500", "cityHash64(id) % 2 = 0", "id < 0", "toString(id) LIKE '%7%'"]
PARTITIONS = ["", "PARTITION BY id % 4", "PARTITION BY intDiv(id, 700)"]
SOURCE_PARTITIONS = ["", "PARTITION BY id % 2"]
ORDERS = ["id", "(id % 7, id)", "tuple()", "(cityHash64(id), id)"]


def random_job(rig, name, chance):
    """A table of some of the columns, and a SELECT that makes another one of them."""
    chosen = chance.sample(COLUMNS, chance.randint(3, len(COLUMNS)))
    source = ["id UInt64"] + ["%s %s" % (column, kind) for column, kind, _, _ in chosen]
    values = ["number"] + [value for _, _, value, _ in chosen]
    made = []   # (expression, definition)
    for column, kind, _, choices in chosen:
        if choices is None:
            made += [("%s.k, %s.v" % (column, column), "%s %s" % (column, kind))]
            continue
        expression, made_kind = chance.choice(choices)
        made.append((expression + (" AS made_" + column if expression != column else ""), "%s %s" % ("made_" + column if expression != column else column, made_kind)))
    made.append(("id", "id UInt64"))
    chance.shuffle(made)
    destination = "(%s) ENGINE = MergeTree %s ORDER BY %s" % (", ".join(definition for _, definition in made), chance.choice(PARTITIONS), chance.choice(ORDERS))
    # Slow enough to be killed in the middle: an engine sleeps three seconds a block at most.
    where = "WHERE %s AND sleepEachRow(%s) = 0" % (chance.choice(FILTERS), chance.choice(["0", "0.0005", "0.001"]))
    job = Job(rig, name, ", ".join(source), destination, select=", ".join(expression for expression, _ in made), where=where,
              source_engine="MergeTree %s ORDER BY id" % chance.choice(SOURCE_PARTITIONS))
    at, inserts = 0, []
    for _ in range(chance.randint(2, 5)):
        rows = chance.randint(1, 1500)
        inserts.append("SELECT %s FROM numbers(%d, %d)" % (", ".join(values), at, rows))
        at += rows
    return job.tables(*inserts)


class Killed:
    """A command that is started again whenever it ends or is killed."""

    def __init__(self, rig, words):
        self.rig, self.words, self.process, self.log, self.kills = rig, words, None, None, 0

    def keep(self):
        if self.process is not None and self.process.poll() is None:
            return
        self.close()
        self.process = self.rig.start(*self.words(), "-q")

    def kill(self, chance):
        """The process, or now and then only its engine."""
        self.kills += 1
        children = children_of(self.process.pid)
        victim = chance.choice(children) if children and chance.random() < 0.3 else self.process.pid
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self, number=None):
        if self.process is None:
            return
        if number is not None and self.process.poll() is None:
            self.process.send_signal(number)
        self.rig.end(self.process, expect=None)
        self.process = None


def until_done(rig, words, chance, deadline):
    """The same command again until it ends by itself; killed at random times before the deadline."""
    while True:
        process = rig.start(*words)
        if time.monotonic() < deadline:
            time.sleep(chance.uniform(0.05, 1.5))
            if process.poll() is None and chance.random() < 0.6:
                process.kill()
        code, _, err = rig.end(process, expect=None)
        if code != -signal.SIGKILL:
            check(code == 0, "%s ended with %s\n%s" % (words[0], code, err[-3000:]))
            return


def play(folder, server, place, index, seed):
    chance = random.Random(seed)
    rig = Rig(folder, server, place, "soak%d" % index)
    job = random_job(rig, "soak%d" % index, chance)
    deadline = time.monotonic() + KILLING_S
    until_done(rig, ["freeze", "--freeze=" + job.freeze_name, *job.source_words()], chance, deadline)
    until_done(rig, job.upload_words(), chance, deadline)
    lease = ["--lease-ttl=1s"]
    ways = [["--tier=seed", "--insert-chunk-min-rows=200"], ["--tier=T6"], []]

    def worker(number):
        scratch = "--work-dir=" + os.path.join(folder, "work%d" % number)
        return ["worker", "--job-id=" + job.id, "--metrics-addr=", "--parallel=1", "--max-crashes=1000", "--poll-interval=200ms", scratch,
                *lease, *chance.choice(ways), *rig.state, *rig.store]

    workers = [Killed(rig, lambda n=n: worker(n)) for n in range(3)]
    importer = Killed(rig, lambda: [*job.import_words(), "--partial", "--import-lease-ttl=1s", "--wait=10s"])
    everybody = [*workers, importer]
    try:
        deadline = time.monotonic() + KILLING_S
        while time.monotonic() < deadline:
            for one in everybody:
                one.keep()
            time.sleep(chance.uniform(0.2, 2.0))
            victim = chance.choice(everybody)
            if victim.process.poll() is None:
                victim.kill(chance)
        importer.close(signal.SIGKILL)

        def rewritten():
            for one in workers:
                one.keep()
            counts = job.summary(is_quiet=False)["counts"]
            check(not counts["FAILED"], "a part has failed: %s" % job.status(is_quiet=False)["summary"]["failed_parts"])
            return not counts["READY"] and not counts["IN_PROGRESS"]
        eventually(rewritten, "every part is rewritten", FINISH_S)
    finally:
        for one in workers:
            one.close(signal.SIGTERM)
        importer.close(signal.SIGKILL)
    job.publish("--import-lease-ttl=1s", "--wait=30s")
    rows = job.compare()
    kills = sum(one.kills for one in everybody)
    server.sql("DROP DATABASE %s SYNC" % rig_module.quoted(job.database))
    return rows, kills


# check: PF-52
def test_soak(folder, server, place):
    seed = int(os.environ.get("PARTFORGE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    rounds = 30 if os.environ.get("PARTFORGE_CRASH_SHARE") == "all" else 2
    print("PARTFORGE_TEST_SEED=%d" % seed, flush=True)
    all_kills = 0
    for index in range(rounds):
        started = time.monotonic()
        rows, kills = play(os.path.join(folder, str(index)), server, place, index, seed + index)
        all_kills += kills
        print("round %d (PARTFORGE_TEST_SEED=%d): %d rows, %d kills, %.0f s" % (index, seed + index, rows, kills, time.monotonic() - started), flush=True)
    check(all_kills > 0, "nothing was killed")


if __name__ == "__main__":
    rig_module.main("soak", [test_soak], LocalPlace)
