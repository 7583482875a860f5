#include "clickhouse/rewrite_job.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "clickhouse/ddl.h"
#include "clickhouse/job_sql.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kVersion = 1;

Status CheckVersion(JsonReader& reader, std::string_view what) {
  PF_ASSIGN(const int64_t version, reader.Int("version"));
  if (version == kVersion) return {};
  return Status(
      Code::kCorruption,
      std::string(what) + " has a version this program does not know: " + std::to_string(version));
}

Result<std::map<std::string, int64_t>> ReadCounts(JsonReader& reader, std::string_view field) {
  PF_ASSIGN(const JsonDoc* doc, reader.Object(field));
  std::map<std::string, int64_t> counts;
  for (const auto& [name, value] : doc->items()) {
    if (!value.is_number_integer()) {
      return Status(Code::kCorruption, std::string(field) + "." + name + " is not an integer");
    }
    counts[name] = value.get<int64_t>();
  }
  return counts;
}

}  // namespace

std::string RewriteJobSpec::ToJson() const {
  return DumpJson(JsonDoc{{"version", kVersion},
                          {"source_database", source_database},
                          {"source_table", source_table},
                          {"source_schema", source_schema},
                          {"destination_database", destination_database},
                          {"destination_table", destination_table},
                          {"destination_schema", destination_schema},
                          {"insert_select", insert_select},
                          {"timezone", timezone},
                          {"allows_external_reads", allows_external_reads},
                          {"freeze", freeze},
                          {"bucket", bucket},
                          {"prefix", prefix},
                          {"fingerprint", fingerprint},
                          {"is_chunk_safe", is_chunk_safe},
                          {"chunk_refusal", chunk_refusal},
                          {"is_order_sensitive", is_order_sensitive},
                          {"warnings", warnings}});
}

Result<RewriteJobSpec> RewriteJobSpec::FromJson(std::string_view text) {
  constexpr std::string_view kWhat = "rewrite job";
  PF_ASSIGN(const JsonDoc doc, ParseJson(text));
  JsonReader reader(doc, kWhat);
  PF_TRY(CheckVersion(reader, kWhat));
  RewriteJobSpec spec;
  PF_ASSIGN(spec.source_database, reader.String("source_database"));
  PF_ASSIGN(spec.source_table, reader.String("source_table"));
  PF_ASSIGN(spec.source_schema, reader.String("source_schema"));
  PF_ASSIGN(spec.destination_database, reader.String("destination_database"));
  PF_ASSIGN(spec.destination_table, reader.String("destination_table"));
  PF_ASSIGN(spec.destination_schema, reader.String("destination_schema"));
  PF_ASSIGN(spec.insert_select, reader.String("insert_select"));
  PF_ASSIGN(spec.timezone, reader.String("timezone"));
  PF_ASSIGN(spec.allows_external_reads, reader.Bool("allows_external_reads"));
  PF_ASSIGN(spec.freeze, reader.String("freeze"));
  PF_ASSIGN(spec.bucket, reader.String("bucket"));
  PF_ASSIGN(spec.prefix, reader.String("prefix"));
  PF_ASSIGN(spec.fingerprint, reader.String("fingerprint"));
  PF_ASSIGN(spec.is_chunk_safe, reader.Bool("is_chunk_safe"));
  PF_ASSIGN(spec.chunk_refusal, reader.String("chunk_refusal"));
  PF_ASSIGN(spec.is_order_sensitive, reader.Bool("is_order_sensitive"));
  // An older program may have thought an engine indifferent that is not, or a source fit to be read
  // in ranges.
  if (!spec.is_order_sensitive) {
    const auto destination = ParseCreateTable(spec.destination_schema);
    spec.is_order_sensitive = destination.ok() && IsOrderSensitive(*destination);
  }
  if (spec.is_chunk_safe) {
    const auto source = ParseCreateTable(spec.source_schema);
    if (source.ok()) spec.chunk_refusal = ChunkRefusalOf(*source);
    spec.is_chunk_safe = spec.chunk_refusal.empty();
  }
  PF_ASSIGN(spec.warnings, reader.Strings("warnings"));
  PF_TRY(reader.Finish());
  return spec;
}

std::string RewriteTaskSpec::ToJson() const {
  JsonDoc doc{{"version", kVersion},
              {"disk", disk},
              {"relative_path", relative_path},
              {"part_name", part_name},
              {"source_key", source_key},
              {"finished_key", finished_key},
              {"manifest_sha256", manifest_sha256},
              {"checksums_sha256", checksums_sha256},
              {"rows", rows},
              {"size_bytes", size_bytes},
              {"files", files},
              {"uncompressed_bytes", uncompressed_bytes}};
  if (!error.empty()) doc["error"] = error;
  return DumpJson(doc);
}

