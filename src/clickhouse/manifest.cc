#include "clickhouse/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kHexDigits = 64;

Status Explained(Status status, const Manifest& manifest) {
  return std::move(status)
      .With("read a part's manifest")
      .Explain(8001, manifest.source_key.empty() ? std::string(kManifestFile) : manifest.source_key,
               "the manifest belongs to another program or was changed; upload the part again");
}

Status Wrong(std::string_view field, std::string_view why) {
  return Status(Code::kCorruption, fmt::format("manifest: field {} {}", field, why));
}

Status CheckNotBlank(std::string_view field, std::string_view text) {
  const bool is_blank = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  return is_blank ? Wrong(field, "is blank") : Status();
}

bool IsSha256(std::string_view text) {
  return text.size() == kHexDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Reads the objects of a manifest. Foreign JSON: unknown fields are left alone, so no Finish.
Status ReadGroups(JsonReader& top, Manifest& manifest) {
  PF_ASSIGN(const JsonDoc* source_doc, top.Object("source"));
  JsonReader source(*source_doc, "manifest: source");
  PF_ASSIGN(manifest.source_database, source.String("database"));
  PF_ASSIGN(manifest.source_table, source.String("table"));

  PF_ASSIGN(const JsonDoc* dest_doc, top.Object("dest"));
  JsonReader dest(*dest_doc, "manifest: dest");
  PF_ASSIGN(manifest.dest_database, dest.String("database"));
  PF_ASSIGN(manifest.dest_table, dest.String("table"));

  PF_ASSIGN(const JsonDoc* part_doc, top.Object("part"));
  JsonReader part(*part_doc, "manifest: part");
  PF_ASSIGN(manifest.part_disk, part.String("disk"));
  PF_ASSIGN(manifest.part_name, part.String("name"));
  PF_ASSIGN(manifest.part_relative_path, part.StringOr("relative_path", ""));
  if (part.Has("rows")) {
    PF_ASSIGN(manifest.part_rows, part.Int("rows"));
  }
  if (part.Has("bytes")) {
    PF_ASSIGN(manifest.part_bytes, part.Int("bytes"));
  }

  PF_ASSIGN(const JsonDoc* sql_doc, top.Object("sql"));
  JsonReader sql(*sql_doc, "manifest: sql");
  PF_ASSIGN(manifest.source_schema, sql.String("source_schema"));
  PF_ASSIGN(manifest.destination_schema, sql.String("destination_schema"));
  PF_ASSIGN(manifest.insert_select, sql.String("insert_select"));
  return {};
}

Status ReadSourceObjects(JsonReader& s3, Manifest& manifest) {
  if (!s3.Has("source_objects")) return {};
  PF_ASSIGN(const JsonDoc* list, s3.Array("source_objects"));
  for (const JsonDoc& doc : *list) {
    JsonReader reader(doc, "manifest: s3.source_objects");
    SourceObject object;
    PF_ASSIGN(object.bucket, reader.String("bucket"));
    PF_ASSIGN(object.key, reader.String("key"));
    PF_ASSIGN(object.path, reader.String("path"));
    PF_TRY(CheckRelativePath(object.path));
    manifest.source_objects.push_back(std::move(object));
  }
  return {};
}

Status ReadFiles(JsonReader& top, Manifest& manifest) {
  if (!top.Has("files")) return {};
  PF_ASSIGN(const JsonDoc* list, top.Array("files"));
  std::set<std::string> seen;
  for (const JsonDoc& doc : *list) {
    JsonReader reader(doc, "manifest: files");
    ManifestFile file;
    PF_ASSIGN(file.path, reader.String("path"));
    PF_ASSIGN(file.size_bytes, reader.Int("size"));
    PF_ASSIGN(file.sha256, reader.String("sha256"));
    PF_TRY(CheckRelativePath(file.path));
    if (!seen.insert(file.path).second) return Wrong("files", "names a file twice: " + file.path);
    if (file.size_bytes < 0) return Wrong("files", "has a negative size: " + file.path);
    if (!IsSha256(file.sha256)) return Wrong("files", "has no SHA-256 of: " + file.path);
    manifest.files.push_back(std::move(file));
  }
  return {};
}

Status CheckRequired(const Manifest& manifest) {
  PF_TRY(CheckNotBlank("job_id", manifest.job_id));
  PF_TRY(CheckNotBlank("part_id", manifest.part_id));
  PF_TRY(CheckNotBlank("source.database", manifest.source_database));
  PF_TRY(CheckNotBlank("source.table", manifest.source_table));
  PF_TRY(CheckNotBlank("dest.database", manifest.dest_database));
  PF_TRY(CheckNotBlank("dest.table", manifest.dest_table));
  PF_TRY(CheckNotBlank("part.disk", manifest.part_disk));
  PF_TRY(CheckNotBlank("part.name", manifest.part_name));
  PF_TRY(CheckNotBlank("sql.source_schema", manifest.source_schema));
  PF_TRY(CheckNotBlank("sql.destination_schema", manifest.destination_schema));
  PF_TRY(CheckNotBlank("sql.insert_select", manifest.insert_select));
  PF_TRY(CheckNotBlank("s3.bucket", manifest.bucket));
  PF_TRY(CheckNotBlank("s3.source_key", manifest.source_key));
  PF_TRY(CheckNotBlank("s3.finished_key", manifest.finished_key));
  if (manifest.part_rows.value_or(0) < 0) return Wrong("part.rows", "is negative");
  if (manifest.part_bytes.value_or(0) < 0) return Wrong("part.bytes", "is negative");
  return {};
}

Status ReadInto(std::string_view text, Manifest& manifest) {
  if (static_cast<int64_t>(text.size()) > kManifestBytesMax) {
    return Status(Code::kCorruption, fmt::format("manifest is too large: {} bytes", text.size()));
  }
  PF_ASSIGN(const JsonDoc doc, ParseJson(text));
  JsonReader top(doc, "manifest");
  PF_ASSIGN(const int64_t version, top.Int("version"));
  if (version != kVersion) {
    return Status(Code::kRefused, fmt::format("unsupported manifest version: {}", version));
  }
  PF_ASSIGN(manifest.job_id, top.String("job_id"));
  PF_ASSIGN(manifest.part_id, top.String("part_id"));
  PF_ASSIGN(manifest.freeze, top.StringOr("freeze", ""));
  PF_TRY(ReadGroups(top, manifest));
  PF_ASSIGN(const JsonDoc* s3_doc, top.Object("s3"));
  JsonReader s3(*s3_doc, "manifest: s3");
  PF_ASSIGN(manifest.bucket, s3.String("bucket"));
  PF_ASSIGN(manifest.source_key, s3.String("source_key"));
  PF_ASSIGN(manifest.finished_key, s3.String("finished_key"));
  PF_TRY(ReadSourceObjects(s3, manifest));
  PF_ASSIGN(const std::string created_at, top.String("created_at"));
  PF_ASSIGN(manifest.created_at_ns, ParseTimeNs(created_at));
  PF_TRY(ReadFiles(top, manifest));
  return CheckRequired(manifest);
}

JsonDoc SourceObjectsJson(const std::vector<SourceObject>& objects) {
  JsonDoc list = JsonDoc::array();
  for (const SourceObject& object : objects) {
    list.push_back(JsonDoc{{"bucket", object.bucket}, {"key", object.key}, {"path", object.path}});
  }
  return list;
}

JsonDoc FilesJson(const std::vector<ManifestFile>& files) {
  JsonDoc list = JsonDoc::array();
  for (const ManifestFile& file : files) {
    list.push_back(
        JsonDoc{{"path", file.path}, {"size", file.size_bytes}, {"sha256", file.sha256}});
  }
  return list;
}

}  // namespace

