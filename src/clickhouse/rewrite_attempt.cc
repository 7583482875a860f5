#include "clickhouse/rewrite_attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/ids.h"
#include "base/parallel_for.h"
#include "base/units.h"
#include "clickhouse/engine_failure.h"
#include "clickhouse/fingerprint.h"
#include "clickhouse/merge_wait.h"
#include "clickhouse/part_files.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kAnswerMs = 30'000;  // for an engine that is idle
constexpr uint64_t kOutputEpoch = 1;   // the store gives it to what supersedes others

// Letters of job and part ids that a freeze name may hold; cut, so that three of them make a folder
// name.
std::string FreezeWord(std::string_view text) {
  constexpr size_t kFreezeWordMax = 64;
  std::string word(text.substr(0, kFreezeWordMax));
  for (char& c : word) {
    const bool is_kept =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!is_kept) c = '_';
  }
  return word;
}

double Seconds(int64_t duration_ms) {
  return static_cast<double>(duration_ms) / 1000.0;
}

// The frozen copies of `parts`, found below the freeze's folder: shadow/<name>/store/<xxx>/<uuid>/
// holds them beside each other. kInternal when one is missing, kCorruption when a part with rows
// was frozen that is not one of them.
Result<std::vector<PartDirectory>> FrozenParts(const Context& ctx,
                                               const std::filesystem::path& frozen_path,
                                               const std::vector<ActivePart>& parts) {
  std::vector<PartDirectory> frozen;
  std::set<std::filesystem::path> tables;
  for (const ActivePart& part : parts) {
    const std::filesystem::path table = part.path.parent_path();
    const std::filesystem::path copy = frozen_path / table.parent_path().parent_path().filename() /
                                       table.parent_path().filename() / table.filename() /
                                       part.name;
    std::error_code error;
    if (!std::filesystem::is_directory(copy, error)) {
      return Status(Code::kInternal,
                    fmt::format("frozen part is not where it should be: {}", copy.string()));
    }
    tables.insert(copy.parent_path());
    frozen.push_back(PartDirectory{.name = part.name, .directory = copy});
  }
  for (const std::filesystem::path& table : tables) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(table, error)) {
      const std::string name = entry.path().filename();
      const bool is_listed = std::any_of(parts.begin(), parts.end(),
                                         [&](const ActivePart& part) { return part.name == name; });
      if (is_listed || !entry.is_directory()) continue;
      // Without rows it is one of those that moves and truncations leave behind.
      PF_ASSIGN(const PartInfo extra, ReadPart(ctx, entry.path()));
      if (extra.rows == 0) continue;
      return Status(Code::kCorruption,
                    fmt::format("a part of {} rows was frozen that was not measured: {}",
                                extra.rows, name))
          .Explain(2137, name, "nothing was published; run the part again");
    }
    if (error) return ErrnoStatus(error.value(), "list frozen parts in " + table.string());
  }
  return frozen;
}

}  // namespace

void StageClock::Begin(const Context& ctx, std::string_view stage) {
  End(ctx);
  stage_ = stage;
  started_ms_ = MonotonicMs();
  ctx.metrics.Set("partforge_rewrite_current_stage",
                  {{"job_id", job_}, {"part_id", part_}, {"stage", stage_}}, 1);
  Tick(ctx);
  ctx.log.Debug("stage started", {{"job", job_}, {"part", part_}, {"stage", stage_}});
}

void StageClock::End(const Context& ctx) {
  if (stage_.empty()) return;
  const MetricLabels labels{{"job_id", job_}, {"part_id", part_}, {"stage", stage_}};
  durations_ms_[stage_] += MonotonicMs() - started_ms_;
  ctx.metrics.Remove("partforge_rewrite_current_stage", labels);
  ctx.metrics.Remove("partforge_rewrite_current_stage_elapsed_seconds", labels);
  ctx.metrics.Set("partforge_rewrite_completed_stage_duration_seconds", labels,
                  Seconds(durations_ms_[stage_]));
  stage_.clear();
}

void StageClock::Tick(const Context& ctx) const {
  const int64_t now_ms = MonotonicMs();
  ctx.metrics.Set("partforge_rewrite_current_stage_elapsed_seconds",
                  {{"job_id", job_}, {"part_id", part_}, {"stage", stage_}},
                  Seconds(now_ms - started_ms_));
  ctx.metrics.Set("partforge_rewrite_total_elapsed_seconds", {{"job_id", job_}, {"part_id", part_}},
                  Seconds(now_ms - begun_ms_));
}