Result<RewriteTaskSpec> RewriteTaskSpec::FromJson(std::string_view text) {
  constexpr std::string_view kWhat = "rewrite task";
  PF_ASSIGN(const JsonDoc doc, ParseJson(text));
  JsonReader reader(doc, kWhat);
  PF_TRY(CheckVersion(reader, kWhat));
  RewriteTaskSpec spec;
  PF_ASSIGN(spec.disk, reader.String("disk"));
  PF_ASSIGN(spec.relative_path, reader.String("relative_path"));
  PF_ASSIGN(spec.part_name, reader.String("part_name"));
  PF_ASSIGN(spec.source_key, reader.String("source_key"));
  PF_ASSIGN(spec.finished_key, reader.String("finished_key"));
  PF_ASSIGN(spec.manifest_sha256, reader.String("manifest_sha256"));
  PF_ASSIGN(spec.checksums_sha256, reader.String("checksums_sha256"));
  PF_ASSIGN(spec.rows, reader.Int("rows"));
  PF_ASSIGN(spec.size_bytes, reader.Int("size_bytes"));
  PF_ASSIGN(spec.files, reader.Int("files"));
  PF_ASSIGN(spec.uncompressed_bytes, reader.Int("uncompressed_bytes"));
  PF_ASSIGN(spec.error, reader.StringOr("error", ""));
  PF_TRY(reader.Finish());
  return spec;
}

std::string RewriteOutput::ToJson() const {
  JsonDoc doc(JsonDoc{{"version", kVersion},
                      {"finished_key", finished_key},
                      {"meta_key", meta_key},
                      {"meta_sha256", meta_sha256},
                      {"is_empty", is_empty},
                      {"tier", tier},
                      {"tier_reason", tier_reason},
                      {"partition_parts", JsonDoc(partition_parts)},
                      {"source_rows", source_rows},
                      {"source_rows_visible", source_rows_visible},
                      {"rows_selected", rows_selected},
                      {"rows_written", rows_written},
                      {"rows_out", rows_out},
                      {"rows_expired", rows_expired},
                      {"bytes_decoded", bytes_decoded},
                      {"bytes_out", bytes_out},
                      {"chunks", chunks},
                      {"insert_attempts", insert_attempts},
                      {"peak_memory_bytes", peak_memory_bytes},
                      {"stage_ms", JsonDoc(stage_ms)}});
  if (source_parts != 1) doc["source_parts"] = source_parts;
  return DumpJson(doc);
}

Result<RewriteOutput> RewriteOutput::FromJson(std::string_view text) {
  constexpr std::string_view kWhat = "rewrite output";
  PF_ASSIGN(const JsonDoc doc, ParseJson(text));
  JsonReader reader(doc, kWhat);
  PF_TRY(CheckVersion(reader, kWhat));
  RewriteOutput output;
  PF_ASSIGN(output.finished_key, reader.String("finished_key"));
  PF_ASSIGN(output.meta_key, reader.String("meta_key"));
  PF_ASSIGN(output.meta_sha256, reader.String("meta_sha256"));
  PF_ASSIGN(output.is_empty, reader.Bool("is_empty"));
  PF_ASSIGN(output.tier, reader.String("tier"));
  PF_ASSIGN(output.tier_reason, reader.String("tier_reason"));
  PF_ASSIGN(output.partition_parts, ReadCounts(reader, "partition_parts"));
  PF_ASSIGN(output.source_rows, reader.Int("source_rows"));
  PF_ASSIGN(output.source_rows_visible, reader.Int("source_rows_visible"));
  PF_ASSIGN(output.rows_selected, reader.Int("rows_selected"));
  PF_ASSIGN(output.rows_written, reader.Int("rows_written"));
  PF_ASSIGN(output.rows_out, reader.Int("rows_out"));
  PF_ASSIGN(output.rows_expired, reader.Int("rows_expired"));
  PF_ASSIGN(output.bytes_decoded, reader.IntOr("bytes_decoded", 0));
  PF_TRY(reader.IntOr("bytes_copied", 0));  // of older programs, and always 0
  PF_ASSIGN(output.bytes_out, reader.Int("bytes_out"));
  PF_ASSIGN(output.chunks, reader.Int("chunks"));
  PF_ASSIGN(output.insert_attempts, reader.Int("insert_attempts"));
  PF_ASSIGN(output.peak_memory_bytes, reader.Int("peak_memory_bytes"));
  PF_ASSIGN(output.stage_ms, ReadCounts(reader, "stage_ms"));
  PF_ASSIGN(output.source_parts, reader.IntOr("source_parts", 1));
  PF_TRY(reader.Finish());
  return output;
}

}  // namespace partforge::clickhouse
