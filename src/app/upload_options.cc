#include "app/upload_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/part_plan.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/artifact.h"
#include "clickhouse/tuning.h"
#include "store/store_url.h"

namespace partforge::app {
namespace {

constexpr int64_t kUploadThreadsMax = 256;

}  // namespace

std::vector<OptionSpec> UploadOptions() {
  return {
      {.name = "database", .help = "database of the source table", .is_required = true},
      {.name = "table", .help = "source table", .is_required = true},
      {.name = "destination-schema-file",
       .help = "file with the CREATE TABLE of the destination",
       .is_required = true},
      {.name = "insert-select-file",
       .help = "file with INSERT INTO destination SELECT … FROM source",
       .is_required = true},
      {.name = "bucket", .help = "bucket of the artifacts", .group = "Where", .is_required = true},
      {.name = "prefix",
       .default_text = "partforge",
       .help = "prefix of all keys in the bucket",
       .group = "Where"},
      {.name = "job-id",
       .help = "id of the job (default: drawn); the same id again resumes",
       .refuses_empty = true},
      {.name = "job-name", .help = "name for people"},
      {.name = "upload-concurrency",
       .type = OptionType::kInt,
       .default_text = "0",
       .help = "parts at once; 0 = CPUs",
       .group = "Limits"},
      {.name = "upload-files",
       .type = OptionType::kInt,
       .default_text = "0",
       .help = "files of one part at once; 0 = 256 over all parts at once",
       .group = "Limits"},
      {.name = "skip-covered",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "take only parts that no other frozen part covers"},
      {.name = "chunk-unsafe",
       .default_text = "refuse",
       .help = "SQL that is right for whole parts only: refuse, or single = run each part whole"},
      {.name = "allow-external-reads",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "the SELECT may use url(), s3(), file() and the like"},
  };
}

namespace {

Status CheckPrefix(std::string_view prefix) {
  constexpr size_t kPrefixBytesMax = 512;  // of the 1024 that a key may have
  const auto check = [&]() -> Status {
    PF_ASSIGN(const std::string normal, clickhouse::NormalizePrefix(prefix));
    if (normal.empty()) return {};
    PF_TRY(CheckObjectKey(normal));
    if (normal.size() <= kPrefixBytesMax) return {};
    return Status(Code::kInvalidArgument,
                  fmt::format("a prefix has at most {} bytes: {}", kPrefixBytesMax, normal.size()));
  };
  Status checked = check();
  // A hostile name keeps its own number (user-experience §11, UX-11).
  constexpr int kNotOurs = 8006;
  if (checked.ok()) return {};
  if (checked.explanation().pf_number == kNotOurs)
    return std::move(checked).Explain(kNotOurs, "--prefix",
                                      "--prefix=folder/folder, of plain names");
  return std::move(checked)
      .As(Code::kInvalidArgument)
      .Explain(1005, "--prefix", "--prefix=folder/folder, of plain names");
}

}  // namespace

Result<clickhouse::UploadFreezeRequest> UploadRequestFrom(const CommandInput& input,
                                                          std::vector<std::string> freezes) {
  clickhouse::UploadFreezeRequest request;
  PF_ASSIGN(request.source, TableFrom(input));
  request.freezes = std::move(freezes);
  PF_ASSIGN(request.destination_schema, ReadTextFlag(input, "destination-schema-file"));
  PF_ASSIGN(request.insert_select, ReadTextFlag(input, "insert-select-file"));
  request.bucket = input.options.String("bucket");
  request.prefix = input.options.String("prefix");
  const std::string endpoint = input.options.String("s3-endpoint");
  PF_TRY(CheckEndpoint(endpoint));
  PF_TRY(CheckBucketOf(endpoint, request.bucket));
  PF_TRY(CheckPrefix(request.prefix));
  request.job_id = input.options.String("job-id");
  request.job_name = input.options.String("job-name");
  PF_ASSIGN(const MachineLimits limits, ReadMachineLimits());
  const int64_t concurrency = input.options.Int("upload-concurrency");
  if (concurrency < 0 || concurrency > kUploadThreadsMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("0 to {} parts expected: {}", kUploadThreadsMax, concurrency))
        .Explain(1005, "--upload-concurrency", "--upload-concurrency=0 takes one a CPU");
  }
  request.parts_in_parallel = static_cast<int>(
      concurrency > 0 ? concurrency : std::min<int64_t>(limits.cpus, kUploadThreadsMax));
  const int64_t files = input.options.Int("upload-files");
  if (files < 0 || files > kUploadThreadsMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("0 to {} files expected: {}", kUploadThreadsMax, files))
        .Explain(1005, "--upload-files", "--upload-files=0 chooses by --upload-concurrency");
  }
  request.files_in_parallel =
      static_cast<int>(files > 0 ? files : clickhouse::FilesPerPart(request.parts_in_parallel));
  request.covered = input.options.Bool("skip-covered") ? clickhouse::CoveredParts::kSkip
                                                       : clickhouse::CoveredParts::kRefuse;
  const std::string chunk_unsafe = input.options.String("chunk-unsafe");
  if (chunk_unsafe != "refuse" && chunk_unsafe != "single") {
    return Status(Code::kInvalidArgument,
                  fmt::format("neither refuse nor single: {}", chunk_unsafe))
        .Explain(1005, "--chunk-unsafe", "give one of the two");
  }
  request.allows_whole_parts_only = chunk_unsafe == "single";
  request.allows_external_reads = input.options.Bool("allow-external-reads");
  return request;
}

