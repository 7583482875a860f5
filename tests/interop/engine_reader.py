"""Rows as the embedded engine reads them. Run as a program it answers queries, one a line of JSON each: the engine
lives in a process of its own, because it and the Arrow of Python must not meet."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def library():
    path = os.path.join(os.environ.get("PARTFORGE_DEPS_PREFIX", os.path.join(HERE, "../../deps")), "libchdb.so")
    return path if os.path.exists(path) else None


def ask(queries):
    """The rows (lists of values) of each query; an error is a string."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), library()], input=json.dumps(queries).encode(),
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
    lib.chdb_connect.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    lib.chdb_query_n.restype = ctypes.c_void_p
    lib.chdb_query_n.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    for name, kind in (("error", ctypes.c_char_p), ("buffer", ctypes.c_void_p), ("length", ctypes.c_size_t)):
        function = getattr(lib, "chdb_result_" + name)
        function.restype = kind
        function.argtypes = [ctypes.c_void_p]
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        arguments = (ctypes.c_char_p * 2)(b"engine", ("--path=" + folder).encode())
        handle = lib.chdb_connect(2, arguments)[0]
        for query in json.load(sys.stdin):
            result = lib.chdb_query_n(handle, query.encode(), len(query.encode()), b"JSONCompactEachRow", 18)
            error = lib.chdb_result_error(result)
            if error:
                answers.append(error.decode())
                continue
            length = lib.chdb_result_length(result)
            text = ctypes.string_at(lib.chdb_result_buffer(result), length) if length else b""
            answers.append([json.loads(line) for line in text.decode("utf-8", "surrogateescape").splitlines()])
    json.dump(answers, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # the engine's threads do not end by themselves


if __name__ == "__main__":
    main()
