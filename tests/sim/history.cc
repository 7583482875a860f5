#include "history.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "baton.h"
#include "fake_target.h"
#include "job/backoff.h"
#include "job/publisher.h"
#include "job/worker.h"
#include "laws.h"
#include "sim_store.h"
#include "testing/copy_kind.h"
#include "testing/hooked_job_store.h"
#include "testing/memory_job_store.h"
#include "testing/test_world.h"
#include "token_committer.h"

namespace partforge::sim {
namespace {

constexpr int64_t kLeaseMs = 60'000;
constexpr int64_t kPollMs = 5'000;
constexpr const char* kLakeJob = "job-lake";
constexpr const char* kPartsJob = "job-parts";

// Where histories go wrong more often than elsewhere, one row a history. The rows with two steps
// are about a zombie at the first while somebody else is at the second.
using HotSteps = std::vector<std::string>;
const std::vector<HotSteps>& HotRows() {
  static const std::vector<HotSteps> kRows = {
      {},
      {"engine.attach"},
      {"engine.attach", "sim.retract_bound"},
      {"disk.rename"},
      {"disk.rename", "sim.retract_bound"},
      {"disk.make"},
      {"disk.make", "sim.attach_sent"},
      {"disk.find"},
      {"ledger.advance"},
      {"ledger.mark"},
      {"ledger.hold"},
      {"ledger.intend"},
      {"ledger.decide"},
      {"store.put_if_absent"},
      {"store.put_if_absent", "copy.swapped"},
      {"job.settle"},
      {"job.settle", "job.claim"},
      {"sim."},
  };
  return kRows;
}

const HotSteps& HotStepsOf(const HistoryOptions& options) {
  return HotRows().at(options.seed % HotRows().size());
}

bool IsAboutRetracts(const HistoryOptions& options) {
  const HotSteps& hot = HotStepsOf(options);
  return std::find(hot.begin(), hot.end(), "sim.retract_bound") != hot.end();
}

BatonOptions BatonOptionsOf(const HistoryOptions& options) {
  BatonOptions baton;
  baton.seed = options.seed;
  baton.faulty_steps = options.faulty_steps;
  baton.is_traced = options.is_traced;
  baton.hot_steps = HotStepsOf(options);
  if (baton.hot_steps.size() > 1) {
    // A meeting of two needs quiet elsewhere.
    baton.hot_one_in = 3;
    baton.crash_one_in = baton.fail_one_in = baton.lose_one_in = baton.stall_one_in = 200;
    baton.stall_ms_max = 100'000;  // a zombie comes back soon after it lost its fence
  }
  // Where this mistake shows: a publisher that stalls while it stages, another that dies before it
  // confirms.
  if (options.mistake == Mistake::kSharedNames) {
    baton.hot_steps = {"disk.make", "ledger.mark", "sim.attach_sent"};
  }
  return baton;
}

TokenCommitter::Variant VariantOf(Mistake mistake) {
  if (mistake == Mistake::kSharedNames) return TokenCommitter::Variant::kSharedNames;
  if (mistake == Mistake::kCopies) return TokenCommitter::Variant::kCopies;
  return TokenCommitter::Variant::kRight;
}

class World {
 public:
  explicit World(const HistoryOptions& options);
  HistoryOutcome Run();

 private:
  Context MakeContext();
  void SetUp();
  void LiveAsWorker(int index);
  void LiveAsImporter(int index);
  bool IsFinished();
  std::string CheckEnd();

