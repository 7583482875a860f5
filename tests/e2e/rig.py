"""What the end-to-end and crash tests share: the program, a ClickHouse to serve tables, SQL over HTTP.

Environment (set by ctest): PARTFORGE_BINARY, PARTFORGE_DEPS_PREFIX, PARTFORGE_SOURCE_DIR.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

BINARY = os.environ["PARTFORGE_BINARY"]
SOURCE = os.environ["PARTFORGE_SOURCE_DIR"]
DEPS = os.environ["PARTFORGE_DEPS_PREFIX"]


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


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


class Rig:
    """A folder with everything of one test: state, objects, scratch, the two SQL files."""

    def __init__(self, folder, server, state_url=None, store=None):
        self.folder = folder
        self.server = server
        os.makedirs(os.path.join(folder, "objects", "forge"), exist_ok=True)
        self.state = ["--state-url=" + (state_url or "sqlite:" + os.path.join(folder, "state.db"))]
        self.store = store or ["--s3-endpoint=file://" + os.path.join(folder, "objects")]
        self.scratch = ["--work-dir=" + os.path.join(folder, "work")]
        self.environment = {}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def run(self, *words, fault=None, trace=None, expect=0, timeout=300):
        """Runs the program. `expect` is the exit code, a set of them, or None for any; answers (exit, stdout, stderr)."""
        environment = dict(os.environ, **self.environment)
        environment.pop("PARTFORGE_FAULT", None)
        if fault:
            environment["PARTFORGE_FAULT"] = fault
        if trace:
            environment["PARTFORGE_FAULT_TRACE"] = trace
        done = subprocess.run([BINARY, *words], capture_output=True, stdin=subprocess.DEVNULL, env=environment, timeout=timeout)
        out, err = done.stdout.decode(), done.stderr.decode()
        wanted = {expect} if isinstance(expect, int) else expect
        check(wanted is None or done.returncode in wanted,
              "%s\nended with %s, expected %s\n%s\n%s" % (" ".join(words), done.returncode, expect, out[-3000:], err[-6000:]))
        return done.returncode, out, err

    def json(self, *words, **options):
        _, out, err = self.run(*words, "--json", **options)
        try:
            return json.loads(out)
        except json.JSONDecodeError as error:
            raise Failed("%s printed no JSON document: %s\n%s\n%s" % (words[0], error, out, err)) from None

    def status(self, job):
        return self.json("job-status", "--job-id=" + job, "--parts", *self.state)


def same_rows(server, expected, found):
    """Both SELECTs give the same multiset of rows; answers the number of rows."""
    missing = server.number("SELECT count() FROM (%s EXCEPT ALL %s)" % (expected, found))
    extra = server.number("SELECT count() FROM (%s EXCEPT ALL %s)" % (found, expected))
    rows = server.number("SELECT count() FROM (%s)" % found)
    wanted = server.number("SELECT count() FROM (%s)" % expected)
    check(missing == 0 and extra == 0 and rows == wanted,
          "%d rows missing, %d rows too many; %d expected, %d found" % (missing, extra, wanted, rows))
    return rows


class Folder:
    """A temporary folder that stays when the test fails."""

    def __init__(self, name):
        self.path = tempfile.mkdtemp(prefix="pf-%s-" % name)

    def __enter__(self):
        return self.path

    def __exit__(self, kind, value, traceback):
        if kind is None:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            print("kept for a look: " + self.path, file=sys.stderr)


def main(tests):
    """Runs the named tests (all without arguments), prints one line each and the closing line that counts."""
    wanted = sys.argv[1:]
    passed = failed = 0
    for name, test in tests.items():
        if wanted and name not in wanted:
            continue
        started = time.monotonic()
        try:
            test()
            passed += 1
            print("ok   %-48s %6.1f s" % (name, time.monotonic() - started), flush=True)
        except Failed as error:
            failed += 1
            print("FAIL %-48s %6.1f s\n%s" % (name, time.monotonic() - started, error), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed or not passed else 0)
