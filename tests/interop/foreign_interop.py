#!/usr/bin/env python3
"""Files of other writers, read by us: Java's Parquet, ORC and Avro, pyarrow, DuckDB and the engine. Every value is compared with
what was written, and what `partforge file inspect` says of Parquet with parquet-java and with the rows.

  foreign_interop.py PRINT_ROWS PARTFORGE

Ends with 77 (skipped) and says so when what `scripts/setup --with-interop` installs is absent. PARTFORGE_INTEROP_PYTHON
names the interpreter that has the Python packages.
"""
import json
import os
import subprocess
import sys
import tempfile

import checking

checking.use_interpreter()
try:
    import duckdb
    import pyarrow
    import pyarrow.orc
    import pyarrow.parquet
except ImportError as missing:
    checking.skip(missing)

import engine_reader
import java_reader
import parquet_facts
from checking import check
from plain_rows import first_difference, plain_row

checking.need_java_and_engine()
ROWS = 1000


def ours(paths):
    done = subprocess.run([sys.argv[1]] + paths, check=True, stdout=subprocess.PIPE)
    files = java_reader.by_file(done.stdout.decode())
    return {path: lines[-1] if lines and lines[-1].startswith("ERROR") else [plain_row(json.loads(line)) for line in lines]
            for path, lines in files.items()}


def same_rows(path, got, wanted):
    name = os.path.basename(path)
    if isinstance(got, str):
        check("%s: %s" % (name, got), False)
        return
    difference = first_difference(got, wanted)
    check(name + ": rows", not difference, difference)


def table_of(rows):
    """The rows as pyarrow has them: what pyarrow and DuckDB write."""
    import datetime
    import decimal
    epoch = datetime.datetime(1970, 1, 1)
    schema = pyarrow.schema([
        ("i", pyarrow.int64()), pyarrow.field("n", pyarrow.int32(), False), ("d", pyarrow.float64()), ("f", pyarrow.float32()),
        ("b", pyarrow.bool_()), ("s", pyarrow.string()), pyarrow.field("u", pyarrow.string(), False), ("y", pyarrow.binary()),
        ("x", pyarrow.decimal128(12, 2)), ("w", pyarrow.decimal128(30, 4)), ("t", pyarrow.timestamp("us")), ("e", pyarrow.date32()),
        ("l", pyarrow.list_(pyarrow.int32())), ("r", pyarrow.struct([("p", pyarrow.int32()), ("q", pyarrow.string())])),
        ("m", pyarrow.map_(pyarrow.string(), pyarrow.int64())), ("v", pyarrow.list_(pyarrow.list_(pyarrow.int32()))),
        pyarrow.field("h", pyarrow.binary(), False)])
    make = {
        "y": bytes.fromhex, "h": bytes.fromhex, "x": decimal.Decimal, "w": decimal.Decimal,
        "t": lambda micros: epoch + datetime.timedelta(microseconds=micros),
        "e": lambda days: epoch.date() + datetime.timedelta(days=days),
        "m": lambda pairs: [tuple(pair) for pair in pairs]}
    columns = [pyarrow.array([None if row[name] is None else make.get(name, lambda value: value)(row[name]) for row in rows],
                             schema.field(name).type) for name in schema.names]
    return pyarrow.table(columns, schema=schema)


def from_pyarrow(folder, table):
    paths = []
    for number, codec in enumerate(("snappy", "zstd", "gzip", "none", "lz4", "brotli")):
        for version in ("1.0", "2.0"):
            path = os.path.join(folder, "pyarrow_%s_v%s.parquet" % (codec, version[0]))
            # Every third without dictionaries, in the encodings that are left; every second without a page index.
            encodings = {"i": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "u": "DELTA_LENGTH_BYTE_ARRAY", "d": "BYTE_STREAM_SPLIT",
                         "f": "BYTE_STREAM_SPLIT"} if number % 3 == 1 else None
            pyarrow.parquet.write_table(
                table, path, compression=codec, data_page_version=version, row_group_size=400, max_rows_per_page=70,
                write_batch_size=20, write_page_index=number % 2 == 0, use_dictionary=number % 3 == 0, column_encoding=encodings,
                write_page_checksum=True, store_decimal_as_integer=number % 2 == 1, store_schema=number % 2 == 0)
            paths.append(path)
    for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        path = os.path.join(folder, "pyarrow_%s.orc" % codec)
        pyarrow.orc.write_table(table, path, compression=codec, stripe_size=100_000, dictionary_key_size_threshold=0.5)
        paths.append(path)
    return paths