std::string StageClock::ProgressFields() const {
  const int64_t now_ms = MonotonicMs();
  std::string behind;
  for (const auto& [stage, took_ms] : durations_ms_)
    behind += fmt::format("{}\"{}\":{}", behind.empty() ? "" : ",", stage, took_ms);
  return fmt::format(
      "\"rewrite_stage_elapsed_ms\":{},\"rewrite_total_elapsed_ms\":{},"
      "\"rewrite_stage_durations_ms\":{{{}}}",
      now_ms - started_ms_, now_ms - begun_ms_, behind);
}

void StageClock::Close(const Context& ctx) {
  End(ctx);
  const MetricLabels item{{"job_id", job_}, {"part_id", part_}};
  ctx.metrics.RemoveMatching("partforge_rewrite_completed_stage_duration_seconds", item);
  ctx.metrics.Remove("partforge_rewrite_total_elapsed_seconds", item);
}

RewriteAttempt::RewriteAttempt(const RewriteSettings& settings, SlotEngines& engines,
                               LocalSchemaCache& cache, KeptTables& kept, ObjectStore& store,
                               RewriteJobSpec job, std::vector<AttemptSource> sources,
                               TaskScope& scope)
    : settings_(settings),
      engines_(engines),
      cache_(cache),
      kept_(kept),
      store_(store),
      job_(std::move(job)),
      sources_(std::move(sources)),
      job_id_(sources_.front().task.job),
      first_id_(sources_.front().task.id),
      scope_(scope),
      stages_(job_id_, first_id_) {}

std::vector<const AttemptSource*> RewriteAttempt::Rewritten() const {
  std::vector<const AttemptSource*> rewritten;
  for (const AttemptSource& source : sources_) {
    if (source.damage.ok()) rewritten.push_back(&source);
  }
  return rewritten;
}

const AttemptSource& RewriteAttempt::lead() const {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [](const AttemptSource& source) { return source.damage.ok(); });
  return found == sources_.end() ? sources_.front() : *found;
}

TaskId RewriteAttempt::OutputId() const {
  std::vector<std::string> ids;
  for (const AttemptSource* source : Rewritten()) ids.push_back(source->task.id);
  return ids.size() == 1 ? ids.front() : MakeCompactId(1, std::move(ids));
}

int64_t RewriteAttempt::Sum(const std::function<int64_t(const AttemptSource&)>& value) const {
  int64_t sum = 0;
  for (const AttemptSource* source : Rewritten()) sum += value(*source);
  return sum;
}

std::filesystem::path RewriteAttempt::FolderOf(const AttemptSource& source) const {
  // Parts of two disks may have one name.
  return scope_.scratch() / "source" / source.task.id / source.spec.part_name;
}

std::string RewriteAttempt::What() const {
  const std::string& first = lead().spec.part_name;
  return is_gathered() ? fmt::format("{} and {} more", first, Rewritten().size() - 1) : first;
}

Result<TaskResult> RewriteAttempt::Run(const Context& ctx) {
  PF_ASSIGN(tuning_, Tune(settings_.limits, settings_.slots));
  if (job_.is_order_sensitive) tuning_ = OrderedTuning(tuning_);
  stages_.Begin(ctx, "prepare_work_dir");
  PF_TRY(CheckScratchSpace());
  stages_.Begin(ctx, "download_source");
  PF_TRY(Fetch(ctx));
  std::vector<PartDirectory> parts;
  {
    stages_.Begin(ctx, "wait_for_engine");
    PF_ASSIGN(const std::shared_ptr<void> permit, scope_.Enter(ctx, partforge::Stage::kEngine));
    Result<std::vector<PartDirectory>> frozen = Rewrite(ctx);
    peak_memory_bytes_ = engines_.PeakMemoryBytes(scope_.slot());
    // The upload reads the frozen parts; the engine is free for another part meanwhile.
    // Of many parts TRUNCATE makes as many empty ones: new tables are cheaper.
    const bool may_be_kept = frozen.ok() && are_tables_plain_ && !is_gathered();
    ReleaseTables(ctx, may_be_kept ? AfterUse::kKeep : AfterUse::kDrop);
    if (!frozen.ok()) return std::move(frozen).status();
    parts = std::move(frozen).value();
  }
  stages_.Begin(ctx, "upload_finished_tarballs");
  PF_ASSIGN(const JobKeys keys, JobKeys::Make(job_.prefix, job_id_));
  PF_ASSIGN(finished_prefix_, keys.FinishedPrefix(lead().task.id, lead().task.epoch));
  PF_TRY(Upload(ctx, parts));
  stages_.Begin(ctx, "complete_part");
  stages_.End(ctx);
  return MakeResult();
}

