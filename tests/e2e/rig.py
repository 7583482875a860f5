"""What the end-to-end and crash tests share: the program, a ClickHouse to serve tables, places for state and objects.

Environment (set by ctest): PARTFORGE_BINARY, PARTFORGE_DEPS_PREFIX, PARTFORGE_SOURCE_DIR.
"""
import collections
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

import schemas

BINARY = os.environ["PARTFORGE_BINARY"]
SOURCE = os.environ["PARTFORGE_SOURCE_DIR"]
DEPS = os.environ["PARTFORGE_DEPS_PREFIX"]
CODES = set()   # PF numbers that any command of this process printed
EXITS = set()   # exits that any command of this process had


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def skipped(name, reason):
    """Says that a test, or a part of one, could not run here. scripts/check lists these lines at its end."""
    print("SKIPPED %-49s %s" % (name, reason), flush=True)


def check(condition, message):
    if not condition:
        raise Failed(message)


def eventually(question, what, seconds=60):
    """Asks until the answer is true; answers it."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        check(time.monotonic() < end, "not within %d s: %s" % (seconds, what))
        time.sleep(0.05)


class Server:
    """`partforge engine` on a folder of its own: the serving cluster of a test."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.log = open(os.path.join(folder, "..", "server.log"), "ab")
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [BINARY, "engine", "--path=" + self.folder, "--allow-external-reads"], stdout=subprocess.PIPE, stderr=self.log,
            stdin=subprocess.DEVNULL, env=dict(os.environ, TZ="UTC"))
        line = self.process.stdout.readline()
        check(line, "the engine ended before it was ready: see server.log")
        self.url = "http://127.0.0.1:%d" % json.loads(line)["port"]

    def sql(self, text, **settings):
        url = self.url + "/?" + urllib.parse.urlencode(settings)
        request = urllib.request.Request(url, data=text.encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return reply.read().decode()
        except urllib.error.HTTPError as error:
            raise Failed("%s\n%s" % (text, error.read().decode())) from None

    def number(self, text):
        return int(self.sql(text))

    def folder_of(self, database, table):
        return self.sql("SELECT data_paths[1] FROM system.tables WHERE database = %s AND name = %s"
                        % (literal(database), literal(table))).rstrip("\n")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


def literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name):
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


class LocalPlace:
    """State in SQLite, objects in a folder."""
    name = "sqlite+local"

    def __init__(self, folder):
        self.objects = os.path.join(folder, "objects")
        os.makedirs(os.path.join(self.objects, "forge"), exist_ok=True)
        self.folder = folder
        self.environment = {}
        self.store = ["--s3-endpoint=file://" + self.objects]

    def state(self, name):
        return ["--state-url=sqlite:" + os.path.join(self.folder, name + ".db")]

    def is_free(self, name):
        """Whether another process can write to the state: one that was stopped inside a transaction keeps all others out."""
        database = sqlite3.connect(os.path.join(self.folder, name + ".db"), timeout=1, isolation_level=None)
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
            return True
        except sqlite3.OperationalError:
            return False
        finally:
            database.close()

    def keys(self, prefix=""):
        root = os.path.join(self.objects, "forge")
        found = [os.path.relpath(os.path.join(place, name), root) for place, _, names in os.walk(root) for name in names]
        return sorted(key for key in found if key.startswith(prefix))

    def read(self, key):
        with open(os.path.join(self.objects, "forge", key), "rb") as f:
            return f.read()

    def write(self, key, data):
        path = os.path.join(self.objects, "forge", key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)

    def remove(self, key):
        os.unlink(os.path.join(self.objects, "forge", key))

    def stop(self):
        pass


class Service:
    """A script of scripts/services, started on a folder."""

    def __init__(self, script, folder):
        self.folder = os.path.join(folder, script)
        self.script = os.path.join(SOURCE, "scripts", "services", script + ".sh")
        self.variables = self.call("start")

    def call(self, verb):
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, verb + ".log"), "wb") as log:
            done = subprocess.run(["bash", self.script, verb, self.folder], stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL)
        check(done.returncode == 0, "%s %s failed: see %s" % (self.script, verb, self.folder))
        if verb != "start":
            return {}
        with open(os.path.join(self.folder, "env")) as f:
            return dict(line.strip().split("=", 1) for line in f if "=" in line)

    def stop(self):
        self.call("stop")


