"""What the Java implementations of Parquet, ORC and Avro read and write, by the programs in java/."""
import glob
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def lib():
    """The folder of jars that scripts/setup --with-interop fills; None when it is not there."""
    folder = os.environ.get("PARTFORGE_INTEROP_JAVA") or os.path.join(
        os.environ.get("PARTFORGE_DEPS_PREFIX", os.path.join(HERE, "../../deps")), "java/lib")
    return folder if os.path.isdir(folder) and os.listdir(folder) else None


def run(folder, program, arguments, zone="UTC"):
    """What a program prints, which is compiled into `folder` the first time."""
    jars = os.path.join(lib(), "*")
    if not os.path.exists(os.path.join(folder, program + ".class")):
        subprocess.run(["javac", "-Xlint:-options", "-cp", jars, "-d", folder] + glob.glob(os.path.join(HERE, "java/*.java")),
                       check=True)
    done = subprocess.run(["java", "-Duser.timezone=" + zone, "-Xmx1g", "-cp", folder + ":" + jars, program] + arguments,
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.decode()


def by_file(text):
    """{path: lines} of what a program printed behind "== PATH"."""
    files = {}
    for line in text.split("\n"):
        if line.startswith("== "):
            lines = files[line[3:]] = []
        elif line:
            lines.append(line)
    return files


def read(folder, paths, zone="UTC"):
    """{path: lines} of the files; one process for all."""
    return by_file(run(folder, "ReadColumns", paths, zone))


def statistics(folder, paths):
    """{path: what ReadStatistics found}; an error is a string."""
    return {path: lines[0] if lines[0].startswith("ERROR") else json.loads(lines[0])
            for path, lines in by_file(run(folder, "ReadStatistics", paths)).items()}
