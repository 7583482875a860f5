#include "clickhouse/artifact.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "clickhouse/part_name.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kVersion = 1;

JsonDoc PartJson(const ArtifactPart& part) {
  return JsonDoc{{"name", part.name},
                 {"partition_id", part.partition_id},
                 {"rows", part.rows},
                 {"bytes_on_disk", part.bytes_on_disk},
                 {"tar_size", part.tar_size_bytes},
                 {"tar_sha256", part.tar_sha256},
                 {"checksums_txt_sha256", part.checksums_txt_sha256},
                 {"hash_of_all_files", part.hash_of_all_files}};
}

Result<ArtifactPart> ReadPartJson(const JsonDoc& doc) {
  JsonReader reader(doc, "artifact: parts");
  ArtifactPart part;
  PF_ASSIGN(part.name, reader.String("name"));
  PF_ASSIGN(part.partition_id, reader.String("partition_id"));
  PF_ASSIGN(part.rows, reader.Int("rows"));
  PF_ASSIGN(part.bytes_on_disk, reader.Int("bytes_on_disk"));
  PF_ASSIGN(part.tar_size_bytes, reader.Int("tar_size"));
  PF_ASSIGN(part.tar_sha256, reader.String("tar_sha256"));
  PF_ASSIGN(part.checksums_txt_sha256, reader.String("checksums_txt_sha256"));
  PF_ASSIGN(part.hash_of_all_files, reader.String("hash_of_all_files"));
  PF_TRY(reader.Finish());
  // The name becomes a key and a directory: it must be one before anybody uses it.
  const Result<PartName> name = ParsePartName(part.name);
  if (!name.ok()) return Status(name.status()).As(Code::kCorruption).With("artifact: parts");
  if (name->partition_id != part.partition_id) {
    return Status(Code::kCorruption, fmt::format("artifact: part {} is said to be of partition {}",
                                                 part.name, part.partition_id));
  }
  if (part.rows < 0 || part.bytes_on_disk < 0 || part.tar_size_bytes < 0) {
    return Status(Code::kCorruption,
                  fmt::format("artifact: part {} has a negative size", part.name));
  }
  return part;
}