Result<std::vector<PartDirectory>> RewriteAttempt::Rewrite(const Context& ctx) {
  stages_.Begin(ctx, "prepare_worker_tables");
  PF_TRY(PrepareTables(ctx));
  stages_.Begin(ctx, "attach_source_part");
  PF_TRY(Attach(ctx));
  stages_.Begin(ctx, "insert_select");
  PF_TRY(Insert(ctx));
  stages_.Begin(ctx, "wait_merges");
  PF_TRY(Merge(ctx));
  stages_.Begin(ctx, "measure_destination_parts");
  PF_TRY(Verify(ctx));
  if (produced_.empty()) return std::vector<PartDirectory>();
  stages_.Begin(ctx, "freeze_destination_parts");
  return Freeze(ctx);
}

Status RewriteAttempt::CheckScratchSpace() const {
  PF_ASSIGN(const int64_t free_bytes, FreeBytes(scope_.scratch()));
  // Source, output and room for merges; the tar is never on disk.
  const int64_t need_bytes =
      Sum([](const AttemptSource& source) { return source.spec.size_bytes; }) * 3;
  const auto usable = static_cast<int64_t>(static_cast<double>(free_bytes) *
                                           (1.0 - settings_.free_space_fraction_min));
  if (need_bytes <= usable) return {};
  return Status(Code::kExhausted, fmt::format("the part needs {} of scratch space, {} may be used",
                                              FormatBytes(need_bytes), FormatBytes(usable)))
      .Explain(7007, scope_.scratch().string(),
               "free space, or give the worker another --work-dir");
}

Status RewriteAttempt::FetchOne(const Context& ctx, AttemptSource& source, int threads) const {
  FetchSourceRequest request{.source_key = source.spec.source_key,
                             .owner = {.job_id = source.owner_job,
                                       .part_id = source.owner_task,
                                       .bucket = job_.bucket,
                                       .source_key = source.spec.source_key},
                             .manifest_sha256 = source.spec.manifest_sha256,
                             .directory = FolderOf(source),
                             .verify = settings_.verify == VerifyMode::kContent
                                           ? VerifyLevel::kContent
                                           : VerifyLevel::kSizes,
                             .threads = threads,
                             .buckets = {}};
  PF_TRY(MakeDirectories(request.directory.parent_path()));
  PF_ASSIGN(source.fetched, FetchSource(ctx, store_, request));
  // Of a thousand parts these would be the largest thing in memory, and nobody asks for them again.
  source.fetched.manifest = {};
  source.fetched.part.checksums = {};
  return {};
}

Status RewriteAttempt::NoteDamage(AttemptSource& source, Status failure) const {
  if (sources_.size() == 1) return failure;
  const Failure found = ReadEngineFailure(failure);
  if (found.failure_class != FailureClass::kData || found.code != 0) return failure;
  source.damage = std::move(failure);
  return {};
}

Status RewriteAttempt::CheckSomeAreLeft() const {
  return Rewritten().empty() ? sources_.front().damage : Status();
}

Status RewriteAttempt::Fetch(const Context& ctx) {
  PF_ASSIGN(const std::shared_ptr<void> permit, scope_.Enter(ctx, partforge::Stage::kNetwork));
  // Several parts are fetched side by side, each file after file: as many requests at once.
  const auto count = static_cast<int64_t>(sources_.size());
  const int threads_inside = count == 1 ? settings_.files_in_parallel : 1;
  const std::filesystem::path folder = scope_.scratch() / "source";
  PF_TRY(MakeDirectories(folder));
  if (count > 1) SpreadSubfolders(folder);
  PF_TRY(ParallelFor(ctx, count, settings_.files_in_parallel,
                     [&](const Context& inner, int64_t index) -> Status {
                       AttemptSource& source = sources_[static_cast<size_t>(index)];
                       Status fetched = FetchOne(inner, source, threads_inside);
                       return fetched.ok() ? fetched : NoteDamage(source, std::move(fetched));
                     }));
  PF_TRY(CheckSomeAreLeft());
  PF_FAULT(ctx, "clickhouse.source_fetched");
  return {};
}

Status RewriteAttempt::CheckEngineAnswers(const Context& ctx, Engine& local) {
  Result<QueryOutcome> answer = local.Query(ctx, "SELECT 1", {.idle_timeout_ms = kAnswerMs});
  if (answer.ok()) return {};
  if (!ctx.IsStopping() && engines_.IsAlive(scope_.slot())) engines_.Discard(ctx, scope_.slot());
  return std::move(answer).status().With("the engine does not answer");
}