std::string FormatManifest(const Manifest& manifest) {
  JsonDoc part{{"disk", manifest.part_disk},
               {"name", manifest.part_name},
               {"relative_path", manifest.part_relative_path}};
  if (manifest.part_rows) part["rows"] = *manifest.part_rows;
  if (manifest.part_bytes) part["bytes"] = *manifest.part_bytes;
  JsonDoc s3{{"bucket", manifest.bucket},
             {"source_key", manifest.source_key},
             {"finished_key", manifest.finished_key}};
  if (!manifest.source_objects.empty()) {
    s3["source_objects"] = SourceObjectsJson(manifest.source_objects);
  }
  JsonDoc doc{
      {"version", kVersion},
      {"job_id", manifest.job_id},
      {"part_id", manifest.part_id},
      {"freeze", manifest.freeze},
      {"source", {{"database", manifest.source_database}, {"table", manifest.source_table}}},
      {"dest", {{"database", manifest.dest_database}, {"table", manifest.dest_table}}},
      {"part", std::move(part)},
      {"sql",
       {{"source_schema", manifest.source_schema},
        {"destination_schema", manifest.destination_schema},
        {"insert_select", manifest.insert_select}}},
      {"s3", std::move(s3)},
      {"created_at", FormatTimeNs(manifest.created_at_ns)},
  };
  if (!manifest.files.empty()) doc["files"] = FilesJson(manifest.files);
  return DumpJsonPretty(doc);
}

Result<Manifest> ParseManifest(std::string_view text) {
  Manifest manifest;
  Status status = ReadInto(text, manifest);
  if (!status.ok()) return Explained(std::move(status), manifest);
  return manifest;
}

bool SameUpload(const Manifest& a, const Manifest& b) {
  Manifest other = b;
  other.created_at_ns = a.created_at_ns;
  return a == other;
}

Status CheckManifest(const Manifest& manifest, const ManifestOwner& owner) {
  const auto compare = [&](std::string_view field, std::string_view found,
                           std::string_view expected) {
    if (found == expected) return Status();
    return Status(Code::kCorruption,
                  fmt::format("manifest: {} is {}, the part's row says {}", field, found, expected))
        .Explain(
            8001, owner.source_key,
            "the object belongs to another part; partforge job-status --job-id=" + owner.job_id);
  };
  PF_TRY(compare("job_id", manifest.job_id, owner.job_id));
  PF_TRY(compare("part_id", manifest.part_id, owner.part_id));
  PF_TRY(compare("s3.bucket", manifest.bucket, owner.bucket));
  return compare("s3.source_key", manifest.source_key, owner.source_key);
}

}  // namespace partforge::clickhouse