class RemotePlace:
    """State in PostgreSQL, objects in an S3 server (moto, which checks no signatures)."""
    name = "postgres+s3"

    def __init__(self, folder):
        self.postgres = Service("postgres", folder)
        self.s3 = Service("s3", folder)
        self.endpoint = self.s3.variables["PARTFORGE_TEST_S3"]
        self.environment = {k: v for k, v in self.s3.variables.items() if k.startswith("AWS_")}
        self.environment.update(AWS_EC2_METADATA_DISABLED="true")
        self.store = ["--s3-endpoint=" + self.endpoint]
        self.request("PUT", "")

    def state(self, name):
        return ["--state-url=" + self.postgres.variables["PARTFORGE_TEST_PG"], "--state-schema=" + re.sub("[^a-z0-9]", "_", name.lower())]

    def is_free(self, name):
        return True

    def request(self, verb, key, data=None, query=""):
        url = "%s/forge%s%s" % (self.endpoint, "/" + urllib.parse.quote(key) if key else "", query)
        signed = {"Authorization": "AWS partforgekey:unchecked", "Content-Type": "application/octet-stream"}   # moto wants to see one and checks nothing
        with urllib.request.urlopen(urllib.request.Request(url, data=data, method=verb, headers=signed), timeout=60) as reply:
            return reply.read()

    def keys(self, prefix=""):
        found, token = [], ""
        while True:
            query = "?list-type=2&prefix=" + urllib.parse.quote(prefix, safe="")
            if token:
                query += "&continuation-token=" + urllib.parse.quote(token, safe="")
            tree = xml.etree.ElementTree.fromstring(self.request("GET", "", query=query))
            space = tree.tag[:tree.tag.index("}") + 1]
            found += [e.findtext(space + "Key") for e in tree.iter(space + "Contents")]
            token = tree.findtext(space + "NextContinuationToken")
            if not token:
                return sorted(found)

    def read(self, key):
        return self.request("GET", key)

    def write(self, key, data):
        self.request("PUT", key, data=data)

    def remove(self, key):
        self.request("DELETE", key)

    def stop(self):
        self.s3.stop()
        self.postgres.stop()


STREAMING = ("worker", "verify")   # their --json is one object a line; the last is the document


def told(out):
    """The document of a command that tells its work as it goes on."""
    return json.loads(out.splitlines()[-1])


class Rig:
    """A folder with everything of one test: scratch and files; state and objects lie in `place`."""

    def __init__(self, folder, server, place=None, name="state"):
        self.folder = folder
        self.server = server
        os.makedirs(folder, exist_ok=True)
        self.place = place or LocalPlace(folder)
        self.state = self.place.state(name)
        self.store = self.place.store
        self.scratch = ["--work-dir=" + os.path.join(folder, "work")]
        self.environment = dict(self.place.environment)
        self.url = ["--clickhouse-url=" + server.url] if server else []

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def surroundings(self, fault=None, trace=None):
        environment = dict(os.environ, **self.environment)
        for name in ("PARTFORGE_FAULT", "PARTFORGE_BINARY"):
            environment.pop(name, None)
        if fault:
            environment["PARTFORGE_FAULT"] = fault
        if trace:
            environment["PARTFORGE_FAULT_TRACE"] = trace
        return environment

    def run(self, *words, fault=None, trace=None, expect=0, timeout=300):
        """Runs the program. `expect` is the exit code, a set of them, or None for any; answers (exit, stdout, stderr)."""
        done = subprocess.run([BINARY, *words], capture_output=True, stdin=subprocess.DEVNULL,
                              env=self.surroundings(fault, trace), timeout=timeout)
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        note(done.returncode, err)
        wanted = {expect} if isinstance(expect, int) else expect
        check(wanted is None or done.returncode in wanted,
              "%s\nended with %s, expected %s\n%s\n%s" % (" ".join(words), done.returncode, expect, out[-3000:], err[-6000:]))
        return done.returncode, out, err

    def start(self, *words, fault=None, trace=None):
        """Starts the program; the caller waits for it with `end`."""
        return subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                env=self.surroundings(fault, trace))

    def end(self, process, expect=0, timeout=300):
        out, err = process.communicate(timeout=timeout)
        out, err = out.decode(errors="replace"), err.decode(errors="replace")
        note(process.returncode, err)
        wanted = {expect} if isinstance(expect, int) else expect
        check(wanted is None or process.returncode in wanted,
              "%s\nended with %s, expected %s\n%s\n%s" % (" ".join(process.args), process.returncode, expect, out[-3000:], err[-6000:]))
        return process.returncode, out, err

    def refused(self, code, exit_code, *words, **options):
        """The command must fail with that PF number and that exit, in the form of the book; answers stderr."""
        _, _, err = self.run(*words, expect=exit_code, **options)
        check("error[PF%d]: " % code in err or '"code":"PF%d"' % code in err.replace(" ", ""),
              "%s\nexpected PF%d, printed\n%s" % (" ".join(words), code, err))
        return err

    def json(self, *words, **options):
        _, out, err = self.run(*words, "--json", **options)
        try:
            document = told(out) if words[0] in STREAMING else json.loads(out)
        except (IndexError, json.JSONDecodeError) as error:
            raise Failed("%s printed no JSON document: %s\n%s\n%s" % (words[0], error, out, err)) from None
        faults = schemas.of_document(" ".join(words[:2]) if words[0] == "file" else words[0], document)
        check(not faults, "; ".join(faults[:10]))
        return document

    def status(self, job, is_quiet=True):
        """job-status, with everything that could disturb its one document. Counts and parts agree when nobody works."""
        document = self.json("job-status", "--job-id=" + job, "--details", "-vv", *self.state)
        summary = document["summary"]
        if not is_quiet:
            return document
        states = collections.Counter(part["status"] for part in document["parts"])
        check({k: v for k, v in summary["counts"].items() if v and k != "SUPERSEDED"} == dict(states),
              "counts %s, but the parts are %s" % (summary["counts"], states))
        check(summary["total"] == sum(states.values()), "total %s of %s" % (summary["total"], states))
        return document


