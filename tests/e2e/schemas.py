"""The schema of every JSON document, and the check of one against it.

A schema names the fields that must be there and their types. A field more keeps the schema's number (user-experience §4.1),
so a document may have more; whatever it has keeps the laws of names: times, bytes, counts and percents are what they say.
"""
import re

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
COUNTS = dict.fromkeys(("READY", "IN_PROGRESS", "COMPACT_READY", "COMPACTING", "SUPERSEDED", "FINISHED", "IMPORTING", "IMPORTED", "FAILED"), "count")
FAILURE = {"part_id": "text", "error": "text"}
PART = {   # clickhouse-parts §7.1, §7.2; from the first attempt on with what a "?" marks
    "job_id": "text", "job_name": "text", "part_id": "text", "status": "text", "bucket": "text", "source_key": "text", "finished_key": "text",
    "part_name": "text", "disk": "text", "relative_path": "text", "created_at": "time", "updated_at": "time", "started_at": "time or null",
    "attempts": "count", "crash_count": "count", "epoch": "count", "source_artifact_bytes": "count", "source_rows": "count",
    "destination_database": "text", "destination_table": "text", "destination_active_part_count": "count",
    "destination_active_part_rows": "count", "destination_active_part_bytes": "count", "failure_class": "text", "failure_code": "number", "error": "text",
    "commit_id?": "text", "superseded_by?": "text", "compact_generation?": "count", "source_parts?": "count", "worker_id?": "text", "rewrite_stage?": "text", "progress_updated_at?": "time or null", "insert_progress_percent?": "percent",
    "read_rows?": "count", "meta_key?": "text", "meta_sha256?": "text", "empty_output?": "bool", "finished_at?": "time or null", "tier?": "text",
    "tier_reason?": "text", "written_rows?": "count", "rewrite_stage_durations_ms?": {"*": "count"},
    "destination_active_partition_counts?": {"*": "count"}, "insert_attempts?": "count", "chunks?": "count", "peak_memory_bytes?": "count",
    "schema_fingerprint": "text", "total_rows_approx": "count", "source_active_part_count": "count", "source_active_part_rows": "count",
    "source_active_part_bytes": "count", "read_bytes?": "count", "written_bytes?": "count", "bytes_decoded?": "count",
    "artifact_kind?": "text", "partitions?": "count", "rewrite_stage_started_at?": "time or null", "rewrite_stage_elapsed_ms?": "count",
    "rewrite_total_elapsed_ms?": "count", "lease_owner?": "text", "lease_expires_at?": "time or null", "lease_left_ms?": "number",
    "importing_at?": "time or null", "imported_at?": "time or null", "failed_at?": "time or null",
}
TIERS = [{"tier": "text", "parts": "count", "reason": "text"}]
FLOW = {   # where the rows went, and how the parts were made
    "rows_in": "count", "rows_out": "count", "rows_filtered": "number", "rows_expired": "count", "rows_merged": "number", "rows_conserved": "bool",
    "bytes_in": "count", "bytes_out": "count", "bytes_decoded": "count", "peak_memory_bytes": "count", "insert_retries": "count", "stage_seconds": {"*": "number"}, "tiers": TIERS,
}
VERIFIED = {"type": "text", "part_id": "text", "status": "text", "verdict": "text", "parts": "count", "rows": "count", "bytes": "count", "message": "text",
            "of_source": "bool"}
UPLOAD_PLAN = {
    "job_id": "text", "source": "text", "destination": "text", "schema_fingerprint": "text", "rows": "count", "bytes": "count",
    "parts": [{"part_id": "text", "disk": "text", "name": "text", "relative_path": "text", "rows": "count", "bytes": "count"}],
    "skipped": ["text"], "other_tables": ["text"], "chunks_allowed": "bool", "chunk_refusal": "text", "removals": ["text"], "warnings": ["text"], "notes": ["text"],
    "dry_run": "bool",
}
PLANNED_PARTS = [{"part_id": "text", "rows": "count", "bytes": "count", "uncompressed_bytes": "count", "tier": "text", "chunks": "count",
                  "block_rows": "count", "why": "text", "together": "count"}]
