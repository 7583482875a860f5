#!/usr/bin/env python3
"""Makes the golden files of this folder with other writers. Not run by any test; the files are committed.

  python3 -m venv venv && venv/bin/pip install fastavro==1.13.1 pyiceberg==0.12.0 pyarrow==26.0.1 \
      pyroaring==1.2.0 backports.zstd cramjam
  venv/bin/python make_golden.py

The files java_* and java_rows.jsonl, the rows in them, are of the Java implementations, which scripts/setup --with-interop
installs (tests/interop/java/pom.xml has their versions):

  javac -cp "deps/java/lib/*" -d classes tests/interop/java/*.java
  java -Duser.timezone=UTC -cp "classes:deps/java/lib/*" WriteColumns OUT 60 few && mv OUT/rows.jsonl OUT/java_rows.jsonl
"""
import datetime
import decimal
import os
import uuid

import fastavro
import pyroaring
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus,
                                ManifestFile, PartitionFieldSummary, write_manifest, write_manifest_list)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

here = os.path.dirname(os.path.abspath(__file__))

# Every schema type that the lake formats use, and an attribute of nobody.
ALL_TYPES = {
    "type": "record", "name": "row", "namespace": "golden", "fields": [
        {"name": "id", "type": "int", "field-id": 1, "x-unknown": {"kept": [True, None]}},
        {"name": "big", "type": ["null", "long"], "default": None, "field-id": 2},
        {"name": "ok", "type": "boolean", "field-id": 3},
        {"name": "f", "type": "float", "field-id": 4},
        {"name": "d", "type": ["null", "double"], "field-id": 5},
        {"name": "s", "type": ["null", "string"], "field-id": 6},
        {"name": "b", "type": "bytes", "field-id": 7},
        {"name": "fx", "type": {"type": "fixed", "name": "fixed_4", "size": 4}, "field-id": 8},
        {"name": "dec", "type": {"type": "fixed", "name": "decimal_20_3", "size": 9, "logicalType": "decimal",
                                 "precision": 20, "scale": 3}, "field-id": 9},
        {"name": "decb", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
         "field-id": 10},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "field-id": 11},
        {"name": "tm", "type": {"type": "long", "logicalType": "time-micros"}, "field-id": 12},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
         "field-id": 13},
        {"name": "u", "type": {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
         "field-id": 14},
        {"name": "lst", "type": {"type": "array", "items": ["null", "long"], "element-id": 16}, "field-id": 15},
        {"name": "mp", "type": ["null", {"type": "map", "values": "double", "key-id": 18, "value-id": 19}],
         "field-id": 17},
        {"name": "kv", "type": {"type": "array", "logicalType": "map", "items": {
            "type": "record", "name": "k21_v22", "fields": [
                {"name": "key", "type": "int", "field-id": 21}, {"name": "value", "type": "string", "field-id": 22}]}},
         "field-id": 20},
        {"name": "st", "type": ["null", {"type": "record", "name": "inner", "fields": [
            {"name": "x", "type": "int", "field-id": 24}, {"name": "y", "type": ["null", "string"], "field-id": 25}]}],
         "field-id": 23},
        {"name": "e", "type": {"type": "enum", "name": "color", "symbols": ["RED", "GREEN"]}, "field-id": 26},
    ]}


