#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "clickhouse/artifact.h"
#include "clickhouse/import_job.h"
#include "clickhouse/part_gatherer.h"
#include "clickhouse/rewrite_executor.h"
#include "clickhouse/rewrite_rig.h"
#include "clickhouse/upload_freeze.h"
#include "clickhouse/verify_job.h"
#include "job/sql_job_store.h"
#include "store/local_store.h"

// Whole jobs for the engine tests of this room; not part of the product.
namespace partforge::clickhouse {

// Tells the time of another clock, but sleeps only a moment where `cut_ms_max` or less is asked
// for.
class HastyClock final : public Clock {
 public:
  HastyClock(Clock& clock, int64_t cut_ms_max) : clock_(clock), cut_ms_max_(cut_ms_max) {}
  int64_t NowMs() override { return clock_.NowMs(); }
  void SleepMs(int64_t ms, std::stop_token stop) override {
    clock_.SleepMs(ms > cut_ms_max_ ? ms : std::min<int64_t>(ms, 20), stop);
  }

 private:
  Clock& clock_;
  const int64_t cut_ms_max_;
};

// A server that holds source and destination (an engine child of its own), a slot's engine, a job
// store in SQLite and objects in a folder: everything from FREEZE to import, in this process.
class JobRig {
 public:
  // Settings of every query of the slot's engine, e.g. a hostile profile.
  explicit JobRig(std::map<std::string, std::string> slot_settings = {});
  ~JobRig();

  const Context& ctx() const { return *ctx_; }
  Engine& server() { return *server_; }
  ChildEngine& server_child() { return *server_; }
  TestSlots& slots() { return slots_; }
  FaultHooks& faults() { return faults_; }
  testing::TestWorld& world() { return world_; }
  SqlJobStore& state() { return *state_; }
  LocalStore& store() { return *store_; }
  const testing::TempDir& dir() const { return dir_; }
  // Whether Work takes small parts together, and by what rules.
  std::optional<GatherRules> gathering = {};
  // Moves the clock of the job store: leases run out, back-offs end.
  void ShiftStoreClockMs(int64_t ms) { *clock_offset_ms_ += ms; }

  // On the server: statements that must work, and a question.
  void Run(const std::vector<std::string>& statements) { MustRun(ctx(), server(), statements); }
  std::string Ask(std::string_view sql) { return clickhouse::Ask(ctx(), server(), sql); }

  UploadFreezeRequest UploadRequest(const std::string& destination_schema,
                                    const std::string& insert_select) const;
  // FREEZE of the source and upload; the job's id is "job-1".
  Result<UploadSummary> Upload(const UploadFreezeRequest& request);
  // Works until no task can be claimed. Pauses of the executor are cut short.
  void Work(const RewriteSettings& settings);
  // Both must succeed; after the import the destination holds what `oracle` gives (see RunJob).
  void MustUpload(const std::string& destination_schema, const std::string& insert_select);
  void ExpectImported(const std::string& oracle);
  // FREEZE, upload, work, import; each must succeed. Afterwards the destination holds what
  // `oracle` (a SELECT over the source, in the destination's order of columns) gives.
  void RunJob(const std::string& destination_schema, const std::string& insert_select,
              const RewriteSettings& settings, const std::string& oracle);
  RewriteSettings Settings() const;
  ImportRequest MakeImport() const;
  Result<ImportSummary> Import() { return RunImport(ctx(), state(), server(), MakeImport()); }

  VerifyRequest MakeVerify(VerifyDepth depth);
  std::vector<VerifiedPart> Verify(VerifyDepth depth,
                                   std::function<void(const VerifiedPart&)> on_part = {});
  std::vector<Task> Tasks(TaskState wanted);
  int64_t Count(TaskState wanted) { return static_cast<int64_t>(Tasks(wanted).size()); }
  RewriteOutput OutputOf(const Task& task);
  ArtifactMeta MetaOf(const Task& task);
  std::string ErrorOf(const Task& task);
  // "<count>\t<hash>" of all rows of a table, or of a SELECT in brackets, on the server.
  std::string Sum(const std::string& from);

  TableName source{"shop", "orders"};
  TableName destination{"shop2", "orders_v2"};
  std::string job_id = "job-1";

 private:
  SystemClock system_clock_;
  // Looks and polls are close together; between two renewals of a lease is as much time as ever.
  HastyClock clock_{system_clock_, 2'000};
  testing::TestWorld world_;
  FaultHooks faults_;
  testing::TempDir dir_;
  TestSlots slots_;
  std::unique_ptr<Context> ctx_;
  std::shared_ptr<std::atomic<int64_t>> clock_offset_ms_;
  std::unique_ptr<ChildEngine> server_;
  std::unique_ptr<SqlJobStore> state_;
  std::unique_ptr<LocalStore> store_;
  int64_t works_ = 0;
};

}  // namespace partforge::clickhouse
