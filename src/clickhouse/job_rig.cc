#include "clickhouse/job_rig.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "clickhouse/artifact_fetch.h"
#include "clickhouse/engine_failure.h"
#include "clickhouse/table_freeze.h"
#include "engine/sql_text.h"
#include "job/migrations.h"
#include "job/sqlite_db.h"
#include "job/worker.h"

namespace partforge::clickhouse {
namespace {

ChildEngineOptions SlotOptions(std::map<std::string, std::string> settings) {
  ChildEngineOptions options;
  options.settings = std::move(settings);
  return options;
}

class HastyExecutor final : public Executor {
 public:
  explicit HastyExecutor(Executor& executor) : executor_(executor) {}
  Result<Settlement> Execute(const Context& ctx, const Lease& lease, TaskScope& scope) override {
    HastyClock clock(ctx.clock, std::numeric_limits<int64_t>::max());
    const Context hasty{clock, ctx.random, ctx.faults, ctx.log, ctx.metrics, ctx.memory, ctx.stop};
    return executor_.Execute(hasty, lease, scope);
  }

 private:
  Executor& executor_;
};

}  // namespace

JobRig::JobRig(std::map<std::string, std::string> slot_settings)
    : slots_(SlotOptions(std::move(slot_settings))),
      clock_offset_ms_(std::make_shared<std::atomic<int64_t>>(0)) {
  world_.UseFaults(faults_);
  world_.UseClock(clock_);
  ctx_ = std::make_unique<Context>(world_.context());
  auto server = ChildEngine::Start(*ctx_, testing::EngineChildOptions(dir_ / "server"));
  PF_CHECK(server.ok(), "the server of a test does not start: see its stderr");
  server_ = std::move(server).value();
  auto db = SqliteDb::Open(
      *ctx_, SqliteOptions{.path = dir_ / "state.db", .clock_offset_ms = clock_offset_ms_});
  PF_CHECK(db.ok(), "the state store of a test does not open");
  PF_CHECK(ApplyMigrations(*ctx_, **db, "").ok(), "the state store of a test has no schema");
  state_ = std::make_unique<SqlJobStore>(std::move(db).value());
  auto store = LocalStore::Open(dir_ / "objects");
  PF_CHECK(store.ok(), "the object store of a test does not open");
  store_ = std::move(store).value();
}

JobRig::~JobRig() = default;

UploadFreezeRequest JobRig::UploadRequest(const std::string& destination_schema,
                                          const std::string& insert_select) const {
  UploadFreezeRequest request;
  request.source = source;
  request.freezes = {"f1"};
  request.destination_schema = destination_schema;
  request.insert_select = insert_select;
  request.bucket = "forge";
  request.job_id = job_id;
  request.parts_in_parallel = 2;
  return request;
}

Result<UploadSummary> JobRig::Upload(const UploadFreezeRequest& request) {
  PF_TRY(FreezeTable(ctx(), server(), request.source, request.freezes.front()));
  PF_ASSIGN(Engine* const local, slots_.Get(ctx(), 0, dir_ / "engine"));
  PF_ASSIGN(const UploadPlan plan, PlanUpload(ctx(), server(), *local, request));
  return RunUpload(ctx(), state(), store(), request, plan, {});
}

RewriteSettings JobRig::Settings() const {
  RewriteSettings settings;
  settings.limits = MachineLimits{.cpus = 2, .memory_bytes = int64_t{4} << 30};
  settings.memory_cap_bytes = int64_t{2} << 30;
  settings.compression_codec = "ZSTD(1)";
  settings.free_space_fraction_min = 0;
  return settings;
}

void JobRig::Work(const RewriteSettings& settings) {
  const auto store_of_bucket = [this](const Context&, const std::string&) {
    return Result<ObjectStore*>(store_.get());
  };
  RewriteExecutor rewriter(*state_, store_of_bucket, slots_, settings);
  HastyExecutor executor(rewriter);
  const PartGatherer gatherer(gathering.value_or(GatherRules{}));
  KindTable kinds;
  ASSERT_TRUE(kinds
                  .Add(JobKind{.name = std::string(kRewriteKind),
                               .planner = nullptr,
                               .executor = &executor,
                               .committer = nullptr,
                               .batch_executor = nullptr,
                               .grouping = CommitGrouping::kTask,
                               .gatherer = gathering ? &gatherer : nullptr,
                               .read_failure = &ReadEngineFailure})
                  .ok());
  WorkerOptions options;
  options.name = fmt::format("worker-{}", ++works_);
  options.work_dir = dir_ / "work";
  options.maintain_interval_ms = 3'600'000;
  options.progress_interval_ms = 1;
  auto worker = Worker::Open(ctx(), *state_, kinds, std::move(options));
  ASSERT_TRUE(worker.ok()) << worker.status().ToString();
  while (true) {
    const auto stepped = (*worker)->Step(ctx());
    ASSERT_TRUE(stepped.ok()) << stepped.status().ToString();
    if (ctx().IsStopping() || *stepped == Stepped::kIdle || Count(TaskState::kReady) == 0) break;
  }
  const Status closed = (*worker)->Close(ctx());
  EXPECT_TRUE(closed.ok()) << closed.ToString();
}

void JobRig::RunJob(const std::string& destination_schema, const std::string& insert_select,
                    const RewriteSettings& settings, const std::string& oracle) {
  const auto uploaded = Upload(UploadRequest(destination_schema, insert_select));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  Work(settings);
  for (const Task& task : Tasks(TaskState::kFailed)) ADD_FAILURE() << ErrorOf(task);
  for (const Task& task : Tasks(TaskState::kReady)) ADD_FAILURE() << "released: " << ErrorOf(task);
  ExpectImported(oracle);
  EXPECT_EQ(Count(TaskState::kImported), uploaded->parts);
}

void JobRig::MustUpload(const std::string& destination_schema, const std::string& insert_select) {
  const auto uploaded = Upload(UploadRequest(destination_schema, insert_select));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
}

void JobRig::ExpectImported(const std::string& oracle) {
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  ASSERT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(Sum(QuoteTable(destination.database, destination.table)), Sum("(" + oracle + ")"));
}

ImportRequest JobRig::MakeImport() const {
  ImportRequest request;
  request.job_id = job_id;
  request.table = destination;
  request.owner = "importer";
  request.wait_lock_ms = 0;
  request.store_of_bucket = [this](const Context&, const std::string&) {
    return Result<ObjectStore*>(store_.get());
  };
  return request;
}

VerifyRequest JobRig::MakeVerify(VerifyDepth depth) {
  VerifyRequest request;
  request.job_id = job_id;
  request.depth = depth;
  request.store_of_bucket = [this](const Context&, const std::string&) {
    return Result<ObjectStore*>(store_.get());
  };
  request.engines = &slots_;
  request.scratch = dir_ / "verify";
  std::filesystem::create_directories(request.scratch);
  return request;
}

std::vector<VerifiedPart> JobRig::Verify(VerifyDepth depth,
                                         std::function<void(const VerifiedPart&)> on_part) {
  VerifyRequest request = MakeVerify(depth);
  request.on_part = std::move(on_part);
  const auto verified = VerifyJob(ctx(), state(), request);
  EXPECT_TRUE(verified.ok()) << verified.status().ToString();
  return verified.ok() ? *verified : std::vector<VerifiedPart>();
}

std::vector<Task> JobRig::Tasks(TaskState wanted) {
  const auto page = state_->Page(ctx(), job_id, wanted, "", 1000);
  EXPECT_TRUE(page.ok()) << page.status().ToString();
  return page.ok() ? page->tasks : std::vector<Task>();
}

RewriteOutput JobRig::OutputOf(const Task& task) {
  const auto attempts = state_->Attempts(ctx(), task.job, task.id);
  EXPECT_TRUE(attempts.ok());
  for (const AttemptView& attempt : *attempts) {
    if (attempt.epoch != task.winner) continue;
    const auto output = RewriteOutput::FromJson(attempt.result);
    EXPECT_TRUE(output.ok()) << output.status().ToString();
    if (output.ok()) return *output;
  }
  ADD_FAILURE() << "task has no result: " << task.id;
  return {};
}

ArtifactMeta JobRig::MetaOf(const Task& task) {
  const RewriteOutput output = OutputOf(task);
  const auto meta = FetchMeta(ctx(), store(), output.meta_key, output.meta_sha256);
  EXPECT_TRUE(meta.ok()) << meta.status().ToString();
  return meta.ok() ? *meta : ArtifactMeta{};
}

std::string JobRig::ErrorOf(const Task& task) {
  const auto spec = RewriteTaskSpec::FromJson(task.payload);
  return spec.ok() ? spec->error : spec.status().ToString();
}

std::string JobRig::Sum(const std::string& from) {
  return Ask(fmt::format("SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM {}", from));
}

}  // namespace partforge::clickhouse