void ShowUploadPlan(const CommandInput& input, std::string_view command,
                    const clickhouse::UploadPlan& plan) {
  Table table{{{.title = "PART_ID"},
               {.title = "DISK"},
               {.title = "PART", .is_right_aligned = false, .may_be_cut = true},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true}},
              {}};
  JsonDoc parts = JsonDoc::array();
  for (const clickhouse::PlannedPart& part : plan.parts) {
    table.rows.push_back({part.part_id, part.frozen.disk, part.frozen.name.ToString(),
                          FormatCount(part.frozen.rows), FormatBytes(part.frozen.size_bytes)});
    parts.push_back(JsonDoc{{"part_id", part.part_id},
                            {"disk", part.frozen.disk},
                            {"name", part.frozen.name.ToString()},
                            {"relative_path", part.frozen.relative_path},
                            {"rows", part.frozen.rows},
                            {"bytes", part.frozen.size_bytes}});
  }
  input.out.Line(
      fmt::format("plan   {}.{} → {}.{}   {} parts · {} rows · {}", plan.job.source_database,
                  plan.job.source_table, plan.job.destination_database, plan.job.destination_table,
                  plan.parts.size(), FormatCount(plan.rows), FormatBytes(plan.size_bytes)));
  input.out.Text(RenderTable(table, input.out.style()));
  input.out.Line(plan.job.is_chunk_safe
                     ? std::string("chunks  allowed: the SELECT works row by row")
                     : fmt::format("chunks  not allowed: {}", plan.job.chunk_refusal));
  for (const std::string& removal : plan.removals)
    input.out.Line(fmt::format("local   without {}", removal));
  const std::vector<std::string> notes = NotesOnJob(plan.job), warnings = WarningsOnJob(plan.job);
  for (const std::string& note : notes) input.out.Line(fmt::format("note    {}", note));
  for (const std::string& warning : warnings) input.out.Line(fmt::format("warning {}", warning));
  if (!plan.other_tables.empty())
    input.out.Line(
        fmt::format("note    the freeze holds parts of {} other tables: they are left out",
                    plan.other_tables.size()));
  for (const auto& part : plan.skipped)
    input.out.Line(fmt::format("skipped {} (covered by another part)", part.name.ToString()));
  JsonDoc skipped = JsonDoc::array();
  for (const auto& part : plan.skipped) skipped.push_back(part.name.ToString());
  input.out.Document(
      command,
      JsonDoc{{"job_id", plan.job_id},
              {"source", plan.job.source_database + "." + plan.job.source_table},
              {"destination", plan.job.destination_database + "." + plan.job.destination_table},
              {"schema_fingerprint", plan.schema_fingerprint},
              {"rows", plan.rows},
              {"bytes", plan.size_bytes},
              {"parts", parts},
              {"skipped", skipped},
              {"other_tables", plan.other_tables},
              {"chunks_allowed", plan.job.is_chunk_safe},
              {"chunk_refusal", plan.job.chunk_refusal},
              {"removals", plan.removals},
              {"warnings", warnings},
              {"notes", notes},
              {"dry_run", true}});
}

void ShowUploaded(ProgressLine& line, const clickhouse::UploadPlan& plan, int64_t parts,
                  int64_t bytes) {
  const double fraction = plan.size_bytes == 0
                              ? 1.0
                              : static_cast<double>(bytes) / static_cast<double>(plan.size_bytes);
  line.Show(fraction, fmt::format("part {}/{} · {}", parts, plan.parts.size(), FormatBytes(bytes)),
            {.rows = 0, .bytes = bytes});
}

}  // namespace partforge::app
