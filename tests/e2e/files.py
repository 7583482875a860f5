"""`partforge file inspect` and `file concat` over files of other writers, on this machine's disk and in an S3 store.

The values are compared by the engine, which every machine has, and by DuckDB and pyarrow where they are installed
(PARTFORGE_INTEROP_PYTHON names an interpreter that has them; scripts/setup --with-interop makes one). Without them the tests
of their files are skipped, loudly.
"""
import datetime
import decimal
import glob
import importlib
import json
import os
import random
import resource
import shutil
import sys

DEPS = os.environ["PARTFORGE_DEPS_PREFIX"]
INTEROP = os.environ.get("PARTFORGE_INTEROP_PYTHON") or os.path.join(DEPS, "interop", "bin", "python")
if os.path.exists(INTEROP) and not os.environ.get("PARTFORGE_INTEROP_IN"):
    os.execve(INTEROP, [INTEROP, *sys.argv], dict(os.environ, PARTFORGE_INTEROP_IN="1"))

from rig import Failed, RemotePlace, Rig, Skipped, check, literal  # noqa: E402
import rig as rig_module  # noqa: E402

FLIGHTS = os.path.join(DEPS, "data", "flights-2013.parquet")


def others():
    """The packages of other implementations, or a skip."""
    try:
        return importlib.import_module("duckdb"), importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as missing:
        raise Skipped(str(missing)) from None


def local(folder, place):
    rig = Rig(folder, None, place, "files")
    rig.store = []
    return rig


def untouched(folder, wanted):
    """Nothing but the files wanted lies in the folder, hidden ones included."""
    found = sorted(os.listdir(folder))
    check(found == sorted(wanted), "in %s: %s, expected %s" % (folder, found, sorted(wanted)))


def in_order(server, *paths):
    """All rows of Parquet files as text, one after the other."""
    return "".join(server.sql("SELECT * FROM file(%s, Parquet) FORMAT TSV" % literal(path), max_threads=1,
                              input_format_parquet_preserve_order=1) for path in paths)


def sample(arrow, rows, seed):
    """Rows of every kind of column: nulls, one value, unique ones, nested ones."""
    draw = random.Random(seed)
    pick = lambda make: [None if draw.random() < 0.1 else make(i) for i in range(rows)]
    return arrow.table({
        "id": arrow.array([seed * 1_000_000 + i for i in range(rows)], arrow.int64()),
        "city": arrow.array(pick(lambda i: "city %d" % draw.randrange(40)), arrow.string()),
        "unique": arrow.array(pick(lambda i: "%x" % draw.getrandbits(90)), arrow.string()),
        "price": arrow.array(pick(lambda i: decimal.Decimal(draw.randrange(10 ** 9)) / 100), arrow.decimal128(18, 2)),
        "ratio": arrow.array(pick(lambda i: draw.uniform(-1e6, 1e6)), arrow.float64()),
        "small": arrow.array(pick(lambda i: draw.uniform(-1, 1)), arrow.float32()),
        "day": arrow.array(pick(lambda i: datetime.date(2000, 1, 1) + datetime.timedelta(draw.randrange(9000))), arrow.date32()),
        "at": arrow.array(pick(lambda i: 1_700_000_000_000_000 + draw.randrange(10 ** 12)), arrow.timestamp("us", tz="UTC")),
        "flag": arrow.array(pick(lambda i: draw.random() < 0.5), arrow.bool_()),
        "bytes": arrow.array(pick(lambda i: draw.randbytes(draw.randrange(20))), arrow.binary()),
        "nothing": arrow.array([None] * rows, arrow.int32()),
        "one": arrow.array(["same"] * rows, arrow.string()),
        "list": arrow.array(pick(lambda i: [draw.randrange(50) for _ in range(draw.randrange(4))]), arrow.list_(arrow.int32())),
        "struct": arrow.array(pick(lambda i: {"a": draw.randrange(9), "b": "b%d" % draw.randrange(9)}),
                              arrow.struct([("a", arrow.int32()), ("b", arrow.string())])),
        "map": arrow.array(pick(lambda i: [("k%d" % k, k) for k in range(draw.randrange(3))]), arrow.map_(arrow.string(), arrow.int64())),
    })


def same_table(found, inputs, arrow, what):
    wanted = arrow.concat_tables([table.replace_schema_metadata(None) for table in inputs])
    check(found.num_rows == wanted.num_rows, "%s: %d rows of %d" % (what, found.num_rows, wanted.num_rows))
    for name in wanted.column_names:
        check(found.column(name).to_pylist() == wanted.column(name).to_pylist(), "%s: column %s differs" % (what, name))