IMPORT_PLAN = {
    "job_id": "text", "table": "text", "engine": "text", "dry_run": "bool",
    "artifacts": [{"part_id": "text", "parts": "count", "rows": "count", "bytes": "count", "partition_parts": {"*": "count"}}],
    "already_imported": "count", "unfinished_commits": "count", "partitions": ["text"], "parts": "count", "rows": "count", "bytes": "count",
}
REWRITE_PLAN = {
    "job_id": "text", "source": "text", "destination": "text", "destination_exists": "bool", "schema_fingerprint": "text", "dry_run": "bool",
    "slots": "count", "memory_bytes": "count", "rows": "count", "bytes": "count", "source_partitions": ["text"], "rewritten": "count",
    "imported": "count", "tiers": TIERS, "parts": PLANNED_PARTS, "chunks_allowed": "bool", "chunk_refusal": "text", "removals": ["text"],
    "notes": ["text"], "warnings": ["text"],
}
PART_DONE = {"type": "text", "job_id": "text", "part_id": "text", "status": "text"}
PROGRESS = {"type": "text", "stage": "text", "fraction": "number", "rows": "count", "bytes": "count", "rows_per_second": "number", "bytes_per_second": "number",
            "retries?": "count"}
OBJECTS = {   # of the commands that print one object a line: by "type"
    "verify": {"object": VERIFIED, "progress": PROGRESS},
    "plan": {"part": {"type": "text", "job_id": "text", **PLANNED_PARTS[0]}},
    "worker": {"part": PART_DONE, "progress": PROGRESS},
    "rewrite": {"part": PART_DONE, "progress": PROGRESS},
}
ERROR = {"type": "text", "code": "text", "kind": "text", "message": "text", "where": "text", "why": "text", "do": ["text"], "retryable": "bool", "exit": "count"}
DOCUMENTS = {
    "check": {"source": "text", "destination": "text", "schema_fingerprint": "text", "chunks_allowed": "bool", "chunk_refusal": "text",
              "order_sensitive": "bool", "removals": ["text"], "warnings": ["text"]},
    "config": {"settings": [{"command": "text", "setting": "text", "value": "text", "origin": "text"}]},
    "debug": {"fault_points": ["text"]},
    "events": {"job_id": "text", "events": [{"seq": "count", "at": "time", "job_id": "text", "part_id": "text", "commit_id": "text", "epoch": "count",
                                             "actor": "text", "event": "text", "from": "text", "to": "text", "detail": {}}]},
    "explain": {"codes": [{"code": "text", "title": "text", "text": "text"}]},
    "file concat": {"output": "text", "dry_run": "bool", "files": "count", "bytes_in": "count", "rows_in": "count", "dropped_properties": ["text"],
                    "steps": [{"way": "text", "row_groups": [{"input": "text", "row_group": "count"}], "rows": "count", "bytes": "count", "reason": "text"}],
                    # a dry run ends here
                    "seconds?": "number", "peak_memory_bytes?": "count", "bytes_out?": "count", "rows_out?": "count", "row_groups_out?": "count", "row_groups_copied?": "count", "rows_decoded?": "count",
                    "pages?": {"copied": "count", "recompressed": "count", "remapped": "count", "materialised": "count"},
                    "verified?": {"mode": "text", "pages": "count", "pages_compared": "count", "rows_compared": "count", "pages_unread": "count"},
                    "columns?": [{"path": "text", "chunks_copied": "count", "pages_copied": "count", "pages_changed": "count", "rows_decoded": "count",
                                 "decode_reason": "text"}]},
    "file inspect": {"files": [{   # "?": some formats only, or not of a file that cannot be read, whose "error" says why
        "file": "text", "format?": "text", "bytes?": "count", "written_by?": "text", "codec?": "text", "footer_bytes?": "count", "blocks?": "count",
        "columns?": [{"path": "text", "type": "text", "is_required": "bool", "physical_type?": "text", "bytes?": "count", "raw_bytes?": "count",
                      "codecs?": ["text"], "encodings?": ["text"], "dictionary_chunks?": "count", "has_page_index?": "bool", "bloom_filter_chunks?": "count"}],
        "row_groups?": [{"rows": "count", "offset": "count", "bytes": "count", "raw_bytes": "count"}],
        "stripes?": [{"rows": "count", "offset": "count", "bytes": "count", "index_bytes": "count", "data_bytes": "count", "footer_bytes": "count",
                      "time_zone": "text"}],
        "blobs?": [{"type": "text", "offset": "count", "bytes": "count", "snapshot_id": "text", "properties": {"*": "text"}}],
        "error?": ERROR}]},
    "freeze": {"table": "text", "freeze": "text", "dry_run": "bool", "was_there": "bool", "notes": ["text"]},
    "gc": {"deleted": "bool", "objects": [{"job_id": "text", "key": "text", "bytes": "count", "modified_at": "time"}], "bytes": "count",
           "unfinished_writes": "count", "scratch_folders": "count", "folders": ["text"]},
    "import-finished": {"job_id": "text", "table": "text", "imported": "count", "already_imported": "count", "parts": "count", "rows": "count", "bytes": "count",
                        "rows_in_table": "count", **FLOW, "failed": [FAILURE], "in_doubt": [FAILURE], "conflicts": [FAILURE], "seconds": "number"},
    "job-status": {"summary": {
        "job_id": "text", "name": "text", "status": "text", "total": "count", "counts": COUNTS, "in_progress_stages": [{"stage": "text", "count": "count"}],
        "rewrite_completed": "count", "rewrite_percent": "percent", "import_completed": "count", "import_percent": "percent",
        "current_output_clickhouse_parts": "count", "written_rows": "count", "source_bytes": "count", "sealed": "bool", "expected_parts": "number",
        "paused": "bool", "failed_parts": [{"part_id": "text", "status": "text", "updated_at": "time", "failure_class": "text", "error": "text"}],
        "live_commits": [{"commit_id": "text", "state": "text", "epoch": "count", "owner": "text", "in_doubt": "text", "decided_at": "time"}],
        "now": "time", "sealed_at": "time or null", "source?": "text", "destination?": "text", "schema_fingerprint?": "text",
        **{name + "?": kind for name, kind in FLOW.items()}},
        "parts?": [PART]},
    "list-jobs": {"jobs": ["text"], "job_names": {"*": "text"}, "job_details": [{
        "job_id": "text", "name": "text", "status": "text", "parts_total": "count", "clickhouse_parts": "count", "partitions": "count",
        "updated_at": "time", "rewrite_started_at": "time or null", "eta_seconds": "count or null", "rewrite_completed": "count",
        "rewrite_percent": "percent", "import_completed": "count", "import_percent": "percent", "submitted_at": "time", "source_bytes_total": "count",
        "source_bytes_completed": "count", "paused": "bool", "status_counts": [{"status": "text", "count": "count"}]}]},
    "migrate": {"applied": "count", "pending": "count", "dry_run": "bool"},
    "plan": {"job_id": "text", "slots": "count", "memory_bytes": "count", "rows": "count", "bytes": "count", "tiers": TIERS, "parts?": PLANNED_PARTS,
             "notes": ["text"], "warnings": ["text"]},
    "retry-failed": {"job_id": "text", "forced": "bool", "dry_run": "bool", "stale?": "bool", "stale_after?": "text", "retried": "count", "left?": ["text"], "parts": [{"part_id": "text", "from": "text", "to": "text"}]},
    "rewrite": {"job_id": "text", "source": "text", "destination": "text", "parts_total": "count", "imported": "count", "rows": "count",
                "clickhouse_parts": "count", "status": "text", "seconds": "number", "phase_seconds": {"*": "number"}, **FLOW},
    "upload-freeze": {"job_id": "text", "parts": "count", "bytes": "count", "skipped": "count", "rows": "count", "rows_in": "count",
                      "rows_conserved": "bool", "peak_memory_bytes": "count", "seconds": "number", "phase_seconds": {"*": "number"}},
    "verify": {"job_id": "text", "level": "text", "objects?": [VERIFIED], "ok": "count", "warned": "count", "failed": "count", "rows": "count",
               "bytes": "count", "seconds": "number"},
    "version": {"version": "text", "revision": "text", "compiler": "text", "libraries": {"*": "text"}},
    "worker": {"done": "count", "failed": "count", "released": "count", "lost": "count", "seconds": "number", **FLOW},
}
PLANS = {"upload-freeze": UPLOAD_PLAN, "import-finished": IMPORT_PLAN, "rewrite": REWRITE_PLAN}   # of their dry runs

