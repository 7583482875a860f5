#include "clickhouse/verify_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "clickhouse/artifact_fetch.h"
#include "clickhouse/fingerprint.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/rewrite_check.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/source_fetch.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"
#include "job/each_task.h"
#include "job/failure.h"

namespace partforge::clickhouse {
namespace {

constexpr int kMissingObject = 2126;

class PartVerification {
 public:
  PartVerification(StateReader& state, const VerifyRequest& request, const RewriteJobSpec& job,
                   const Task& task)
      : state_(state), request_(request), job_(job), task_(task) {}

  Status Run(const Context& ctx, const RewriteOutput& output, VerifiedPart& seen) {
    PF_ASSIGN(ObjectStore* const store, request_.store_of_bucket(ctx, job_.bucket));
    PF_ASSIGN(const ArtifactMeta meta, FetchMeta(ctx, *store, output.meta_key, output.meta_sha256));
    for (const ArtifactPart& part : meta.parts) {
      const std::string key = TarKey(output.finished_key, part.name);
      PF_ASSIGN(const ObjectInfo info, store->Stat(ctx, key));
      if (info.size_bytes != part.tar_size_bytes) {
        return Status(Code::kCorruption, fmt::format("{} has {} bytes, {} are recorded", key,
                                                     info.size_bytes, part.tar_size_bytes));
      }
      if (request_.depth != VerifyDepth::kMeta)
        PF_TRY(VerifyPartTar(ctx, *store, output.finished_key, part, VerifyLevel::kContent));
      ++seen.parts;
      seen.rows += part.rows;
      seen.bytes += part.bytes_on_disk;
    }
    if (seen.rows != output.rows_out) {
      return Status(Code::kCorruption, fmt::format("{} rows in the parts, {} in the state store",
                                                   seen.rows, output.rows_out));
    }
    if (request_.depth == VerifyDepth::kEngine || request_.depth == VerifyDepth::kRows)
      PF_TRY(RunInEngine(ctx, *store, output, meta, seen));
    return {};
  }

  // Whether what Run has failed with speaks against the artifact. Never so what the store or this
  // machine refuses. Before the engine had it, everything else does; then the bytes are what they
  // should be, and only what the engine calls damage does: not a statement of the job that it
  // refuses, nor its own lack of memory or room.
  bool IsOfArtifact(const Status& failure) const {
    const Code code = failure.code();
    if (code == Code::kCancelled || code == Code::kUnavailable || IsOfSurroundings(failure))
      return false;
    if (!is_in_engine_) return true;
    if (ClickHouseNumber(failure) != 0) return FailureClassOf(failure) == FailureClass::kData;
    return code == Code::kCorruption || code == Code::kNotFound;
  }

 private:
  Status RunInEngine(const Context& ctx, ObjectStore& store, const RewriteOutput& output,
                     const ArtifactMeta& meta, VerifiedPart& seen) {
    if (request_.engines == nullptr) return Status(Code::kInternal, "this depth needs an engine");
    is_in_engine_ = true;
    const std::filesystem::path engine_path = request_.scratch / "engine",
                                parts_path = request_.scratch / "parts";
    PF_TRY(MakeDirectories(engine_path));
    PF_TRY(RemoveTree(parts_path));
    PF_TRY(MakeDirectories(parts_path));
    EngineWish wish(engine_path, job_.timezone);
    wish.allows_external_reads = job_.allows_external_reads;
    PF_ASSIGN(Engine* const engine, request_.engines->Get(ctx, 0, wish));
    DdlOptions options;
    PF_ASSIGN(options.engine, ReadEngineNames(ctx, *engine));
    PF_ASSIGN(LocalDdl source, NormalizeSource(job_.source_schema, options));
    PF_ASSIGN(LocalDdl destination, NormalizeDestination(job_.destination_schema, options));
    PF_ASSIGN(LocalTables tables,
              LocalTables::Create(ctx, *engine,
                                  LocalTablesRequest{.source = std::move(source),
                                                     .destination = std::move(destination)}));
    Status status = CompareInEngine(ctx, store, *engine, tables, parts_path, output, meta, seen);
    Ignore(ctx, tables.Drop(ctx), "the next part drops them first");
    Ignore(ctx, RemoveTree(parts_path), "scratch");
    return status;
  }

  Status CompareInEngine(const Context& ctx, ObjectStore& store, Engine& engine,
                         LocalTables& tables, const std::filesystem::path& parts_path,
                         const RewriteOutput& output, const ArtifactMeta& meta,
                         VerifiedPart& seen) {
    for (const ArtifactPart& part : meta.parts) {
      PF_TRY(FetchPart(ctx, store, output.finished_key, part, parts_path / part.name,
                       {.verify = VerifyLevel::kSizes, .is_synced = false}));
      PF_TRY(tables.AttachDestination(ctx, parts_path / part.name, part.name));
    }
    if (!meta.parts.empty()) PF_TRY(CheckTable(ctx, engine, tables.destination()));
    PF_ASSIGN(const PartitionMap attached, tables.ActiveParts(ctx, tables.destination()));
    if (Total(attached).rows != seen.rows) {
      return Status(Code::kCorruption, fmt::format("the engine counts {} rows, {} are recorded",
                                                   Total(attached).rows, seen.rows));
    }
    if (request_.depth != VerifyDepth::kRows) return {};
    PF_ASSIGN(const CreateTable destination, ParseCreateTable(job_.destination_schema));
    if (IsCollapsingEngine(destination.engine)) {
      NotCompared(seen, fmt::format("{} may merge rows when it is written", destination.engine));
      return {};
    }
    if (output.rows_expired > 0) {
      NotCompared(seen, fmt::format("TTL left {} rows out", output.rows_expired));
      return {};
    }
    PF_ASSIGN(const std::vector<Task> sources, ReadSources(ctx, meta));
    if (std::ssize(sources) != output.source_parts) {
      return Status(Code::kCorruption,
                    fmt::format("made from {} source parts, its description names {}",
                                output.source_parts, sources.size()));
    }
    std::vector<SourceDirectory> directories;
    for (const Task& source : sources) {
      Result<SourceDirectory> fetched = FetchOne(ctx, store, parts_path, source);
      if (!fetched.ok() && fetched.status().explanation().pf_number == kMissingObject) {
        NotCompared(seen, fmt::format("it is not in the store any more: {}",
                                      fetched.status().explanation().where));
        return {};
      }
      seen.is_of_source = !fetched.ok();
      PF_TRY(fetched);
      directories.push_back(std::move(fetched).value());
    }
    PF_TRY(tables.AttachSources(ctx, directories));
    PF_ASSIGN(const InsertTarget target, ParseInsertSelect(job_.insert_select));
    const ContentQuestion question{.select = target.select,
                                   .current_database = job_.source_database,
                                   .insert_columns = target.columns,
                                   .memory_bytes_max = 0};
    PF_ASSIGN(const ContentAnswer answer, CheckContent(ctx, engine, tables, question));
    if (answer == ContentAnswer::kNotComparable)
      NotCompared(seen, "the SELECT gives other values each time it runs");
    return {};
  }

