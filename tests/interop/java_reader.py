"""Rows as the Java implementations read them, by java/ReadColumns.java."""
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def lib():
    """The folder of jars that scripts/setup --with-interop fills; None when it is not there."""
    folder = os.environ.get("PARTFORGE_INTEROP_JAVA") or os.path.join(
        os.environ.get("PARTFORGE_DEPS_PREFIX", os.path.join(HERE, "../../deps")), "java/lib")
    return folder if os.path.isdir(folder) and os.listdir(folder) else None


def read(folder, paths):
    """{path: lines} of the files; one process for all. The class is compiled into `folder`."""
    jars = os.path.join(lib(), "*")
    subprocess.run(["javac", "-Xlint:-options", "-cp", jars, "-d", folder,
                    os.path.join(HERE, "java/ReadColumns.java")], check=True)
    done = subprocess.run(["java", "-Duser.timezone=UTC", "-Xmx1g", "-cp", folder + ":" + jars, "ReadColumns"] + paths,
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    files = {}
    for line in done.stdout.decode().split("\n"):
        if line.startswith("== "):
            lines = files[line[3:]] = []
        elif line:
            lines.append(line)
    return files