def page_index_is_right(rig, path, table, columns):
    """Every page's rows lie within what the page index says of them."""
    report = rig.json("file", "inspect", path, "--pages")["files"][0]
    seen, group_begin = 0, 0
    for group in report["row_groups"]:
        for chunk in group["columns"]:
            if chunk["path"] not in columns:
                continue
            check(chunk["has_column_index"] and chunk["has_offset_index"], "no page index: %s" % chunk["path"])
            check(sum(page["rows"] for page in chunk["pages"]) == group["rows"], "rows of pages: %s" % chunk["path"])
            for page in chunk["pages"]:
                values = table.column(chunk["path"]).slice(group_begin + page["first_row"], page["rows"]).to_pylist()
                bare = [value for value in values if value is not None]
                check(page["null_count"] == len(values) - len(bare), "nulls of %s: %s" % (chunk["path"], page))
                check(bool(bare) != page["is_null_page"], "a null page of %s: %s" % (chunk["path"], page))
                if bare:
                    check(page["min"] <= min(bare) and max(bare) <= page["max"], "bounds of %s: %s" % (chunk["path"], page))
                seen += 1
        group_begin += group["rows"]
    check(seen > 0, "no page was looked at")


def test_flights_are_inspected_and_joined(folder, server, place):
    rig = local(folder, place)
    out = os.path.join(folder, "out")
    os.makedirs(out)
    report = rig.json("file", "inspect", FLIGHTS, "--pages", "--decode")["files"][0]
    check(report["format"] == "parquet" and report["rows"] == 336776 and report["bytes"] == os.path.getsize(FLIGHTS), "report: %s" % report["rows"])
    check(sum(group["rows"] for group in report["row_groups"]) == report["rows"], "rows of groups")
    for column in report["columns"]:
        low, high = server.sql("SELECT min(%s), max(%s) FROM file(%s, Parquet)" % (column["path"], column["path"], literal(FLIGHTS))).rstrip("\n").split("\t")
        if column["type"] in ("string", "int16", "int32", "int64"):
            check(str(column["min"]) == low and str(column["max"]) == high, "%s: %s … %s, the engine %s … %s"
                  % (column["path"], column["min"], column["max"], low, high))
    # Three pieces of many row groups, joined: by bytes, page by page, with another codec, decoded.
    pieces = []
    for i in range(3):
        pieces.append(os.path.join(folder, "piece%d.parquet" % i))
        server.sql("INSERT INTO FUNCTION file(%s, Parquet) SELECT * FROM file(%s, Parquet) WHERE month %% 3 = %d" % (literal(pieces[-1]), literal(FLIGHTS), i),
                   output_format_parquet_row_group_size=20000, max_insert_threads=1, max_threads=1, engine_file_truncate_on_insert=1)
    wanted = in_order(server, *pieces)
    for name, words in (("stitched", []), ("copied", ["--row-group-bytes=4KiB"]), ("gzip", ["--codec=gzip"]), ("level", ["--codec=zstd", "--codec-level=9"]),
                        ("plain", ["--codec=none"]), ("decoded", ["--decode"])):
        path = os.path.join(out, name + ".parquet")
        plan = rig.json("file", "concat", path, *pieces, "--dry-run", *words)
        check(not os.path.exists(path) and plan["dry_run"], "the dry run wrote")
        done = rig.json("file", "concat", path, *pieces, *words)
        check(done["steps"] == plan["steps"], "%s: another plan than announced" % name)
        check(done["rows_in"] == done["rows_out"] == 336776 and done["bytes_out"] == os.path.getsize(path), "%s: %s" % (name, done["rows_out"]))
        check(in_order(server, path) == wanted, "%s: rows differ" % name)
        report = rig.json("file", "inspect", path)["files"][0]
        codecs = {codec for column in report["columns"] for codec in column["codecs"]}
        check(codecs == {{"gzip": "gzip", "plain": "none"}.get(name, "zstd")}, "%s: codecs %s" % (name, codecs))
        ways = {step["way"] for step in done["steps"]}
        check(ways == {{"copied": "copy", "decoded": "decode"}.get(name, "stitch")}, "%s: %s" % (name, ways))
        check((done["rows_decoded"] > 0) == (name == "decoded"), "%s: %d rows were decoded" % (name, done["rows_decoded"]))
        text = rig.run("file", "inspect", path, "--details", "--pages")[1]
        check("336 776 rows" in text and "tailnum" in text, "the text: %s" % text[:300])
    untouched(out, [name + ".parquet" for name in ("stitched", "copied", "gzip", "level", "plain", "decoded")])
    # How far the output is looked at, and that it is said.
    columns = len(rig.json("file", "inspect", pieces[0])["files"][0]["columns"])
    for words, mode, pages, rows in (([], "sample", columns, None), (["--verify=full"], "full", None, 336776), (["--verify=none"], "none", 0, 0), (["--no-verify"], "none", 0, 0)):
        done = rig.json("file", "concat", os.path.join(folder, "verified.parquet"), *pieces, "--overwrite", *words)["verified"]
        check(done["mode"] == mode and pages in (None, done["pages"]) and rows in (None, done["rows_compared"]) and not done["pages_unread"], "%s: %s" % (words, done))
        check((done["pages_compared"] > 0) == (mode != "none"), "%s: %s" % (words, done))
    text = rig.run("file", "concat", os.path.join(folder, "verified.parquet"), *pieces, "--overwrite")[1]
    check("verified sample: %d pages decoded" % columns in text, "the summary: %s" % text)
    _, _, err = rig.run("file", "concat", os.path.join(folder, "verified.parquet"), *pieces, "--overwrite", "--verify=some", expect={1, 2})
    check("error[PF1005]" in err and "none, sample, full" in err, "a mode that is none: %s" % err)