def note(exit_code, err):
    EXITS.add(exit_code)
    CODES.update(int(n) for n in re.findall(r"error\[PF(\d+)\]", err))
    CODES.update(int(n) for n in re.findall(r'"code": ?"PF(\d+)"', err))
    check("error[PF9001]" not in err, "an internal error reached the user:\n" + err[-3000:])


class Job:
    """One table on its way: source, destination, SELECT, and the commands that bring it there."""

    def __init__(self, rig, name, columns, destination, select="*", where="", database=None, table="src", target="dst",
                 source_engine="MergeTree ORDER BY tuple()", extra=(), tier=None):
        self.rig, self.server = rig, rig.server
        self.name = name
        self.database = database or "d_" + name.replace("-", "_")
        self.table, self.target = table, target
        self.id = "job-" + name
        self.freeze_name = "f_" + name.replace("-", "_")
        self.extra = list(extra)
        self.tier = tier
        self.source = "%s.%s" % (quoted(self.database), quoted(table))
        self.destination = "%s.%s" % (quoted(self.database), quoted(target))
        self.create = "CREATE TABLE %s (%s) ENGINE = %s" % (self.source, columns, source_engine)
        self.schema = "CREATE TABLE %s %s" % (self.destination, destination)
        self.select = "SELECT %s FROM %s %s" % (select, self.source, where)

    def tables(self, *inserts):
        """Creates both tables; one INSERT … SELECT text makes one part (or one a partition)."""
        sql = self.server.sql
        sql("CREATE DATABASE IF NOT EXISTS " + quoted(self.database))
        sql(self.create)
        sql("SYSTEM STOP MERGES " + self.source)
        for insert in inserts:
            sql("INSERT INTO %s %s" % (self.source, insert))
        sql(self.schema)
        return self

    def files(self):
        return ["--destination-schema-file=" + self.rig.write(self.name + ".new.sql", self.schema),
                "--insert-select-file=" + self.rig.write(self.name + ".insert.sql", "INSERT INTO %s %s" % (self.destination, self.select))]

    def source_words(self):
        return ["--database=" + self.database, "--table=" + self.table, *self.rig.url]

    def freeze(self, **options):
        return self.rig.run("freeze", "--freeze=" + self.freeze_name, *self.source_words(), **options)

    def upload_words(self):
        return ["upload-freeze", "--freeze=" + self.freeze_name, "--bucket=forge", "--job-id=" + self.id, *self.source_words(), *self.files(),
                *self.rig.state, *self.rig.store, *self.rig.scratch, *self.extra]

    def upload(self, *words, **options):
        return self.rig.run(*self.upload_words(), *words, **options)

    def worker_words(self):
        return ["worker", "--drain", "--job-id=" + self.id, "--metrics-addr=", "--parallel=1", "--max-crashes=100",
                *(["--tier=" + self.tier] if self.tier else []), *self.rig.state, *self.rig.store, *self.rig.scratch]

    def work(self, *words, **options):
        options.setdefault("expect", {0, 1, 4})   # parts that failed end a drain with 1 or 4; the callers look at the parts
        return self.rig.run(*self.worker_words(), *words, **options)

    def import_words(self, target=None):
        return ["import-finished", "--job-id=" + self.id, "--database=" + self.database, "--table=" + (target or self.target),
                *self.rig.url, *self.rig.state, *self.rig.store]

    def publish(self, *words, target=None, **options):
        return self.rig.run(*self.import_words(target), *words, **options)

    def retry(self):
        return self.rig.json("retry-failed", "--job-id=" + self.id, "--all", *self.rig.state)["retried"]

    def status(self, is_quiet=True):
        return self.rig.status(self.id, is_quiet)

    def summary(self, is_quiet=True):
        return self.status(is_quiet)["summary"]

    def run(self):
        """Everything, with a look at the state between the steps; compares with the oracle."""
        self.freeze()
        self.upload()
        summary = self.summary()
        check(summary["status"] == "READY" and summary["counts"]["READY"] == summary["total"], "after upload: %s" % summary)
        self.work()
        summary = self.summary()
        check(summary["status"] == "READY_FOR_IMPORT" and summary["rewrite_percent"] == 100, "after the worker: %s" % summary)
        self.publish()
        return self.compare()

    def compare(self):
        """The destination holds exactly what the SELECT gives on the source, in the destination's types; answers the rows."""
        summary = self.summary()
        check(summary["status"] == "IMPORTED" and not summary["live_commits"] and summary["import_percent"] == 100,
              "after the import: %s" % summary)
        twin = "%s.%s" % (quoted(self.database), quoted("oracle of " + self.target))
        self.server.sql("DROP TABLE IF EXISTS " + twin)
        self.server.sql("CREATE TABLE %s AS %s ENGINE = Memory" % (twin, self.destination))
        self.server.sql("INSERT INTO %s %s" % (twin, self.select))
        # As text: not every type can be compared.
        rows = same_rows(self.server, *("SELECT formatRow('TSV', *) AS row FROM " + table for table in (twin, self.destination)))
        self.clean_target()
        return rows

    def clean_target(self):
        """Nothing of the import is left beside the table's parts."""
        left = os.path.join(self.server.folder_of(self.database, self.target), "detached")
        check(not os.listdir(left), "leftovers in detached/: %s" % os.listdir(left))