Status RewriteAttempt::PrepareTables(const Context& ctx) {
  // An engine that was started anew may have the tables still, but not what it was told of them.
  const bool was_alive = engines_.IsAlive(scope_.slot());
  PF_ASSIGN(Engine* const local, engine(ctx));
  PF_TRY(CheckEngineAnswers(ctx, *local));
  PF_ASSIGN(schemas_, cache_.Get(ctx, *local, job_id_, job_));
  tables_ = kept_.Take(scope_.slot(), schemas_, wish());
  if (tables_ != nullptr && was_alive) return {};
  tables_.reset();
  PF_ASSIGN(LocalTables tables,
            LocalTables::Create(ctx, *local,
                                LocalTablesRequest{.source = source_ddl(),
                                                   .destination = destination_ddl(),
                                                   .compression_codec = settings_.compression_codec,
                                                   .ttl = settings_.ttl}));
  tables_ = std::make_unique<LocalTables>(std::move(tables));
  return {};
}

Status RewriteAttempt::CheckColumns(const Context& ctx, const AttemptSource& source) const {
  const std::string& name = source.spec.part_name;
  PF_ASSIGN(const std::vector<std::string> absent,
            CheckPartColumns(source.fetched.part, StoredColumns(source_ddl().table),
                             source_ddl().table.name.ToString()));
  // A default that the local table had to lose would read as another value here.
  for (const std::string& column : source_ddl().columns_without_default) {
    if (std::find(absent.begin(), absent.end(), column) == absent.end()) continue;
    return Status(Code::kCorruption,
                  fmt::format("the part lacks column {}, whose DEFAULT calls a function that is "
                              "unknown here",
                              column))
        .Explain(2147, name,
                 "give the column its values on the server (ALTER TABLE … MATERIALIZE COLUMN), "
                 "then freeze again");
  }
  if (!absent.empty()) {
    ctx.log.Warn("columns of the table are not in the part and read as defaults",
                 {{"part", name}, {"first", absent.front()}, {"count", absent.size()}});
  }
  return {};
}

Status RewriteAttempt::Attach(const Context& ctx) {
  for (AttemptSource& source : sources_) {
    if (!source.damage.ok()) continue;
    if (Status fits = CheckColumns(ctx, source); !fits.ok())
      PF_TRY(NoteDamage(source, std::move(fits)));
  }
  PF_TRY(CheckSomeAreLeft());
  if (is_gathered()) {
    std::vector<SourceDirectory> directories;
    for (const AttemptSource* source : Rewritten()) {
      directories.push_back({.directory = FolderOf(*source), .part_name = source->spec.part_name});
    }
    PF_TRY(tables_->AttachSources(ctx, directories));
  } else {
    PF_TRY(tables_->AttachSource(ctx, FolderOf(lead()), lead().spec.part_name));
  }
  PF_ASSIGN(attached_, tables_->SourcePartsAlone(ctx));
  const PartitionStats total = Total(attached_);
  const int64_t parts_wanted =
      Sum([](const AttemptSource& source) { return source.fetched.part.rows > 0 ? 1 : 0; });
  const int64_t rows_wanted =
      Sum([](const AttemptSource& source) { return source.fetched.part.rows; });
  if (total.parts != parts_wanted || total.rows != rows_wanted) {
    return Status(Code::kCorruption,
                  fmt::format("{} active parts of {} rows expected in the source table, {} of {} "
                              "found",
                              parts_wanted, rows_wanted, total.parts, total.rows))
        .Explain(2146, What(), "check the part on the server: CHECK TABLE there");
  }
  ShowParts(ctx, "source", attached_);
  visible_rows_ = total.rows;
  const bool has_deletes = Sum([](const AttemptSource& source) {
                             return source.fetched.part.has_lightweight_delete ? 1 : 0;
                           }) > 0;
  if (has_deletes) {
    PF_ASSIGN(visible_rows_, tables_->CountRows(ctx, tables_->source(), ""));
  }
  PF_FAULT(ctx, "clickhouse.source_attached");

  TierQuestion question{.block = {.memory_cap_bytes = settings_.memory_cap_bytes,
                                  .slots = settings_.slots,
                                  .rows = total.rows,
                                  .data_uncompressed_bytes = Sum([](const AttemptSource& source) {
                                    return source.fetched.part.data_uncompressed_bytes;
                                  }),
                                  .factor = kOneBlockFactor},
                        .source_parts = static_cast<int64_t>(Rewritten().size()),
                        .tuning = tuning_,
                        .forced = settings_.tier,
                        .is_chunk_safe = job_.is_chunk_safe,
                        .chunk_rows_min = settings_.chunk_rows_min,
                        .is_chunk_rows_explicit = settings_.is_chunk_rows_explicit};
  plan_ = PlanInsert(question);
  ctx.log.Info("part attached", {{"job", job_id_},
                                 {"part", lead().task.id},
                                 {"parts", question.source_parts},
                                 {"rows", total.rows},
                                 {"tier", TierName(plan_.state.tier)},
                                 {"chunks", plan_.ranges.size()},
                                 {"reason", plan_.reason}});
  return {};
}

