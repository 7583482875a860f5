"""Jobs of a server that is not in UTC; and `rewrite` from a refusal and from a half-made freeze to its end."""
import json
import os
import re
import subprocess
import sys

import rig
from rig import check


class ZonedServer(rig.Server):
    """A server in a time zone of its own."""

    def __init__(self, folder, zone):
        self.zone = zone
        super().__init__(folder)

    def start(self):
        self.process = subprocess.Popen(
            [rig.BINARY, "engine", "--path=" + self.folder, "--allow-external-reads", "--", "--timezone=" + self.zone],
            stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, env=dict(os.environ, TZ="UTC"))   # the configuration wins
        line = self.process.stdout.readline()
        check(line, "the engine ended before it was ready: see server.log")
        self.url = "http://127.0.0.1:%d" % json.loads(line)["port"]
        check(self.sql("SELECT timezone()").strip() == self.zone, "the server has another zone")


def with_server(zone, test):
    with rig.Folder("time-zone") as folder:
        server = ZonedServer(os.path.join(folder, "server"), zone)
        try:
            test(server, rig.Rig(folder, server))
        finally:
            server.stop()


def job_by_month(machine, name):
    """Rows around the end of a month: the month and the hour depend on the zone."""
    return rig.Job(machine, name, "id UInt64, ts DateTime",
                   "(id UInt64, ts DateTime, day Date, hour UInt8) ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY id",
                   select="id, ts, toDate(ts) AS day, toHour(ts) AS hour")


def rows(server):
    # 2026-01-31 12:00 UTC and 24 h on: the month ends 9 h earlier in Tokyo than in UTC.
    return "SELECT number, toDateTime(1769860800 + number * 60) FROM numbers(1440)"


def partitions(server, table):
    return server.sql("SELECT DISTINCT partition_id FROM system.parts WHERE active AND table = %s ORDER BY 1"
                      % rig.literal(table)).split()


def a_job_is_rewritten_in_the_zone_of_its_server():
    def test(server, machine):
        job = job_by_month(machine, "zone").tables(rows(server))
        job.run()
        wrong = server.number("SELECT countIf(_partition_id != toString(toYYYYMM(ts))) FROM " + job.destination)
        check(wrong == 0, "%d rows lie in a partition of another month" % wrong)
        check(partitions(server, "dst") == ["202601", "202602"], "partitions: %s" % partitions(server, "dst"))
        machine.run("verify", job.id, "--level=rows", *machine.state, *machine.store, *machine.scratch)
    with_server("Asia/Tokyo", test)


def a_target_in_another_zone_is_refused():
    with rig.Folder("time-zone") as folder:
        tokyo = ZonedServer(os.path.join(folder, "tokyo", "data"), "Asia/Tokyo")
        utc = ZonedServer(os.path.join(folder, "utc", "data"), "UTC")
        try:
            machine = rig.Rig(folder, tokyo)
            job = job_by_month(machine, "two-zones").tables(rows(tokyo))
            job.freeze()
            job.upload()
            job.work()
            utc.sql("CREATE DATABASE " + rig.quoted(job.database))
            utc.sql(job.schema)
            machine.refused(2121, 3, "import-finished", "--job-id=" + job.id, "--database=" + job.database, "--table=dst",
                            "--clickhouse-url=" + utc.url, *machine.state, *machine.store)
            check(utc.number("SELECT count() FROM " + job.destination) == 0, "rows were published")
        finally:
            tokyo.stop()
            utc.stop()


def rewrite_words(job, *more):
    return ["rewrite", "--bucket=forge", "--job-id=" + job.id, *job.source_words(), *job.files(), *job.rig.state, *job.rig.store,
            *job.rig.scratch, "--parallel=1", *more]


def shadow(server):
    """Files of all freezes."""
    root = os.path.join(server.folder, "shadow")
    return sorted(os.path.join(place, name) for place, _, names in os.walk(root) for name in names if name != "increment.txt")


def rewrite_makes_an_absent_destination():
    def test(server, machine):
        job = job_by_month(machine, "absent").tables(rows(server))
        server.sql("DROP TABLE %s SYNC" % job.destination)
        _, out, _ = machine.run(*rewrite_words(job))
        check(re.search(r"rows +1\D440 in = 1\D440 out \+ 0 filtered ✓", out), "no conservation line:\n" + out)
        job.compare()
        check(not shadow(server), "the freeze is left: %s" % shadow(server)[:3])
    with_server("Asia/Tokyo", test)


def a_refused_rewrite_leaves_no_freeze():
    def test(server, machine):
        job = job_by_month(machine, "refused").tables(rows(server))
        server.sql("INSERT INTO %s SELECT number, now(), today(), 1 FROM numbers(5)" % job.destination)
        machine.refused(2123, 3, *rewrite_words(job))
        check(not shadow(server), "the freeze is left: %s" % shadow(server)[:3])
    with_server("UTC", test)


def a_half_made_freeze_is_made_again():
    def test(server, machine):
        job = job_by_month(machine, "half").tables(*[rows(server)] * 3)
        # What a server that died in FREEZE leaves: some parts of the table.
        name = "partforge_" + "".join(c if c.isalnum() else "_" for c in job.id)
        server.sql("ALTER TABLE %s FREEZE WITH NAME %s" % (job.source, rig.literal(name)))
        root = os.path.join(server.folder, "shadow", name)
        parts = sorted(place for place, _, names in os.walk(root) if "checksums.txt" in names)
        check(len(parts) == 3, "frozen: %s" % parts)
        for entry in os.listdir(parts[1]):
            os.unlink(os.path.join(parts[1], entry))
        os.rmdir(parts[1])
        machine.run(*rewrite_words(job))
        check(job.compare() == 3 * 1440, "rows are missing")
    with_server("UTC", test)


TESTS = [a_job_is_rewritten_in_the_zone_of_its_server, a_target_in_another_zone_is_refused, rewrite_makes_an_absent_destination,
         a_refused_rewrite_leaves_no_freeze, a_half_made_freeze_is_made_again]

if __name__ == "__main__":
    passed, failed, skipped = rig.run_tests({test.__name__: test for test in TESTS}, sys.argv[1:])
    sys.exit(1 if failed else 0)