  const HistoryOptions options_;
  Baton baton_;
  BatonClock clock_{baton_};
  BatonFaults faults_{baton_};
  testing::SeededRandom random_;
  Log log_;
  Metrics metrics_;
  MemoryBudget memory_{int64_t{1} << 30};
  testing::MemoryJobStore jobs_{clock_};
  SimStore store_{baton_};
  FakeTarget target_{baton_};
  testing::HookedJobStore shared_jobs_{
      jobs_,
      [this](std::string_view call) -> Status {
        baton_.Yield(call);
        if (!baton_.DrawFailure(call)) return {};
        return Status(Code::kUnavailable, "simulated failure of the job store");
      },
      [this](std::string_view call) -> Status {
        if (!baton_.DrawLostReply(call)) return {};
        return Status(Code::kUnknownOutcome, "simulated loss of a reply");
      }};
  testing::CopyPlanner planner_{store_};
  testing::CopyExecutor executor_{store_};
  testing::CopyBatchExecutor batch_executor_{store_};
  const testing::CopyGatherer gatherer_{3};
  testing::CopyCommitter lake_committer_;
  TokenCommitter token_committer_;
  Laws laws_{jobs_, target_, store_, "lake"};
  KindTable worker_kinds_, importer_kinds_;
  int64_t lives_ = 0;
  std::set<std::string> source_parts_, source_lake_;
};

World::World(const HistoryOptions& options)
    : options_(options),
      baton_(BatonOptionsOf(options)),
      random_(options.seed),
      log_(clock_,
           Log::Options{.level = options.is_traced ? LogLevel::kDebug : LogLevel::kOff,
                        .format = LogFormat::kText,
                        .common = {}},
           [this](std::string_view line) {
             baton_.Trace(fmt::format("  log: {}", line.substr(25, line.size() - 26)));
           }),
      lake_committer_(store_, options.mistake == Mistake::kBlindApply
                                  ? testing::CopyCommitter::Identity::kBlind
                                  : testing::CopyCommitter::Identity::kKept),
      token_committer_(target_, store_, VariantOf(options.mistake)) {
  JobKind lake;
  lake.name = "testing.copy";
  lake.planner = &planner_;
  lake.executor = &executor_;
  lake.committer = &lake_committer_;
  // Half of the histories: tasks that are taken together, and superseded by one output.
  // Not with a mistake, which shows where many commits meet.
  if (options.seed % 2 == 0 && options.mistake == Mistake::kNone) lake.gatherer = &gatherer_;
  JobKind parts = lake;
  parts.name = "sim.parts";
  parts.batch_executor = &batch_executor_;
  parts.grouping = CommitGrouping::kTask;
  parts.committer = nullptr;  // a worker cannot reach the table's files
  PF_CHECK(worker_kinds_.Add(lake).ok() && worker_kinds_.Add(parts).ok(), "kinds");
  parts.executor = parts.batch_executor = nullptr;
  parts.committer = &token_committer_;
  PF_CHECK(importer_kinds_.Add(parts).ok(), "kinds");
}

Context World::MakeContext() {
  return Context{clock_, random_, faults_, log_, metrics_, memory_, std::stop_token()};
}

// Makes the jobs before anything can go wrong.
void World::SetUp() {
  const auto fill = [&](const std::string& key, std::set<std::string>& rows, uint64_t lines_max) {
    const uint64_t lines = 2 + baton_.Below(lines_max);
    // 0: a row that the table refuses, 1: one that it refuses now and then
    const uint64_t odd = IsAboutRetracts(options_) ? 1 : baton_.Below(3);
    std::string text;
    for (uint64_t i = 0; i < lines; ++i) {
      const std::string_view suffix = i != 1     ? ""
                                      : odd == 0 ? " refused"
                                      : odd == 1 ? " flaky"
                                                 : "";
      const std::string row = fmt::format("{} {}{}", key, i, suffix);
      rows.insert(row);
      text += row + "\n";
    }
    store_.objects()[key] = text;
    return static_cast<int64_t>(lines);
  };
  const int64_t lake_lines = fill("lines-lake", source_lake_, 4);
  const int64_t parts_lines = fill("lines-parts", source_parts_, IsAboutRetracts(options_) ? 1 : 6);
  const auto make = [&](const JobId& id, const std::string& kind, const std::string& target,
                        int64_t lines, int64_t lines_per_task,
                        testing::CopyRequest::Compaction compaction) {
    Plan plan;
    plan.job = testing::MakeCopyJob(id, kind,
                                    {.source = "lines-" + target,
                                     .target = target,
                                     .lines_per_task = lines_per_task,
                                     .compaction = compaction});
    if (kind == "sim.parts") plan.job.publish = PublishMode::kCommand;
    int64_t number = 0;
    for (int64_t from = 0; from < lines; from += lines_per_task) {
      Task task;
      task.id = fmt::format("{}-{}", target, from);
      task.kind = kind;
      task.number = number++;
      task.size_bytes = lines_per_task;
      task.payload = fmt::format(
          R"({{"source":"lines-{}","target":"{}","from":{},"to":{},"is_compacted":{}}})", target,
          target, from, std::min(lines, from + lines_per_task),
          compaction == testing::CopyRequest::Compaction::kYes);
      plan.tasks.push_back(std::move(task));
    }
    const Context ctx = MakeContext();
    PF_CHECK(jobs_.CreateJob(ctx, plan).ok(), "create job");
    PF_CHECK(jobs_.Seal(ctx, id, number).ok(), "seal job");
  };
  using Compaction = testing::CopyRequest::Compaction;
  make(kLakeJob, "testing.copy", "lake", lake_lines, 1 + static_cast<int64_t>(baton_.Below(2)),
       Compaction::kNo);
  make(kPartsJob, "sim.parts", "parts", parts_lines,
       IsAboutRetracts(options_) ? 1 + static_cast<int64_t>(baton_.Below(2)) : 2,
       !IsAboutRetracts(options_) && baton_.OneIn(2) ? Compaction::kYes : Compaction::kNo);
}

void World::LiveAsWorker(int index) {
  WorkerOptions options;
  options.name = fmt::format("w{}.{}", index, ++lives_);
  options.lease_ms = kLeaseMs;
  options.renewal = Renewal::kByCaller;
  options.crashes_max = INT64_MAX;
  options.batch_tasks_max = 3;
  const Context ctx = MakeContext();
  auto worker = Worker::Open(ctx, shared_jobs_, worker_kinds_, options);
  PF_CHECK(worker.ok(), "open worker");
  int64_t failures = 0;
  while (true) {
    const auto stepped = (*worker)->Step(ctx);
    if (stepped.ok() && *stepped == Stepped::kWorked) {
      failures = 0;
      continue;
    }
    clock_.SleepMs(stepped.ok() ? kPollMs : BackoffMs(random_, ++failures), {});
  }
}

void World::LiveAsImporter(int index) {
  PublisherOptions options;
  options.name = fmt::format("i{}.{}", index, ++lives_);
  options.lease_ms = kLeaseMs;
  options.proposes = {PublishMode::kCommand};
  options.renewal = Renewal::kByCaller;
  Publisher publisher(shared_jobs_, importer_kinds_, options);
  const Context ctx = MakeContext();
  int64_t failures = 0;
  while (true) {
    const auto stepped = publisher.Step(ctx, kPartsJob);
    if (stepped.ok() && *stepped == Stepped::kWorked) {
      failures = 0;
      continue;
    }
    clock_.SleepMs(stepped.ok() ? kPollMs : BackoffMs(random_, ++failures), {});
  }
}

bool World::IsFinished() {
  bool is_finished = !target_.IsBusy();
  jobs_.ForEachTask([&](const Task& task) {
    is_finished =
        is_finished && (task.state == TaskState::kImported ||
                        task.state == TaskState::kSuperseded || task.state == TaskState::kFailed);
  });
  jobs_.ForEachCommit(
      [&](const Commit& commit) { is_finished = is_finished && commit.is_cleaned; });
  return is_finished;
}

// The table and the lake hold the source's rows, each once, but for the rows of tasks that were
// refused.
std::string World::CheckEnd() {
  std::string broken;
  std::set<std::string> failed;
  jobs_.ForEachTask([&](const Task& task) {
    if (task.state != TaskState::kFailed) return;
    if (task.job == kLakeJob) broken = fmt::format("task {} FAILED: {}", task.id, task.payload);
    failed.insert(task.id);
  });
  if (!broken.empty()) return broken;
  std::set<std::string> in_table;
  for (const auto& [row, times] : target_.visible_rows()) in_table.insert(row);
  const bool is_any_odd = std::any_of(
      source_parts_.begin(), source_parts_.end(),
      [](const std::string& row) { return row.ends_with("refused") || row.ends_with("flaky"); });
  if (!is_any_odd && !failed.empty())
    return fmt::format("task {} FAILED without a reason", *failed.begin());
  if (failed.empty() && in_table != source_parts_) return "the table differs from the source";
  if (!std::includes(source_parts_.begin(), source_parts_.end(), in_table.begin(),
                     in_table.end())) {
    return "the table has rows that the source does not have";
  }
  for (const auto& [name, inode] : target_.detached()) {
    // A publisher that was fenced between announcing and making a directory leaves one under a name
    // of its own serial.
    if (!name.starts_with("pftmp_")) return fmt::format("a directory is left behind: {}", name);
  }
  return "";
}

HistoryOutcome World::Run() {
  SetUp();
  baton_.SetCheck([this] { return laws_.Check(); });
  baton_.SetFinished([this] { return IsFinished(); });
  for (int i = 0; i < 2; ++i) {
    baton_.AddActor(fmt::format("w{}", i), [this, i] { LiveAsWorker(i); });
  }
  for (int i = 0; i < (IsAboutRetracts(options_) ? 3 : 2); ++i) {
    baton_.AddActor(fmt::format("i{}", i), [this, i] { LiveAsImporter(i); });
  }
  baton_.AddActor("server", [this] {
    while (true) {
      clock_.SleepMs(static_cast<int64_t>(baton_.Below(2'000)), {});
      target_.WorkInBackground();
    }
  });
  HistoryOutcome outcome;
  outcome.broken = baton_.Run();
  if (outcome.broken.empty()) outcome.broken = CheckEnd();
  outcome.steps = baton_.steps();
  outcome.crashes = baton_.crashes();
  outcome.trace = baton_.trace();
  return outcome;
}

}  // namespace

HistoryOutcome RunHistory(const HistoryOptions& options) {
  World world(options);
  return world.Run();
}

}  // namespace partforge::sim