Status RewriteAttempt::Insert(const Context& ctx) {
  ChunkInsertRequest request{
      .query_id_prefix =
          fmt::format("partforge-{}-{}-e{}", job_id_, lead().task.id, lead().task.epoch),
      .insert_select = job_.insert_select,
      .current_database = job_.source_database,
      .plan = plan_,
      .may_split = job_.is_chunk_safe && settings_.chunk_rows_min > 0 && !is_gathered(),
      .tuning = tuning_,
      .slot = scope_.slot(),
      .engine_path = wish(),
      .metric_labels = TableLabels(),
      .source_parts = attached_,
      .report = [this](const Context& inner, double fraction, int64_t read_rows,
                       int64_t written_rows) {
        return Report(inner, fraction, read_rows, written_rows);
      }};
  ChunkInserter inserter(engines_, *tables_, std::move(request));
  const int64_t started_ms = MonotonicMs();
  Result<InsertOutcome> outcome = inserter.Run(ctx);
  MetricLabels labels = TableLabels();
  labels["result"] = outcome.ok() ? "completed" : "failed";
  labels["retried"] =
      outcome.ok() && outcome->attempts() > static_cast<int64_t>(outcome->chunks.size()) ? "true"
                                                                                         : "false";
  ctx.metrics.Observe("partforge_insert_duration_seconds", labels,
                      Seconds(MonotonicMs() - started_ms));
  if (!outcome.ok()) return std::move(outcome).status();
  inserted_ = std::move(outcome).value();
  if (inserted_.wasted_ms > 0)
    ctx.metrics.Add("partforge_insert_wasted_seconds_total", labels, Seconds(inserted_.wasted_ms));
  are_tables_plain_ = inserted_.parts && inserted_.engine_restarts == 0;
  if (inserted_.parts) {
    produced_parts_ = *inserted_.parts;
  } else {
    PF_ASSIGN(produced_parts_, tables_->ListParts(ctx, tables_->destination()));
  }
  after_insert_ = PartitionsOf(produced_parts_);
  ShowParts(ctx, "destination", after_insert_);
  return {};
}

Status RewriteAttempt::Merge(const Context& ctx) {
  produced_ = after_insert_;
  const PartitionStats total = Total(after_insert_);
  const bool is_merged = total.parts <= static_cast<int64_t>(after_insert_.size());
  const bool applies_ttl = settings_.ttl == TtlPolicy::kApply;
  // One block leaves one part a partition, unless the SELECT makes more rows than the part has;
  // other tiers and chunks leave more. TTL is applied by merges only.
  if (produced_.empty() || (is_merged && !applies_ttl)) return {};
  are_tables_plain_ = false;
  PF_ASSIGN(Engine* const local, engine(ctx));
  PF_TRY(WaitForMerges(
      ctx, *local, *tables_,
      MergeWaitRequest{.tuning = tuning_,
                       .runtime_ms_max = settings_.merge_runtime_ms_max > 0
                                             ? settings_.merge_runtime_ms_max
                                             : kMergeRuntimeMs,
                       .merges_whole_partitions = inserted_.state.tier != InsertTier::kSeed,
                       .applies_ttl = applies_ttl}));
  PF_FAULT(ctx, "clickhouse.parts_merged");
  PF_TRY(local->Query(
      ctx,
      fmt::format("SYSTEM STOP MERGES {}",
                  QuoteTable(tables_->destination().database, tables_->destination().table)),
      {}));
  PF_ASSIGN(produced_parts_, tables_->ListParts(ctx, tables_->destination()));
  produced_ = PartitionsOf(produced_parts_);
  ShowParts(ctx, "destination", produced_);
  return {};
}