def test_what_cannot_be_joined_is_refused_and_nothing_written(folder, server, place):
    rig = local(folder, place)
    os.makedirs(os.path.join(folder, "out"))
    out = os.path.join(folder, "out", "joined.parquet")

    def made(name, select):
        path = os.path.join(folder, name)
        server.sql("INSERT INTO FUNCTION file(%s, Parquet) %s" % (literal(path), select), engine_file_truncate_on_insert=1)
        return path

    a = made("a.parquet", "SELECT toInt64(number) AS id, toString(number) AS s FROM numbers(1000)")
    more = made("more.parquet", "SELECT toInt64(number) AS id, toString(number) AS s, 1 AS extra FROM numbers(10)")
    less = made("less.parquet", "SELECT toInt64(number) AS id FROM numbers(10)")
    other = made("other.parquet", "SELECT toString(number) AS id, toString(number) AS s FROM numbers(10)")
    check("extra" in rig.refused(8009, 3, "file", "concat", out, a, more), "the column is not named")
    check("lacks column s" in rig.refused(8009, 3, "file", "concat", out, a, less), "the column is not named")
    check("column id" in rig.refused(8009, 3, "file", "concat", out, a, other), "the column is not named")
    check("column id" in rig.refused(8009, 3, "file", "concat", out, a, other, "--dry-run"), "a dry run must refuse too")
    with open(a, "rb") as f:
        good = f.read()
    broken = {"empty.parquet": (b"", 8007, 8), "cut.parquet": (good[:-100], 8007, 8), "magic.parquet": (good[:4], 8007, 8),
              "text.parquet": (b"no Parquet at all" * 20, 8008, 3), "encrypted.parquet": (b"PARE" + good[4:-4] + b"PARE", 8008, 3)}
    for name, (data, code, exit_code) in broken.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as f:
            f.write(data)
        err = rig.refused(code, exit_code, "file", "concat", out, a, path)
        check("where   " + path in err, "the file is not named: %s" % err)
        rig.refused(code, exit_code, "file", "inspect", path)
        report = json.loads(rig.run("file", "inspect", a, path, "--json", expect=exit_code)[1])
        check(report["files"][0]["rows"] == 1000 and report["files"][1]["error"]["code"] == "PF%d" % code, "two files: %s" % report["files"][1])
    # A flipped bit in the pages is seen before anything is published, or when the output is read back.
    middle = os.path.join(folder, "flipped.parquet")
    with open(middle, "wb") as f:
        f.write(good[:60] + bytes([good[60] ^ 0x10]) + good[61:])
    rig.refused(8007, 8, "file", "concat", out, a, middle)
    for words in ([out], [out, os.path.join(folder, "absent.parquet")], [out, folder], ["s3://bucket", a], ["gs://b/c", a], [os.path.join(folder, "no", "x"), a],
                  [folder, a], [out, a, "--codec=fast"], [out, a, "--row-group-bytes=1"], [out, a, "--codec-level=9"], [out, a, "--codec=zstd", "--codec-level=99"]):
        code, _, err = rig.run("file", "concat", *words, expect={1, 2})
        check("error[PF1" in err, "%s: %s" % (words, err))
    untouched(os.path.join(folder, "out"), [])
    # An output that is there stays, unless it may be replaced; then it goes in one step.
    rig.run("file", "concat", out, a)
    before = os.stat(out).st_ino
    rig.refused(1021, 3, "file", "concat", out, a, a)
    rig.refused(1021, 3, "file", "concat", out, a, a, "-n")
    check(os.stat(out).st_ino == before, "the output was replaced")
    rig.refused(8007, 8, "file", "concat", out, a, middle, "--overwrite")
    check(os.stat(out).st_ino == before and in_order(server, out) == in_order(server, a), "a failure touched the output")
    check(rig.json("file", "concat", out, out, a, "--overwrite")["rows_out"] == 2000, "the file could not be joined to itself")
    check(in_order(server, out) == in_order(server, a, a), "rows of the replaced output")
    untouched(os.path.join(folder, "out"), ["joined.parquet"])
    # Killed between the new file's name and the end: it stands whole, and the command can be given again.
    rig.run("file", "concat", out, a, "--overwrite", fault="data.replaced_by_concat:1:kill", expect=-9)
    check(in_order(server, out) == in_order(server, a), "rows of an output whose command was killed")
    rig.run("file", "concat", out, a, a, "--overwrite")
    check(in_order(server, out) == in_order(server, a, a), "rows after the command was given again")
    for name in os.listdir(os.path.join(folder, "out")):   # the second name of the killed one is nobody's
        if name.startswith("joined.parquet.partforge-"):
            os.unlink(os.path.join(folder, "out", name))
    untouched(os.path.join(folder, "out"), ["joined.parquet"])
    # No rows: a file with the schema, or nothing at all when asked for.
    none = made("none.parquet", "SELECT toInt64(number) AS id, toString(number) AS s FROM numbers(0)")
    empty = os.path.join(folder, "out", "none.parquet")
    rig.refused(1016, 9, "file", "concat", empty, none, none, "--fail-if-empty")
    check(not os.path.exists(empty), "an output without rows was written")
    check(rig.json("file", "concat", empty, none, none)["rows_out"] == 0, "rows from nowhere")
    check(server.sql("DESCRIBE file(%s, Parquet)" % literal(empty)) == server.sql("DESCRIBE file(%s, Parquet)" % literal(a)), "another schema")
    check(rig.json("file", "concat", os.path.join(folder, "out", "some.parquet"), none, a, none)["rows_out"] == 1000, "files without rows between others")
    # Memory that does not suffice is said, with the way out.
    check("--memory" in rig.refused(7017, 1, "file", "concat", os.path.join(folder, "out", "tiny.parquet"), a, "--decode", "--memory=64KiB"), "no way out")