def row(i):
    return {
        "id": i - 3, "big": None if i % 3 == 0 else (1 << 40) * (i - 5), "ok": i % 2 == 0, "f": i / 4,
        "d": None if i % 4 == 0 else -i / 8, "s": None if i % 5 == 0 else "naïve %d" % i, "b": bytes([i, 255 - i]),
        "fx": bytes([i] * 4), "dec": decimal.Decimal(i * 1000003 - 5).scaleb(-3),
        "decb": decimal.Decimal(100 * i - 314).scaleb(-2),
        "day": None if i % 6 == 0 else datetime.date(2024, 1, 1) + datetime.timedelta(days=i),
        "tm": datetime.time(1, 2, i, 34567),
        "ts": datetime.datetime(2024, 1, 1, 0, 0, i, 123456, tzinfo=datetime.timezone.utc),
        "u": uuid.UUID(int=i * (1 << 100) + i).bytes,
        "lst": [None if k % 3 == 2 else k * i for k in range(i % 5)],
        "mp": None if i % 4 == 1 else {"k%d" % k: k / 2 for k in range(i % 3)},
        "kv": [{"key": k, "value": "v" * k} for k in range(i % 4)],
        "st": None if i % 3 == 1 else {"x": i, "y": None if i % 2 else "y%d" % i},
        "e": "GREEN" if i % 2 else "RED",
    }


def avro_files():
    schema = fastavro.parse_schema(ALL_TYPES)
    for codec in ("null", "deflate", "snappy", "zstandard"):
        with open(os.path.join(here, "fastavro_%s.avro" % codec), "wb") as out:
            fastavro.writer(out, schema, [row(i) for i in range(40)], codec=codec, sync_interval=1500,
                            sync_marker=bytes(range(16)), metadata={"golden": "yes"})


def manifests():
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "ts", TimestampType()),
                    NestedField(3, "city", StringType()), schema_id=0)
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"),
                         PartitionField(3, 1001, IdentityTransform(), "city"), spec_id=0)
    io = PyArrowFileIO()
    path = os.path.join(here, "pyiceberg_manifest.avro")
    with write_manifest(2, spec, schema, io.new_output(path), 77, "deflate") as writer:
        for i in range(5):
            writer.add_entry(ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=77, sequence_number=None, file_sequence_number=None,
                data_file=DataFile.from_args(
                    content=DataFileContent.DATA, file_path="s3://b/t/data/%d.parquet" % i,
                    file_format=FileFormat.PARQUET, partition=Record(19000 + i, None if i == 3 else "city%d" % i),
                    record_count=100 + i, file_size_in_bytes=1000 + i, column_sizes={1: 10, 2: 20, 3: 30 + i},
                    value_counts={1: 100 + i, 2: 100 + i}, null_value_counts={1: 0, 2: i}, nan_value_counts={},
                    lower_bounds={1: i.to_bytes(8, "little"), 3: b"a"},
                    upper_bounds={1: (i + 9).to_bytes(8, "little"), 3: b"z"}, key_metadata=None,
                    split_offsets=[4, 500], equality_ids=None, sort_order_id=None)))
    manifest = ManifestFile.from_args(
        manifest_path="s3://b/t/metadata/m0.avro", manifest_length=5090, partition_spec_id=0, content=0,
        sequence_number=5, min_sequence_number=5, added_snapshot_id=77, added_files_count=5, existing_files_count=0,
        deleted_files_count=0, added_rows_count=510, existing_rows_count=0, deleted_rows_count=0, key_metadata=None,
        partitions=[PartitionFieldSummary(False, False, (19000).to_bytes(4, "little"), (19004).to_bytes(4, "little")),
                    PartitionFieldSummary(True, None, b"city0", b"city4")])
    path = os.path.join(here, "pyiceberg_manifest_list.avro")
    with write_manifest_list(2, io.new_output(path), 77, None, 5, "deflate") as writer:
        writer.add_manifests([manifest])


def bitmaps():
    # Arrays, a bitset, runs and a second bucket.
    values = list(range(0, 5000, 37)) + list(range(70000, 79000, 2)) + list(range(200000, 265000)) + [(1 << 32) + 9]
    bitmap = pyroaring.BitMap64(values)
    with open(os.path.join(here, "pyroaring_64.bin"), "wb") as out:
        out.write(bitmap.serialize())
    low = pyroaring.BitMap([v for v in values if v < 1 << 32])
    low.run_optimize()
    with open(os.path.join(here, "pyroaring_32.bin"), "wb") as out:
        out.write(low.serialize())


avro_files()
manifests()
bitmaps()