Status RewriteAttempt::Verify(const Context& ctx) {
  // Merges have been stopped since the tables were made, and are again after a merge: what was
  // listed then is what is frozen, which Freeze compares.
  if (settings_.ttl == TtlPolicy::kApply) {
    rows_expired_ = Total(after_insert_).rows - Total(produced_).rows;
    if (rows_expired_ > 0) {
      ctx.log.Info("expired rows left out",
                   {{"job", job_id_}, {"part", lead().task.id}, {"rows", rows_expired_}});
    }
  }
  if (settings_.verify == VerifyMode::kNone) return {};
  PF_TRY(CheckConservation(RowCounts{.written = inserted_.written_rows(),
                                     .before_merge = Total(after_insert_).rows,
                                     .produced = Total(produced_).rows,
                                     .engine = destination_ddl().table.engine,
                                     .is_ttl_applied = settings_.ttl == TtlPolicy::kApply},
                           What()));
  std::vector<RowRange> ranges;  // as inserted: the ladder may have split the planned ones
  for (const ChunkOutcome& chunk : inserted_.chunks) ranges.push_back(chunk.range);
  if (ranges.size() > 1) PF_TRY(CheckRanges(ctx, *tables_, ranges, visible_rows_));
  if (settings_.verify != VerifyMode::kContent) return {};
  PF_ASSIGN(Engine* const local, engine(ctx));
  if (!produced_.empty()) PF_TRY(CheckTable(ctx, *local, tables_->destination()));
  if (IsCollapsingEngine(destination_ddl().table.engine) || settings_.ttl == TtlPolicy::kApply)
    return {};
  PF_ASSIGN(const InsertTarget target, ParseInsertSelect(job_.insert_select));
  const Result<ContentAnswer> answer =
      CheckContent(ctx, *local, *tables_,
                   ContentQuestion{.select = target.select,
                                   .current_database = job_.source_database,
                                   .insert_columns = target.columns,
                                   .memory_bytes_max = tuning_.max_memory_usage_bytes});
  return answer.ok() ? Status() : answer.status();
}

Result<std::vector<PartDirectory>> RewriteAttempt::Freeze(const Context& ctx) {
  PF_ASSIGN(Engine* const local, engine(ctx));
  const std::string stamp = FormatTime(ctx.clock.NowMs());
  const std::string name =
      fmt::format("partforge_{}_{}_{}_{}", FreezeWord(job_id_), FreezeWord(lead().task.id),
                  lead().task.epoch, FreezeWord(stamp));
  const std::optional<std::filesystem::path> data_path = local->data_path();
  if (!data_path)
    return Status(Code::kInternal, "the slot's engine has no data folder on this machine");
  frozen_path_ = *data_path / "shadow" / name;
  const TableName& table = tables_->destination();
  PF_TRY(local->Query(ctx,
                      fmt::format("ALTER TABLE {} FREEZE WITH NAME {}",
                                  QuoteTable(table.database, table.table), QuoteString(name)),
                      {}));
  PF_ASSIGN(std::vector<PartDirectory> parts, FrozenParts(ctx, frozen_path_, produced_parts_));
  if (static_cast<int64_t>(parts.size()) != Total(produced_).parts) {
    return Status(Code::kCorruption,
                  fmt::format("{} parts measured, {} frozen", Total(produced_).parts, parts.size()))
        .Explain(2137, What(), "nothing was published; run the part again");
  }
  PF_FAULT(ctx, "clickhouse.output_frozen");
  return parts;
}

