#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/progress_line.h"
#include "app/time_spent.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/verify_job.h"
#include "job/run_folder.h"

namespace partforge::app {
namespace {

std::string_view Word(clickhouse::Verdict verdict) {
  switch (verdict) {
    case clickhouse::Verdict::kOk:
      return "ok";
    case clickhouse::Verdict::kWarn:
      return "warn";
    case clickhouse::Verdict::kFail:
      return "FAIL";
  }
  return "FAIL";
}

// What is told when `failed` of `count` artifacts are not as recorded; for `sources` of them it is
// the copy of the source part that differs.
Status Damaged(const JobId& job, int64_t count, int64_t failed, int64_t sources,
               const std::string& first) {
  const std::string advice =
      failed == sources
          ? std::string(
                "the artifacts are as they were made; whoever wants to make them again uploads the "
                "parts in a new job")
          : fmt::format(
                "partforge retry-failed --job-id={} --part-id=PART   makes a part's artifact again",
                job);
  const std::string_view what =
      failed == sources ? "cannot be compared with their damaged sources" : "are damaged";
  return Status(Code::kCorruption,
                fmt::format("{} of {} artifacts {}, the first: {}", failed, count, what, first))
      .Explain(2133, job, advice);
}

Status Run(const CommandInput& input) {
  const auto depth = clickhouse::ParseVerifyDepth(input.options.String("level"));
  if (!depth.ok()) return Status(depth.status()).Explain(1005, "--level", "--level=checksums");
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  BucketStores stores(input);
  clickhouse::VerifyRequest request;
  PF_ASSIGN(request.job_id, JobNamed(input));
  if (request.job_id.empty())
    return Status(Code::kInvalidArgument, "no job is named")
        .Explain(1006, "verify", "partforge verify JOB");
  request.part_id = input.options.String("part-id");
  PF_ASSIGN(const JobView view, state->View(input.ctx, request.job_id));
  // A misspelt part would pass as nothing to verify.
  if (!request.part_id.empty()) PF_TRY(state->GetTask(input.ctx, request.job_id, request.part_id));
  const int64_t expected = request.part_id.empty() ? NumbersOf(view).rewritten : 1;
  request.depth = *depth;
  request.store_of_bucket = stores.function();
  std::unique_ptr<clickhouse::SlotEngines> engines;
  std::unique_ptr<RunFolder> scratch;
  if (*depth == clickhouse::VerifyDepth::kEngine || *depth == clickhouse::VerifyDepth::kRows) {
    PF_ASSIGN(const std::filesystem::path work_dir, OpenWorkDir(input));
    PF_ASSIGN(scratch, RunFolder::Open(input.ctx, work_dir));
    PF_ASSIGN(EngineChoice choice, ChooseEngine(input, 1));
    engines = MakeSlotEngines(std::move(choice), 1);
    request.engines = engines.get();
    request.scratch = scratch->path();
  }
  Table table{{{.title = "VERDICT"},
               {.title = "PART_ID"},
               {.title = "STATUS"},
               {.title = "PARTS", .is_right_aligned = true},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "MESSAGE", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  JsonDoc objects = JsonDoc::array();
  int64_t rows = 0, bytes = 0, failed = 0, failed_sources = 0, warned = 0, count = 0;
  std::string first_failure;
  const int64_t started_ms = MonotonicMs();
  ProgressLine progress(input, "verifying");
  request.on_part = [&](const clickhouse::VerifiedPart& part) {
    JsonDoc one{{"type", "object"},
                {"part_id", part.part_id},
                {"status", part.status},
                {"verdict", std::string(Word(part.verdict))},
                {"parts", part.parts},
                {"rows", part.rows},
                {"bytes", part.bytes},
                {"message", part.message},
                {"of_source", part.is_of_source}};
    if (input.out.style().is_ndjson) {
      input.out.Object(one);
    } else {
      objects.push_back(std::move(one));
    }
    table.rows.push_back({std::string(Word(part.verdict)), part.part_id, part.status,
                          FormatCount(part.parts), FormatCount(part.rows), FormatBytes(part.bytes),
                          part.message});
    rows += part.rows;
    bytes += part.bytes;
    ++count;
    progress.Show(static_cast<double>(count) / static_cast<double>(std::max(count, expected)),
                  fmt::format("artifact {}/{} · {} rows", count, std::max(count, expected),
                              FormatCount(rows)),
                  {.rows = rows, .bytes = bytes});
    if (part.verdict == clickhouse::Verdict::kWarn) ++warned;
    if (part.verdict != clickhouse::Verdict::kFail) return;
    ++failed;
    if (part.is_of_source) ++failed_sources;
    input.out.Answer(part.part_id);
    if (first_failure.empty()) first_failure = part.part_id + ": " + part.message;
  };
  const auto verified = clickhouse::VerifyJob(input.ctx, *state, request);
  if (engines != nullptr) {
    engines.reset();
    Ignore(input.ctx, scratch->Remove(input.ctx), "scratch; a later start sweeps it");
  }
  progress.Finish();
  if (!verified.ok()) return verified.status();
  const int64_t took_ms = MonotonicMs() - started_ms;
  input.out.Text(RenderTable(table, input.out.style()));
  input.out.Line(fmt::format("{} artifacts at level {}: {} ok, {} warn, {} FAIL   {} rows, {}",
                             count, input.options.String("level"), count - warned - failed, warned,
                             failed, FormatCount(rows), FormatBytes(bytes)));
  input.out.Line("time   " + TimeSpent{.took_ms = took_ms, .rows = rows, .bytes = bytes}.Text());
  JsonDoc document{{"job_id", request.job_id},
                   {"level", input.options.String("level")},
                   {"ok", count - warned - failed},
                   {"warned", warned},
                   {"failed", failed},
                   {"rows", rows},
                   {"bytes", bytes},
                   {"seconds", static_cast<double>(took_ms) / 1000.0}};
  if (!input.out.style().is_ndjson) document["objects"] = std::move(objects);
  input.out.Document("verify", document);
  if (failed > 0) return Damaged(request.job_id, count, failed, failed_sources, first_failure);
  if (count == 0 && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "the job has no artifact yet")
        .Explain(1016, request.job_id, "partforge job-status");
  return {};
}

}  // namespace

Command VerifyCommand() {
  return {
      {.name = "verify",
       .purpose = "Reads the artifacts of a job again and compares them with what is recorded; "
                  "repairs nothing.",
       .arguments = "[JOB]",
       .arguments_min = 0,
       .arguments_max = 1,
       .examples = {"partforge verify job-5f0e11aa22bb33cc",
                    "partforge verify job-5f0e11aa22bb33cc --level=rows"},
       .options = Join(
           {{{.name = "job-id", .help = "job, when it is not the argument", .refuses_empty = true},
             {.name = "part-id", .help = "one part only", .refuses_empty = true},
             {.name = "level",
              .default_text = "checksums",
              .help = "meta, checksums, engine (CHECK TABLE) or rows (hash of all rows)"}},
            StateOptions(),
            StoreOptions(),
            EngineOptions()}),
       .related = {"job-status", "gc"},
       .is_streaming = true},
      Run};
}

}  // namespace partforge::app