def same_rows(server, expected, found):
    """Both SELECTs give the same multiset of rows; answers the number of rows."""
    missing = server.number("SELECT count() FROM (%s EXCEPT ALL %s)" % (expected, found))
    extra = server.number("SELECT count() FROM (%s EXCEPT ALL %s)" % (found, expected))
    rows = server.number("SELECT count() FROM (%s)" % found)
    wanted = server.number("SELECT count() FROM (%s)" % expected)
    check(missing == 0 and extra == 0 and rows == wanted,
          "%d rows missing, %d rows too many; %d expected, %d found" % (missing, extra, wanted, rows))
    return rows


def children_of(pid):
    """Process ids of the children, of all depths."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            found += [int(entry)] + children_of(int(entry))
    return found


class Folder:
    """A temporary folder that stays when the test fails."""

    def __init__(self, name):
        self.path = tempfile.mkdtemp(prefix="pf-%s-" % name)

    def __enter__(self):
        return self.path

    def __exit__(self, kind, value, trace):
        if kind is None:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            print("kept for a look: " + self.path, file=sys.stderr)


def run_tests(tests, wanted=None):
    """Runs the named tests (all without names), one line each; answers (passed, failed, skipped)."""
    passed = failed = left_out = 0
    for name, test in tests.items():
        if wanted and not any(word in name for word in wanted):
            continue
        started = time.monotonic()
        try:
            test()
            passed += 1
            print("ok   %-52s %6.1f s" % (name, time.monotonic() - started), flush=True)
        except Skipped as reason:
            left_out += 1
            skipped(name, reason)
        except Failed as error:
            failed += 1
            print("FAIL %-52s %6.1f s\n%s" % (name, time.monotonic() - started, error), flush=True)
        except Exception:   # a test that breaks is a failed test; the others still run
            failed += 1
            print("FAIL %-52s %6.1f s\n%s" % (name, time.monotonic() - started, traceback.format_exc()), flush=True)
    return passed, failed, left_out


def finish(passed, failed, left_out):
    print("%d passed, %d failed, %d skipped" % (passed, failed, left_out))
    sys.exit(1 if failed or not passed else 0)


def main(name, tests, place=LocalPlace, needs_server=True):
    """One server and one place for all tests of a script; each test is a function of (folder, server, place)."""
    result = (0, 1, 0)
    try:
        with Folder(name) as folder:
            where, server = place(os.path.join(folder, "place")), None
            try:
                server = Server(os.path.join(folder, "server")) if needs_server else None
                bound = {test.__name__.removeprefix("test_"): (lambda t=test: t(os.path.join(folder, t.__name__), server, where))
                         for test in tests}
                result = run_tests(bound, sys.argv[1:])
            finally:
                if server:
                    server.stop()
                where.stop()
            check(not result[1], "%d tests failed" % result[1])
    except Failed as error:
        print(error, flush=True)
    finish(*result)