def test_files_of_pyarrow_and_duckdb(folder, server, place):
    duckdb, arrow, parquet = others()
    rig = local(folder, place)
    inputs = [sample(arrow, rows, seed) for seed, rows in enumerate((5000, 1, 777, 0, 3000), 1)]
    ways = {
        "snappy v1": dict(compression="snappy", data_page_version="1.0"),
        "zstd v2": dict(compression="zstd", data_page_version="2.0"),
        "no dictionaries": dict(compression="gzip", use_dictionary=False),
        "small pages, index": dict(compression="zstd", write_page_index=True, data_page_size=2048, write_batch_size=128, row_group_size=900),
        "deltas": dict(compression="none", use_dictionary=False, column_encoding={"id": "DELTA_BINARY_PACKED", "unique": "DELTA_BYTE_ARRAY", "ratio": "BYTE_STREAM_SPLIT"}),
    }
    for way, options in ways.items():
        paths = []
        for i, table in enumerate(inputs):
            paths.append(os.path.join(folder, "%s %d.parquet" % (way, i)))
            parquet.write_table(table, paths[-1], **options)
        for name, words in (("joined", []), ("lz4", ["--codec=lz4"]), ("as groups", ["--row-group-bytes=1KiB"]), ("decoded", ["--decode"])):
            out = os.path.join(folder, "%s %s.parquet" % (way, name))
            done = rig.json("file", "concat", out, *paths, *words)
            what = "%s, %s" % (way, name)
            check(done["rows_out"] == 8778, "%s: %d rows" % (what, done["rows_out"]))
            same_table(parquet.read_table(out, page_checksum_verification=True), inputs, arrow, what + ", pyarrow")
            order = "SELECT * EXCLUDE (file_row_number) FROM read_parquet('%s', file_row_number = true) ORDER BY file_row_number"
            wanted = [row for path in paths for row in duckdb.sql(order % path).fetchall()]
            check(duckdb.sql(order % out).fetchall() == wanted, "%s: DuckDB reads other rows" % what)
            for column in ("id", "city", "day"):
                # Through statistics, dictionaries and the page index.
                value = duckdb.sql("SELECT %s FROM '%s' WHERE %s IS NOT NULL LIMIT 1 OFFSET 4321" % (column, out, column)).fetchall()[0][0]
                counts = [duckdb.execute("SELECT count(*) FROM read_parquet(?) WHERE %s = ?" % column, [source, value]).fetchall() for source in (out, paths)]
                check(counts[0] == counts[1], "%s: DuckDB finds %s rows of %s, expected %s" % (what, counts[0], column, counts[1]))
            if options.get("write_page_index"):
                page_index_is_right(rig, out, arrow.concat_tables(inputs), ("id", "city", "ratio"))
            inspected = rig.json("file", "inspect", out, "--decode")["files"][0]
            footer = parquet.ParquetFile(out).metadata
            check(inspected["rows"] == footer.num_rows and len(inspected["row_groups"]) == footer.num_row_groups, "%s: groups" % what)
            for g, group in enumerate(inspected["row_groups"]):
                for c, chunk in enumerate(group["columns"]):
                    theirs = footer.row_group(g).column(c)
                    check(chunk["path"] == theirs.path_in_schema and chunk["bytes"] == theirs.total_compressed_size
                          and chunk["raw_bytes"] == theirs.total_uncompressed_size and chunk["values"] == theirs.num_values
                          and chunk["has_dictionary"] == theirs.has_dictionary_page, "%s: chunk %s" % (what, chunk))
            decoded = [c for c in done["columns"] if c["rows_decoded"]]
            check(all(c["decode_reason"] for c in decoded), "%s: decoded without a reason: %s" % (what, decoded))
            if name != "decoded" and not options.get("use_dictionary", True):
                check(not done["rows_decoded"] and not decoded, "%s: rows were decoded: %s" % (what, decoded))
    # DuckDB's own files, with bloom filters.
    paths = []
    for i in range(4):
        paths.append(os.path.join(folder, "duck%d.parquet" % i))
        duckdb.sql("COPY (SELECT range + %d AS id, 'name ' || (range %% 512) AS name, range / 7 AS x FROM range(24576)) TO '%s' "
                   "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 6144)" % (i * 100000, paths[-1]))
    out = os.path.join(folder, "duck.parquet")
    rig.run("file", "concat", out, *paths)
    check(duckdb.sql("SELECT * FROM '%s'" % out).fetchall() == [row for path in paths for row in duckdb.sql("SELECT * FROM '%s'" % path).fetchall()], "DuckDB's rows")
    blooms = [{c["path"]: c["bloom_filter_chunks"] for c in rig.json("file", "inspect", path)["files"][0]["columns"]} for path in (paths[0], out)]
    check(blooms[0]["name"] > 0 and blooms[1]["name"] > 0, "bloom filters: %s" % blooms)
    for i in (0, 250, 511):
        check(duckdb.sql("SELECT count(*) FROM '%s' WHERE name = 'name %d'" % (out, i)).fetchall()[0][0] == 192, "a bloom filter hides rows")