Status RewriteAttempt::Upload(const Context& ctx, const std::vector<PartDirectory>& parts) {
  PF_TRY(scope_.CheckLease());
  PF_ASSIGN(const std::shared_ptr<void> permit, scope_.Enter(ctx, partforge::Stage::kNetwork));
  meta_.kind = ArtifactKind::kRewrite;
  meta_.job_id = job_id_;
  meta_.part_id = OutputId();
  meta_.epoch = lead().task.epoch;
  meta_.engine = schemas_->engine_version;
  PF_ASSIGN(const SchemaShape shape, ParseShape(job_.fingerprint));
  meta_.schema_fingerprint = "sha256:" + Sha256Hex(FormatShape(shape));
  meta_.codec = settings_.compression_codec;
  meta_.source_rows = Sum([](const AttemptSource& source) { return source.fetched.part.rows; });
  meta_.source_rows_visible = visible_rows_;
  meta_.source_bytes =
      Sum([](const AttemptSource& source) { return source.fetched.part.size_bytes; });
  if (is_gathered()) {
    meta_.epoch = kOutputEpoch;
    meta_.generation = 1;
    for (const AttemptSource* source : Rewritten()) {
      meta_.inputs.push_back(ArtifactInput{.part_id = source->task.id,
                                           .epoch = source->task.epoch,
                                           .meta_sha256 = source->fetched.manifest_sha256});
    }
  } else {
    meta_.source_manifest_sha256 = lead().fetched.manifest_sha256;
  }
  for (const ChunkOutcome& chunk : inserted_.chunks) {
    meta_.chunks.push_back(ArtifactChunk{.begin = chunk.range.begin,
                                         .end = chunk.range.end,
                                         .attempts = chunk.attempts,
                                         .selected = chunk.written_rows,
                                         .written = chunk.written_rows});
  }
  meta_.selected = inserted_.written_rows();
  meta_.written = inserted_.written_rows();
  if (!parts.empty()) {
    PF_ASSIGN(meta_.parts,
              PackParts(ctx, store_, finished_prefix_, parts, settings_.files_in_parallel));
  }
  int64_t rows = 0;
  for (const ArtifactPart& part : meta_.parts) rows += part.rows;
  if (settings_.verify != VerifyMode::kNone && rows != Total(produced_).rows) {
    return Status(Code::kCorruption, fmt::format("{} rows in the table, {} in the uploaded parts",
                                                 Total(produced_).rows, rows))
        .Explain(2137, What(), "nothing was published; run the part again");
  }
  PF_TRY(scope_.CheckLease());
  PF_ASSIGN(const JobKeys keys, JobKeys::Make(job_.prefix, job_id_));
  PF_ASSIGN(const std::string meta_key, keys.MetaKey(lead().task.id, lead().task.epoch));
  PF_ASSIGN(meta_reference_, UploadMeta(ctx, store_, meta_key, meta_));
  return scope_.CheckLease();
}

Status RewriteAttempt::Report(const Context& ctx, double fraction, int64_t read_rows,
                              int64_t written_rows) {
  const MetricLabels labels{{"job_id", job_id_}, {"part_id", first_id_}};
  const int64_t total_rows = Total(attached_).rows;
  ctx.metrics.Set("partforge_current_read_rows", labels, static_cast<double>(read_rows));
  ctx.metrics.Set("partforge_current_written_rows", labels, static_cast<double>(written_rows));
  ctx.metrics.Set("partforge_current_total_rows_approx", labels, static_cast<double>(total_rows));
  stages_.Tick(ctx);
  return scope_.Report(
      ctx,
      Progress{.stage = stages_.stage(),
               .fraction = fraction,
               .rows = read_rows,
               .bytes = 0,
               .blocks = 0,
               .detail = fmt::format("{{\"read_rows\":{},\"written_rows\":{},\"total_rows_approx\":"
                                     "{},\"insert_progress_percent\":{:.1f},{}}}",
                                     read_rows, written_rows, total_rows, fraction * 100,
                                     stages_.ProgressFields())});
}

MetricLabels RewriteAttempt::TableLabels() const {
  return {{"job_id", job_id_},
          {"source_table", job_.source_database + "." + job_.source_table},
          {"destination_table", job_.destination_database + "." + job_.destination_table}};
}

void RewriteAttempt::ShowParts(const Context& ctx, const std::string& role,
                               const PartitionMap& parts) const {
  const PartitionStats total = Total(parts);
  const MetricLabels labels{{"role", role}, {"job_id", job_id_}, {"part_id", first_id_}};
  ctx.metrics.Set("partforge_active_part_count", labels, static_cast<double>(total.parts));
  ctx.metrics.Set("partforge_active_part_rows", labels, static_cast<double>(total.rows));
  ctx.metrics.Set("partforge_active_part_bytes", labels, static_cast<double>(total.bytes));
}