  // The tasks whose parts the artifact was made from: the task itself, or its inputs.
  Result<std::vector<Task>> ReadSources(const Context& ctx, const ArtifactMeta& meta) const {
    if (meta.inputs.empty()) return std::vector<Task>{task_};
    std::vector<Task> sources;
    for (const ArtifactInput& input : meta.inputs) {
      PF_ASSIGN(Task source, state_.GetTask(ctx, task_.job, input.part_id));
      sources.push_back(std::move(source));
    }
    return sources;
  }

  Result<SourceDirectory> FetchOne(const Context& ctx, ObjectStore& store,
                                   const std::filesystem::path& parts_path,
                                   const Task& source) const {
    PF_ASSIGN(const RewriteTaskSpec part, RewriteTaskSpec::FromJson(source.payload));
    const FetchSourceRequest fetch{
        .source_key = part.source_key,
        .owner = {.job_id = source.source_job.empty() ? source.job : source.source_job,
                  .part_id = source.source_task.empty() ? source.id : source.source_task,
                  .bucket = job_.bucket,
                  .source_key = part.source_key},
        .directory = parts_path / ("source-" + source.id),
        .verify = VerifyLevel::kContent,
        .threads = 4,
        .buckets = {}};
    PF_TRY(FetchSource(ctx, store, fetch));
    return SourceDirectory{.directory = fetch.directory, .part_name = part.part_name};
  }

  // What is said when rows were counted and checked, but not compared one by one.
  static void NotCompared(VerifiedPart& seen, std::string_view reason) {
    seen.verdict = Verdict::kWarn;
    seen.message = fmt::format("rows not compared with the source: {}", reason);
  }

  StateReader& state_;
  const VerifyRequest& request_;
  const RewriteJobSpec& job_;
  const Task& task_;
  bool is_in_engine_ = false;
};

}  // namespace

Result<VerifyDepth> ParseVerifyDepth(std::string_view text) {
  if (text == "meta") return VerifyDepth::kMeta;
  if (text == "checksums") return VerifyDepth::kChecksums;
  if (text == "engine") return VerifyDepth::kEngine;
  if (text == "rows") return VerifyDepth::kRows;
  return Status(Code::kInvalidArgument,
                fmt::format("level is none of meta, checksums, engine, rows: {}", text));
}

Result<std::vector<VerifiedPart>> VerifyJob(const Context& ctx, StateReader& state,
                                            const VerifyRequest& request) {
  PF_ASSIGN(const JobView view, state.View(ctx, request.job_id));
  PF_ASSIGN(const RewriteJobSpec job, RewriteJobSpec::FromJson(view.job.spec));
  std::vector<VerifiedPart> verified;
  const auto verify_one = [&](const Task& task) -> Status {
    if (!HasOutput(task.state) || (!request.part_id.empty() && task.id != request.part_id))
      return {};
    PF_TRY(ctx.CheckStop("verifying"));
    VerifiedPart seen{.part_id = task.id,
                      .status = std::string(TaskStateName(task.state)),
                      .verdict = Verdict::kOk,
                      .message = {},
                      .is_of_source = false,
                      .parts = 0,
                      .rows = 0,
                      .bytes = 0};
    PF_ASSIGN(const std::vector<AttemptView> attempts, state.Attempts(ctx, task.job, task.id));
    const auto winner =
        std::find_if(attempts.begin(), attempts.end(),
                     [&](const AttemptView& attempt) { return attempt.epoch == task.winner; });
    if (winner == attempts.end()) {
      seen.verdict = Verdict::kFail;
      seen.message = "the state store holds no result of this part";
    } else {
      PF_ASSIGN(const RewriteOutput output, RewriteOutput::FromJson(winner->result));
      PartVerification verification(state, request, job, task);
      Status status = verification.Run(ctx, output, seen);
      if (!status.ok() && !verification.IsOfArtifact(status))
        return std::move(status).With(fmt::format("verify part {}", task.id));
      if (!status.ok()) {
        seen.verdict = Verdict::kFail;
        seen.message =
            seen.is_of_source ? "its source part: " + status.message() : status.message();
      }
    }
    if (request.on_part) request.on_part(seen);
    verified.push_back(std::move(seen));
    return {};
  };
  PF_TRY(ForEachTask(ctx, state, request.job_id, verify_one));
  return verified;
}

}  // namespace partforge::clickhouse