def test_differences_between_writers(folder, server, place):
    duckdb, arrow, parquet = others()
    rig = local(folder, place)
    path = lambda name: os.path.join(folder, name + ".parquet")

    def write(name, columns, schema=None, **options):
        parquet.write_table(arrow.table(columns, schema=schema), path(name), **options)
        return path(name)

    base = write("base", {"a": arrow.array([1, 2], arrow.int64()), "b": ["x", None]})
    # Another order of columns, a narrower type: the rows come out right.
    order = write("order", {"b": ["y"], "a": arrow.array([3], arrow.int64())})
    narrow = write("narrow", {"a": arrow.array([4], arrow.int32()), "b": ["z"]})
    done = rig.json("file", "concat", path("out"), base, order, narrow)
    check(parquet.read_table(path("out")).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "y"}, {"a": 4, "b": "z"}], "rows of three shapes")
    check(done["rows_decoded"] == 1, "%d rows were decoded" % done["rows_decoded"])
    check(any("schema differs" in step["reason"] for step in done["steps"]), "no reason: %s" % done["steps"])
    # A wider one would not fit; a null where none may be neither.
    rig.refused(8009, 3, "file", "concat", path("out2"), narrow, base)
    strict = write("strict", {"a": [7], "b": ["s"]}, arrow.schema([arrow.field("a", arrow.int64(), nullable=False), arrow.field("b", arrow.string(), nullable=False)]))
    code, _, err = rig.run("file", "concat", path("out2"), strict, base, expect={3, 8})
    check("b" in err and not os.path.exists(path("out2")), "nulls in a required column: %s" % err)
    check(rig.json("file", "concat", path("out3"), base, strict)["rows_out"] == 3, "required values among optional ones")
    check(parquet.read_table(path("out3")).column("b").to_pylist() == ["x", None, "s"], "required values among optional ones")
    # What all files say of themselves stays, what only some say goes and is told.
    first = arrow.table({"a": [1]}).replace_schema_metadata({"shared": "1", "own": "first"})
    second = arrow.table({"a": [2]}).replace_schema_metadata({"shared": "1", "own": "second"})
    parquet.write_table(first, path("m1"))
    parquet.write_table(second, path("m2"))
    done = rig.json("file", "concat", path("m"), path("m1"), path("m2"))
    kept = parquet.ParquetFile(path("m")).metadata.metadata
    check(kept.get(b"shared") == b"1" and b"own" not in kept and done["dropped_properties"] == ["ARROW:schema", "own"], "properties: %s %s" % (kept, done["dropped_properties"]))
    # More than a thousand files of one row become one row group.
    os.makedirs(os.path.join(folder, "many"))
    paths = [write("many/%04d" % i, {"i": arrow.array([i], arrow.int32())}) for i in range(1500)]
    done = rig.json("file", "concat", path("many"), *paths)
    check(done["row_groups_out"] == 1 and parquet.read_table(path("many")).column("i").to_pylist() == list(range(1500)), "many files: %s" % done["row_groups_out"])