def from_duckdb(folder, table):
    duckdb.register("input", table)
    paths = []
    for codec in ("snappy", "zstd", "gzip", "uncompressed", "lz4_raw"):
        for version in ("V1", "V2"):
            path = os.path.join(folder, "duckdb_%s_%s.parquet" % (codec, version.lower()))
            duckdb.sql("COPY (SELECT * FROM input) TO '%s' (FORMAT parquet, COMPRESSION %s, PARQUET_VERSION %s, ROW_GROUP_SIZE 400)"
                       % (path, codec, version))
            paths.append(path)
    return paths


# Of the engine: what its types hold as they are. Lists and maps are never null there, and text and bytes are one type.
ENGINE_COLUMNS = ("i", "n", "d", "f", "b", "s", "u", "y", "x", "w", "e", "l", "m")


def from_engine(folder, source):
    chosen = "SELECT %s FROM file('%s', Parquet, '%s') ORDER BY n" % (
        ", ".join("lower(hex(y)) AS y" if name == "y" else name for name in ENGINE_COLUMNS), source,
        "i Nullable(Int64), n Int32, d Nullable(Float64), f Nullable(Float32), b Nullable(Bool), s Nullable(String), u String, "
        "y Nullable(String), x Nullable(Decimal(12,2)), w Nullable(Decimal(30,4)), e Nullable(Date32), l Array(Nullable(Int32)), "
        "m Map(String, Nullable(Int64))")
    queries, paths = [], []
    for number, codec in enumerate(("snappy", "zstd", "gzip", "none", "lz4", "brotli")):
        paths.append(os.path.join(folder, "engine_%s.parquet" % codec))
        queries.append("INSERT INTO FUNCTION file('%s', Parquet) %s SETTINGS output_format_parquet_compression_method='%s', "
                       "output_format_parquet_row_group_size=400, output_format_parquet_data_page_size=3000, output_format_parquet_batch_size=50, "
                       "output_format_parquet_write_page_index=1, output_format_parquet_write_bloom_filter=%d, "
                       "output_format_parquet_string_as_string=1, engine_file_truncate_on_insert=1" % (paths[-1], chosen, codec, number % 2))
    for codec in ("none", "lz4", "snappy", "zlib", "zstd"):
        paths.append(os.path.join(folder, "engine_%s.orc" % codec))
        queries.append("INSERT INTO FUNCTION file('%s', ORC) %s SETTINGS output_format_orc_compression_method='%s', "
                       "output_format_orc_string_as_string=1, engine_file_truncate_on_insert=1" % (paths[-1], chosen, codec))
    for codec in ("null", "deflate", "snappy", "zstd"):
        paths.append(os.path.join(folder, "engine_%s.avro" % codec))
        queries.append("INSERT INTO FUNCTION file('%s', Avro) %s SETTINGS output_format_avro_codec='%s', output_format_avro_sync_interval=2000, "
                       "output_format_avro_string_column_pattern='^[suy]$', engine_file_truncate_on_insert=1" % (paths[-1], chosen, codec))
    for path, answer in zip(paths, engine_reader.ask(queries)):
        check("the engine writes %s: %s" % (os.path.basename(path), answer), not isinstance(answer, str))
    return [path for path in paths if os.path.exists(path)]


def as_engine_has(row):
    return dict({name: row[name] for name in ENGINE_COLUMNS}, l=row["l"] or [], m=row["m"] or [])


with tempfile.TemporaryDirectory() as out:
    classes = os.path.join(out, "classes")
    os.mkdir(classes)
    java_reader.run(classes, "WriteColumns", [out, str(ROWS)])
    with open(os.path.join(out, "rows.jsonl")) as lines:
        rows = [plain_row(json.loads(line)) for line in lines]
    check("the rows are there", len(rows) == ROWS)
    java = sorted(os.path.join(out, name) for name in os.listdir(out) if name.startswith("java_"))
    check("all files of Java are there", len(java) == 20, java)
    table = table_of(rows)
    arrow, duck = from_pyarrow(out, table), from_duckdb(out, table)
    engine = from_engine(out, arrow[0])

    # check: DATA-19
    got = ours(java + arrow + duck + engine)
    for path in java + arrow + duck:
        same_rows(path, got[path], rows)
    for path in engine:
        same_rows(path, got[path], [as_engine_has(row) for row in rows])

    parquet = [path for path in java + arrow + duck + engine if path.endswith(".parquet")]
    said, facts = java_reader.statistics(classes, parquet), parquet_facts.inspect(sys.argv[2], parquet)
    for path in parquet:
        held = [as_engine_has(row) for row in rows] if path in engine else rows
        parquet_facts.compare(os.path.basename(path), facts[path], said[path], held, False, check)
    with_index = sum("mins" in column for path in parquet if not isinstance(said[path], str)
                     for group in said[path]["groups"] for column in group["columns"])
    check("many columns have a page index", with_index > 300, with_index)
checking.end("all writers' files are read, %d with page indexes of %d columns" % (len(got), with_index))
