#!/usr/bin/env python3
"""Reads what data_interop_write wrote with fastavro, PyIceberg and pyroaring.

  data_interop.py WRITER GOLDEN_DIR

Ends with 77 (skipped) and says so when what `scripts/setup --with-interop` installs is absent. PARTFORGE_INTEROP_PYTHON
names the interpreter that has the Python packages.
"""
import os
import subprocess
import sys
import tempfile

import checking

checking.use_interpreter()
try:
    import fastavro
    import pyroaring
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import ManifestFile, read_manifest_list
    from pyiceberg.table.puffin import PuffinFile
except ImportError as missing:
    checking.skip(missing)

from checking import check

writer, golden = sys.argv[1:3]


def positions(shift):
    return sorted({p + shift for p in (0, 1, 2, 99)} | set(range(70000, 90000, 3)) | set(range(200000, 300000)))


def records(path):
    with open(path, "rb") as file:
        return list(fastavro.reader(file))


with tempfile.TemporaryDirectory() as out:
    subprocess.run([writer, golden, out], check=True)
    wanted = records(os.path.join(golden, "fastavro_null.avro"))
    for codec in ("null", "deflate", "snappy", "zstandard"):
        path = os.path.join(out, "trees_%s.avro" % codec)
        check("fastavro reads trees, codec " + codec, records(path) == wanted)
        with open(path, "rb") as file:
            reader = fastavro.reader(file)
            check("its metadata survive", reader.metadata.get("golden") == "yes" and reader.codec == codec)
            check("unknown attributes survive", "x-unknown" in reader.metadata["avro.schema"])
    batches = records(os.path.join(out, "batches.avro"))
    # Logical types Arrow does not tell apart come back as their storage.
    check("fastavro reads batches", batches == wanted or [
        {key: value for key, value in row.items()} for row in batches] == [
        dict(row, u=row["u"] if isinstance(row["u"], bytes) else row["u"].bytes) for row in wanted])

    io = PyArrowFileIO()
    lists = list(read_manifest_list(io.new_input(os.path.join(out, "manifest_list.avro"))))
    check("PyIceberg reads the manifest list", len(lists) == 1 and lists[0].added_files_count == 5
          and lists[0].partitions[1].upper_bound == b"city4")
    manifest = ManifestFile.from_args(
        manifest_path=os.path.join(out, "manifest.avro"), manifest_length=os.path.getsize(os.path.join(out, "manifest.avro")),
        partition_spec_id=0, content=lists[0].content, sequence_number=5, min_sequence_number=5, added_snapshot_id=77)
    entries = manifest.fetch_manifest_entry(io)
    check("PyIceberg reads the manifest", [e.data_file.file_path for e in entries] ==
          ["s3://b/t/data/%d.parquet" % i for i in range(5)] and entries[3].data_file.partition[1] is None
          and entries[4].data_file.column_sizes == {1: 10, 2: 20, 3: 34})

    with open(os.path.join(out, "vectors.puffin"), "rb") as file:
        puffin = PuffinFile(file.read())
    vectors = puffin.to_vector()
    for i in range(2):
        check("PyIceberg reads vector %d" % i, vectors["f%d.parquet" % i].to_pylist() == positions(i))

    with open(os.path.join(out, "bitmap32.bin"), "rb") as file:
        check("pyroaring reads 32 bits", list(pyroaring.BitMap.deserialize(file.read())) == positions(0))
    with open(os.path.join(out, "bitmap64.bin"), "rb") as file:
        check("pyroaring reads 64 bits",
              list(pyroaring.BitMap64.deserialize(file.read())) == positions(0) + [(3 << 32) + 7])
checking.end("all readers agree")