def test_odd_files_keep_their_values_or_are_refused(folder, server, place):
    """Names and ids that are not unique or are missing, times of other kinds, orders that nobody promised."""
    duckdb, arrow, parquet = others()
    rig = local(folder, place)
    path = lambda name: os.path.join(folder, name + ".parquet")
    id_of = lambda number: {b"PARQUET:field_id": str(number).encode()}

    def joined(name, *inputs, words=()):
        for kind in ((), ("--decode",), ("--codec=zstd",)):
            rig.run("file", "concat", path(name), *inputs, "--overwrite", *kind, *words)
            # Not read_table, which asks for columns by name.
            found = parquet.ParquetFile(path(name)).read()
            for i in range(found.num_columns):
                wanted = [value for one in inputs for value in parquet.ParquetFile(one).read().column(i).to_pylist()]
                check(found.column(i).to_pylist() == wanted, "%s %s: column %d is %s" % (name, kind, i, found.column(i).to_pylist()))

    # Ids on leaves only: the groups above are found by their names.
    schema = arrow.schema([arrow.field("k", arrow.int64(), metadata=id_of(1)),
                           arrow.field("s", arrow.struct([arrow.field("a", arrow.int32(), metadata=id_of(2)), arrow.field("b", arrow.string(), metadata=id_of(3))])),
                           arrow.field("l", arrow.list_(arrow.field("element", arrow.int32(), metadata=id_of(4))))])
    table = arrow.table({"k": [1, 2, 3], "s": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, None], "l": [[1], [2, 3], None]}, schema=schema)
    for name in ("ids1", "ids2"):
        parquet.write_table(table, path(name))
    joined("ids", path("ids1"), path("ids2"))
    # One name or id twice: each column keeps its own values.
    parquet.write_table(arrow.Table.from_arrays([arrow.array([1, 2, 3]), arrow.array([10, 20, 30])], names=["a", "a"]), path("names"))
    same = arrow.schema([arrow.field("x", arrow.int64(), metadata=id_of(1)), arrow.field("y", arrow.int64(), metadata=id_of(1))])
    parquet.write_table(arrow.table({"x": [1, 2, 3], "y": [10, 20, 30]}, schema=same), path("same ids"))
    joined("twice", path("names"))
    joined("twice ids", path("same ids"), path("same ids"))
    # A local time is no instant; INT96 beyond what a column holds is no other time.
    at = lambda unit, zone=None, values=(1, 2): arrow.table({"t": arrow.array(values, arrow.timestamp(unit, zone))})
    parquet.write_table(at("us"), path("local"))
    parquet.write_table(at("us", "UTC"), path("utc"))
    check("column t" in rig.refused(8009, 3, "file", "concat", path("zones"), path("local"), path("utc")), "the column is not named")
    parquet.write_table(at("ns"), path("ns"), version="2.6")
    parquet.write_table(at("us", values=(16725225600000000, 0)), path("i96"), use_deprecated_int96_timestamps=True)
    err = rig.refused(8007, 8, "file", "concat", path("far"), path("ns"), path("i96"))
    check("where   " + path("i96") in err and "column t, row 0" in err, "a far time: %s" % err)
    joined_times = path("int96 joined")
    rig.run("file", "concat", joined_times, path("i96"), path("i96"))
    check(len(parquet.read_table(joined_times)) == 4, "INT96 was not joined by its bytes")
    # A null where none may be, inside of a group.
    strict = arrow.schema([arrow.field("s", arrow.struct([arrow.field("a", arrow.int32(), nullable=False)]))])
    loose = arrow.schema([arrow.field("s", arrow.struct([arrow.field("a", arrow.int32())]))])
    parquet.write_table(arrow.table({"s": [{"a": 7}]}, schema=strict), path("strict"))
    parquet.write_table(arrow.table({"s": [{"a": 1}, {"a": None}, None]}, schema=loose), path("loose"))
    err = rig.refused(8007, 8, "file", "concat", path("nulls"), path("strict"), path("loose"))
    check("where   " + path("loose") in err and "s.a, row 1" in err, "a null inside: %s" % err)
    # Levels are those of the codec.
    for words in (("--codec=snappy", "--codec-level=3"), ("--codec=none", "--codec-level=1"), ("--codec=gzip", "--codec-level=20"), ("--codec=lz4", "--codec-level=13")):
        _, _, err = rig.run("file", "concat", path("levels"), path("utc"), *words, expect={1, 2})
        check("error[PF10" in err and not os.path.exists(path("levels")), "%s: %s" % (words, err))
    _, _, err = rig.run("file", "concat", path("levels"), path("utc"), path("utc"), "--codec=brotli", "--codec-level=11")
    check("WARN" not in err, "a warning about a success: %s" % err)