Result<TaskResult> RewriteAttempt::MakeResult() const {
  RewriteOutput output;
  output.finished_key = meta_.parts.empty() ? std::string() : finished_prefix_;
  output.meta_key = meta_reference_.key;
  output.meta_sha256 = meta_reference_.sha256;
  output.is_empty = meta_.parts.empty();
  output.tier = TierName(inserted_.state.tier);
  output.tier_reason = plan_.reason + inserted_.falls;
  output.source_rows = meta_.source_rows;
  output.source_parts = static_cast<int64_t>(Rewritten().size());
  output.bytes_decoded =
      Sum([](const AttemptSource& source) { return source.fetched.part.data_uncompressed_bytes; });
  output.source_rows_visible = visible_rows_;
  output.rows_selected = inserted_.written_rows();
  output.rows_written = inserted_.written_rows();
  output.rows_expired = rows_expired_;
  output.chunks = static_cast<int64_t>(inserted_.chunks.size());
  output.insert_attempts = inserted_.attempts();
  output.peak_memory_bytes = peak_memory_bytes_;
  output.stage_ms = stages_.durations_ms();
  TaskResult result;
  for (const ArtifactPart& part : meta_.parts) {
    ++output.partition_parts[part.partition_id];
    output.rows_out += part.rows;
    output.bytes_out += part.bytes_on_disk;
  }
  for (const auto& [id, parts] : output.partition_parts)
    result.parts_peak = std::max(result.parts_peak, parts);
  result.rows_in = visible_rows_;
  result.rows_out = output.rows_out;
  result.bytes_in = Sum([](const AttemptSource& source) { return source.spec.size_bytes; });
  result.bytes_out = output.bytes_out;
  result.digest = meta_reference_.sha256;
  result.parts_out = static_cast<int64_t>(meta_.parts.size());
  result.partitions_out = static_cast<int64_t>(output.partition_parts.size());
  result.group_key = Sha256Hex(fmt::format("{}\n{}\n{}\n{}", job_.bucket, job_.destination_database,
                                           job_.destination_table, meta_.schema_fingerprint))
                         .substr(0, 16);
  if (result.parts_out == 1) result.partition_id = meta_.parts.front().partition_id;
  result.outputs = output.ToJson();
  return result;
}

Task RewriteAttempt::OutputTask(const TaskResult& result) const {
  RewriteTaskSpec spec;
  spec.part_name = OutputId();
  spec.finished_key = finished_prefix_;
  spec.source_key = finished_prefix_;
  spec.rows = Sum([](const AttemptSource& source) { return source.spec.rows; });
  spec.size_bytes = result.bytes_in;
  spec.files = Sum([](const AttemptSource& source) { return source.spec.files; });
  spec.uncompressed_bytes =
      Sum([](const AttemptSource& source) { return source.spec.uncompressed_bytes; });
  Task task;
  task.id = OutputId();
  task.job = job_id_;
  task.kind = kRewriteKind;
  task.state = TaskState::kFinished;
  task.size_bytes = Sum([](const AttemptSource& source) { return source.task.size_bytes; });
  task.generation = 1;
  // The same parts may become the same output again, after retry-failed: each of their epochs has
  // grown by then, so this one is new, too.
  for (const AttemptSource* source : Rewritten())
    task.epoch = std::max(task.epoch, source->task.epoch);
  task.payload = spec.ToJson();
  return task;
}

void RewriteAttempt::CleanUp(const Context& ctx) {
  stages_.Close(ctx);
  const MetricLabels labels{{"job_id", job_id_}, {"part_id", first_id_}};
  for (const char* const gauge :
       {"partforge_current_read_rows", "partforge_current_written_rows",
        "partforge_current_total_rows_approx", "partforge_active_part_count",
        "partforge_active_part_rows", "partforge_active_part_bytes"})
    ctx.metrics.RemoveMatching(gauge, labels);
  if (!frozen_path_.empty()) {
    Ignore(ctx, RemoveTree(frozen_path_), "scratch of a folder that is removed with the worker");
  }
  Ignore(ctx, RemoveTree(scope_.scratch() / "source"),
         "scratch of a folder that is removed with the worker");
}

void RewriteAttempt::ReleaseTables(const Context& ctx, AfterUse after) {
  const std::unique_ptr<LocalTables> tables = std::move(tables_);
  if (tables == nullptr || !engines_.IsAlive(scope_.slot())) return;
  if (after == AfterUse::kKeep && !ctx.IsStopping()) {
    const Status cleared = tables->Clear(ctx);
    if (cleared.ok()) {
      kept_.Keep(scope_.slot(), schemas_, wish(),
                 std::make_unique<LocalTables>(std::move(*tables)));
      return;
    }
    Ignore(ctx, cleared, "tables that cannot be emptied are dropped");
  }
  const Status dropped = tables->Drop(ctx);
  if (dropped.ok()) return;
  // A statement that cannot be killed holds its table, or the engine says nothing at all: the
  // lease must not be kept for it (§9.9).
  ctx.log.Warn("tables are not dropped, the engine is killed",
               {{"part", first_id_}, {"error", dropped.ToString()}});
  Context unstopped = ctx;
  unstopped.stop = {};
  engines_.Discard(unstopped, scope_.slot());
}

}  // namespace partforge::clickhouse