Result<std::vector<ArtifactPart>> ReadParts(const JsonDoc& list) {
  std::vector<ArtifactPart> parts;
  std::set<std::string> names;
  for (const JsonDoc& doc : list) {
    PF_ASSIGN(ArtifactPart part, ReadPartJson(doc));
    if (!names.insert(part.name).second) {
      return Status(Code::kCorruption, fmt::format("artifact: part listed twice: {}", part.name));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

JsonDoc PartsJson(const std::vector<ArtifactPart>& parts) {
  JsonDoc list = JsonDoc::array();
  for (const ArtifactPart& part : parts) list.push_back(PartJson(part));
  return list;
}

std::string_view KindName(ArtifactKind kind) {
  return kind == ArtifactKind::kRewrite ? "rewrite" : "compact";
}

Result<ArtifactKind> ParseKind(std::string_view name) {
  if (name == "rewrite") return ArtifactKind::kRewrite;
  if (name == "compact") return ArtifactKind::kCompact;
  return Status(Code::kRefused, fmt::format("artifact of an unknown kind: {}", name));
}

Status ReadInsert(const JsonDoc& doc, ArtifactMeta& meta) {
  JsonReader reader(doc, "artifact: insert");
  PF_ASSIGN(const JsonDoc* list, reader.Array("chunks"));
  for (const JsonDoc& item : *list) {
    JsonReader chunk_reader(item, "artifact: insert.chunks");
    ArtifactChunk chunk;
    PF_ASSIGN(chunk.begin, chunk_reader.Int("start"));
    PF_ASSIGN(chunk.end, chunk_reader.Int("end"));
    PF_ASSIGN(chunk.attempts, chunk_reader.Int("attempts"));
    PF_ASSIGN(chunk.selected, chunk_reader.Int("selected"));
    PF_ASSIGN(chunk.written, chunk_reader.Int("written"));
    PF_TRY(chunk_reader.Finish());
    meta.chunks.push_back(chunk);
  }
  PF_ASSIGN(meta.selected, reader.Int("selected"));
  PF_ASSIGN(meta.written, reader.Int("written"));
  return reader.Finish();
}

Status ReadInputs(const JsonDoc& list, ArtifactMeta& meta) {
  for (const JsonDoc& item : list) {
    JsonReader reader(item, "artifact: inputs");
    ArtifactInput input;
    PF_ASSIGN(input.part_id, reader.String("part_id"));
    PF_ASSIGN(input.epoch, reader.Uint("epoch"));
    PF_ASSIGN(input.meta_sha256, reader.String("meta_sha256"));
    PF_TRY(reader.Finish());
    meta.inputs.push_back(std::move(input));
  }
  return {};
}

Status ReadSource(const JsonDoc& doc, ArtifactMeta& meta) {
  JsonReader reader(doc, "artifact: source");
  PF_ASSIGN(meta.source_rows, reader.Int("rows"));
  PF_ASSIGN(meta.source_rows_visible, reader.Int("rows_visible"));
  PF_ASSIGN(meta.source_bytes, reader.Int("bytes"));
  PF_ASSIGN(meta.source_manifest_sha256, reader.String("sha256_manifest"));
  return reader.Finish();
}

Result<ArtifactMeta> ReadMeta(std::string_view text) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(text));
  JsonReader reader(doc, "artifact");
  PF_ASSIGN(const int64_t version, reader.Int("version"));
  if (version != kVersion) {
    return Status(Code::kRefused, fmt::format("unsupported artifact version: {}", version));
  }
  ArtifactMeta meta;
  PF_ASSIGN(const std::string kind, reader.String("kind"));
  PF_ASSIGN(meta.kind, ParseKind(kind));
  PF_ASSIGN(meta.job_id, reader.String("job_id"));
  PF_ASSIGN(meta.part_id, reader.String("part_id"));
  PF_ASSIGN(meta.epoch, reader.Uint("epoch"));
  PF_ASSIGN(meta.generation, reader.Int("generation"));
  PF_ASSIGN(meta.engine, reader.String("engine"));
  PF_ASSIGN(meta.schema_fingerprint, reader.String("schema_fingerprint"));
  PF_ASSIGN(meta.codec, reader.String("codec"));
  PF_ASSIGN(const JsonDoc* source, reader.Object("source"));
  PF_TRY(ReadSource(*source, meta));
  PF_ASSIGN(const JsonDoc* insert, reader.Object("insert"));
  PF_TRY(ReadInsert(*insert, meta));
  PF_ASSIGN(const JsonDoc* inputs, reader.Array("inputs"));
  PF_TRY(ReadInputs(*inputs, meta));
  PF_ASSIGN(const JsonDoc* parts, reader.Array("parts"));
  PF_ASSIGN(meta.parts, ReadParts(*parts));
  PF_TRY(reader.Finish());
  return meta;
}

Status Explained(Status status) {
  return std::move(status)
      .With("read an artifact's description")
      .Explain(8001, "artifact meta",
               "the object was changed or written by a newer program; upgrade, or run "
               "partforge retry-failed for the part");
}

}  // namespace

std::string FormatArtifactMeta(const ArtifactMeta& meta) {
  JsonDoc chunks = JsonDoc::array();
  for (const ArtifactChunk& chunk : meta.chunks) {
    chunks.push_back(JsonDoc{{"start", chunk.begin},
                             {"end", chunk.end},
                             {"attempts", chunk.attempts},
                             {"selected", chunk.selected},
                             {"written", chunk.written}});
  }
  JsonDoc inputs = JsonDoc::array();
  for (const ArtifactInput& input : meta.inputs) {
    inputs.push_back(JsonDoc{
        {"part_id", input.part_id}, {"epoch", input.epoch}, {"meta_sha256", input.meta_sha256}});
  }
  return DumpJsonPretty(JsonDoc{
      {"version", kVersion},
      {"kind", KindName(meta.kind)},
      {"job_id", meta.job_id},
      {"part_id", meta.part_id},
      {"epoch", meta.epoch},
      {"generation", meta.generation},
      {"engine", meta.engine},
      {"schema_fingerprint", meta.schema_fingerprint},
      {"codec", meta.codec},
      {"source",
       {{"rows", meta.source_rows},
        {"rows_visible", meta.source_rows_visible},
        {"bytes", meta.source_bytes},
        {"sha256_manifest", meta.source_manifest_sha256}}},
      {"insert",
       {{"chunks", std::move(chunks)}, {"selected", meta.selected}, {"written", meta.written}}},
      {"inputs", std::move(inputs)},
      {"parts", PartsJson(meta.parts)}});
}

Result<ArtifactMeta> ParseArtifactMeta(std::string_view text) {
  Result<ArtifactMeta> meta = ReadMeta(text);
  if (!meta.ok()) return Explained(std::move(meta).status());
  return meta;
}

}  // namespace partforge::clickhouse