def test_more_files_than_may_be_open(folder, server, place):
    """The limit of the shell is raised."""
    rig = local(folder, place)
    os.makedirs(os.path.join(folder, "many"))
    one = os.path.join(folder, "one.parquet")
    server.sql("INSERT INTO FUNCTION file(%s, Parquet) SELECT number AS id FROM numbers(3)" % literal(one))
    paths = []
    for i in range(300):
        paths.append(os.path.join(folder, "many", "%d.parquet" % i))
        shutil.copy(one, paths[-1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        done = rig.json("file", "concat", os.path.join(folder, "all.parquet"), *paths)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    check(done["rows_out"] == 900, "rows of many files: %s" % done["rows_out"])


def test_avro_orc_and_puffin_are_shown(folder, server, place):
    rig = local(folder, place)
    avro, orc = os.path.join(folder, "a.avro"), os.path.join(folder, "o.orc")
    server.sql("INSERT INTO FUNCTION file(%s, Avro) SELECT toInt64(number) AS id, toString(number) AS name FROM numbers(1234)" % literal(avro))
    server.sql("INSERT INTO FUNCTION file(%s, ORC) SELECT toInt64(number) AS id, toString(number) AS name FROM numbers(4321)" % literal(orc))
    report = rig.json("file", "inspect", avro, "--decode")["files"][0]
    check(report["format"] == "avro" and report["rows"] == 1234 and report["blocks"] > 0, "avro: %s" % report)
    check([(c["path"], c["type"], c["is_required"]) for c in report["columns"]] == [("id", "long", True), ("name", "string", True)]
          or [c["path"] for c in report["columns"]] == ["id", "name"], "columns: %s" % report["columns"])
    check(json.loads(report["schema_text"])["type"] == "record", "the schema")
    report = rig.json("file", "inspect", orc, "--decode")["files"][0]
    check(report["format"] == "orc" and report["rows"] == 4321 and sum(s["rows"] for s in report["stripes"]) == 4321, "orc: %s" % report)
    # Trees with ids, statistics of the file and of each stripe, sizes and encodings.
    nested = os.path.join(folder, "n.orc")
    server.sql("INSERT INTO FUNCTION file(%s, ORC) SELECT toInt64(number) AS id, tuple(toInt32(number %% 7), toString(number)) :: Tuple(a Int32, b String) AS s, "
               "[toString(number)] AS l, if(number = 3, NULL, toDate('2020-01-01') + number) AS day FROM numbers(100)" % literal(nested))
    report = rig.json("file", "inspect", nested)["files"][0]
    columns = {c["path"]: c for c in report["columns"]}
    check({"id", "s", "s.a", "s.b", "l", "l.element"} <= set(columns), "columns of ORC: %s" % sorted(columns))
    check(columns["id"]["min"] == 0 and columns["id"]["max"] == 99 and columns["id"]["null_count"] == 0, "statistics: %s" % columns["id"])
    check(columns["s.a"]["max"] == 6 and columns["l.element"]["values"] == 100, "inner statistics: %s" % columns["s.a"])
    chunks = {c["path"]: c for c in report["stripes"][0]["columns"]}
    check(set(chunks) == set(columns) and chunks["id"]["max"] == 99 and chunks["id"]["bytes"] > 0 and chunks["id"]["encodings"], "chunks: %s" % chunks["id"])
    text = rig.run("file", "inspect", nested, "--details")[1]
    check("l.element" in text and "STRIPE" in text and "2020-01-01" in text, text)
    # Records of Avro as lines, in their order; of other formats they are refused.
    lines = rig.run("file", "inspect", avro, "--records=3")[1].rstrip("\n").splitlines()[-3:]
    check([json.loads(line)["id"] for line in lines] == [0, 1, 2], "records: %s" % lines)
    check(rig.json("file", "inspect", avro, "--records=2")["files"][0]["records"][1]["name"] == "1", "records of the document")
    check("records" not in rig.json("file", "inspect", avro)["files"][0], "records that nobody asked for")
    rig.refused(1020, {1, 2, 3}, "file", "inspect", orc, "--records=1")
    blob = b"\x01\x02\x03\x04"
    footer = json.dumps({"blobs": [{"type": "my-blob", "fields": [1, 2], "snapshot-id": 9007199254740993, "sequence-number": 5, "offset": 4, "length": 4,
                                    "properties": {"ndv": "7"}}], "properties": {"created-by": "a test"}}).encode()
    puffin = os.path.join(folder, "p.puffin")
    with open(puffin, "wb") as f:
        f.write(b"PFA1" + blob + b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1")
    report = rig.json("file", "inspect", puffin)["files"][0]
    check(report["blobs"] == [{"type": "my-blob", "fields": [1, 2], "snapshot_id": "9007199254740993", "sequence_number": 5, "offset": 4, "bytes": 4, "codec": "",
                               "properties": {"ndv": "7"}}], "blobs: %s" % report["blobs"])
    text = rig.run("file", "inspect", avro, orc, puffin)[1]
    check(all(word in text for word in ("1 234 rows", "4 321 rows", "my-blob", "ndv=7")), text)
    rig.refused(8008, 3, "file", "concat", os.path.join(folder, "x.parquet"), avro)
    lines = rig.run("file", "inspect", avro, orc, puffin, "--output=ndjson")[1].splitlines()
    check([json.loads(line)["format"] for line in lines] == ["avro", "orc", "puffin"], "ndjson: %s" % lines)


def test_objects_in_a_store(folder, server, place):
    """The same over s3://, mixed with files of this machine, with a multipart upload."""
    remote = RemotePlace(os.path.join(folder, "remote"))
    try:
        rig = Rig(folder, None, place, "s3")
        rig.environment, rig.store = dict(remote.environment), []
        store = ["--s3-endpoint=" + remote.endpoint]
        big = os.path.join(DEPS, "data", "flights-3m.parquet")
        with open(FLIGHTS, "rb") as f:
            remote.write("in/2013.parquet", f.read())
        with open(big, "rb") as f:
            remote.write("in/3m.parquet", f.read())
        check(rig.json("file", "inspect", "s3://forge/in/2013.parquet", *store)["files"][0]["rows"] == 336776, "rows of an object")
        done = rig.json("file", "concat", "s3://forge/out/two.parquet", "s3://forge/in/2013.parquet", FLIGHTS, *store)
        check(done["rows_out"] == 2 * 336776, "rows joined: %s" % done["rows_out"])
        done = rig.json("file", "concat", "s3://forge/out/big.parquet", "s3a://forge/in/3m.parquet", big, *store)
        check(done["rows_out"] == 6000000, "rows joined: %s" % done["rows_out"])
        for name, source in (("two", FLIGHTS), ("big", big)):
            down = os.path.join(folder, name + ".parquet")
            with open(down, "wb") as f:
                f.write(remote.read("out/%s.parquet" % name))
            wanted = server.sql("SELECT 2 * count(), 2 * sum(cityHash64(*)) FROM file(%s, Parquet)" % literal(source))
            check(server.sql("SELECT count(), sum(cityHash64(*)) FROM file(%s, Parquet)" % literal(down)) == wanted, "%s: rows differ" % name)
        # Down from the store, and replaced in it.
        rig.run("file", "concat", os.path.join(folder, "down.parquet"), "s3://forge/in/2013.parquet", *store)
        rig.refused(1021, 3, "file", "concat", "s3://forge/out/two.parquet", FLIGHTS, *store)
        check(rig.json("file", "concat", "s3://forge/out/two.parquet", FLIGHTS, "--overwrite", *store)["rows_out"] == 336776, "not replaced")
        code, _, err = rig.run("file", "inspect", "s3://forge/in/absent.parquet", *store, expect=1)
        check("absent.parquet" in err, err)
        remote.write("in/cut.parquet", remote.read("in/2013.parquet")[:-50])
        rig.refused(8007, 8, "file", "concat", "s3://forge/out/cut.parquet", "s3://forge/in/cut.parquet", *store)
        check(remote.keys() == ["in/2013.parquet", "in/3m.parquet", "in/cut.parquet", "out/big.parquet", "out/two.parquet"], "objects: %s" % remote.keys())
    finally:
        remote.stop()


if __name__ == "__main__":
    rig_module.main("files", [test for name, test in sorted(globals().items()) if name.startswith("test_")])