SEVERAL = {"plan": {"slots": "count", "memory_bytes": "count", "rows": "count", "bytes": "count", "jobs": [DOCUMENTS["plan"]]}}   # of several jobs


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES = {
    "text": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "number": is_number,
    "count": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "percent": lambda value: is_number(value) and 0 <= value <= 100,
    "time": lambda value: isinstance(value, str) and TIME.fullmatch(value) is not None,
    "count or null": lambda value: value is None or TYPES["count"](value),
    "time or null": lambda value: value is None or TYPES["time"](value),
}
NAMES = [(re.compile("_at$"), "time or null"), (re.compile("_bytes$"), "count"), (re.compile("_percent$"), "percent")]   # of any field


def mismatches(value, schema, place):
    """What of the value is not as the schema says: a list of sentences."""
    if isinstance(schema, str):
        return [] if TYPES[schema](value) else ["%s is no %s: %r" % (place, schema, value)]
    if isinstance(schema, list):
        if not isinstance(value, list):
            return ["%s is no list: %r" % (place, value)]
        return [fault for i, one in enumerate(value) for fault in mismatches(one, schema[0], "%s[%d]" % (place, i))]
    if not isinstance(value, dict):
        return ["%s is no object: %r" % (place, value)]
    faults = []
    for name, inner in value.items():
        if "*" in schema:   # the names are data
            faults += mismatches(inner, schema["*"], place + "." + name)
            continue
        if not re.fullmatch("[a-z][a-z0-9_]*", name) and name not in schema:
            faults.append("%s.%s is no snake_case" % (place, name))
        faults += [fault for law, kind in NAMES if law.search(name) and name not in schema for fault in mismatches(inner, kind, place + "." + name)]
    for name, inner in schema.items():
        if name == "*":
            continue
        plain = name.rstrip("?")
        if plain in value:
            faults += mismatches(value[plain], inner, place + "." + plain)
        elif plain == name:
            faults.append("%s.%s is missing" % (place, name))
    return faults


def of_document(command, document):
    """What of a command's document is not as its schema says."""
    name = "partforge.%s/1" % command.replace(" ", "-")
    if not isinstance(document, dict) or next(iter(document), None) != "schema" or document["schema"] != name:
        return ["no document of %s: %.200r" % (command, document)]
    schema = PLANS.get(command) if document.get("dry_run") else None
    if schema is None and "jobs" in document:
        schema = SEVERAL.get(command)
    if schema is None:
        schema = DOCUMENTS.get(command)
    return mismatches(document, schema, command) if schema is not None else ["no schema of the documents of " + command]


def of_object(command, line):
    """What of a line that a command prints before its document is not as its schema says."""
    schema = OBJECTS.get(command, {}).get(line.get("type") if isinstance(line, dict) else None)
    return mismatches(line, schema, command) if schema is not None else ["no schema of this line of %s: %.200r" % (command, line)]


def of_error(document):
    """What of an error document is not as its schema says."""
    return mismatches(document, ERROR, "error")
