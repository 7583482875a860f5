#include "testing/job_store_contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace partforge::testing {
namespace {

constexpr std::array kAllStates = {
    TaskState::kReady,      TaskState::kInProgress, TaskState::kCompactReady,
    TaskState::kCompacting, TaskState::kSuperseded, TaskState::kFinished,
    TaskState::kImporting,  TaskState::kImported,   TaskState::kFailed};

std::string Show(const StateCount& count) {
  return fmt::format("{} tasks, {} bytes, {} parts, {} rows", count.tasks, count.bytes, count.parts,
                     count.rows);
}

// The counters as they should be: a walk over all tasks in one state. `walked` gets the sums over
// all states.
StateCount CountTasks(JobStore& store, const Context& ctx, const JobId& job, TaskState state,
                      JobView& walked) {
  StateCount count{.state = state};
  std::string after;
  while (true) {
    const Result<TaskPage> page = store.Page(ctx, job, state, after, 500);
    if (!page.ok()) {
      ADD_FAILURE() << page.status().ToString();
      return count;
    }
    for (const Task& task : page->tasks) {
      EXPECT_EQ(TaskStateName(task.state), TaskStateName(state));
      EXPECT_GT(task.id, after);
      after = task.id;
      walked.updated_at_ms = std::max(walked.updated_at_ms, task.updated_at_ms);
      const int64_t started = task.started_at_ms, before = walked.work_started_at_ms;
      if (started > 0 && (before == 0 || started < before)) walked.work_started_at_ms = started;
      if (state != TaskState::kSuperseded) walked.partitions_out += task.partitions_out;
      ++count.tasks;
      count.bytes += task.size_bytes;
      if (state == TaskState::kReady || state == TaskState::kInProgress) continue;
      count.parts += task.parts_out;
      count.rows += task.rows_out;
    }
    if (!page->next.has_value()) return count;
    after = *page->next;
  }
}

}  // namespace

std::string StoreName(const ::testing::TestParamInfo<NamedStore>& info) {
  return info.param.name;
}

std::string CodeOf(const Status& status) {
  return status.ok() ? "OK" : std::string(CodeName(status.code()));
}

Settlement FinishOf(const Lease& lease, TaskState to, int64_t parts_peak) {
  const Task& task = lease.tasks.at(0);
  TaskResult result;
  result.outputs = R"({"prefix":"p"})";
  result.rows_in = 12;
  result.rows_out = 10;
  result.bytes_in = 120;
  result.bytes_out = 100;
  result.digest = "d1";
  result.group_key = "g";
  result.partition_id = parts_peak == 1 ? "202401" : "";
  result.parts_out = parts_peak;
  result.parts_peak = parts_peak;
  result.partitions_out = 1;
  TaskEdit edit;
  edit.id = task.id;
  edit.epoch = task.epoch;
  edit.to = to;
  edit.result = result;
  Settlement settlement;
  settlement.edits.push_back(edit);
  return settlement;
}

Settlement EndOf(const Lease& lease, TaskState from, TaskState to,
                 const std::string& failure_class) {
  Settlement settlement;
  for (const Task& task : lease.tasks) {
    TaskEdit edit;
    edit.id = task.id;
    edit.from = from;
    edit.epoch = task.epoch;
    edit.to = to;
    edit.failure_class = failure_class;
    if (!failure_class.empty()) edit.error = "it broke";
    settlement.edits.push_back(edit);
  }
  return settlement;
}

void JobStoreContract::SetUp() {
  under_test_ = GetParam().make(ctx_);
  if (under_test_.store == nullptr) GTEST_SKIP() << "this store cannot be had here";
  ASSERT_TRUE(under_test_.shift_clock_ms);
}

void JobStoreContract::TearDown() {
  if (under_test_.store == nullptr) return;
  const Result<std::vector<JobView>> jobs = store().ListJobs(ctx_);
  ASSERT_TRUE(jobs.ok()) << jobs.status().ToString();
  for (const JobView& view : *jobs) {
    std::map<TaskState, StateCount> kept;
    for (const StateCount& count : view.counts) kept[count.state] = count;
    JobView walked;
    for (const TaskState state : kAllStates) {
      kept[state].state = state;
      EXPECT_EQ(Show(kept[state]), Show(CountTasks(store(), ctx_, view.job.id, state, walked)))
          << "counters of " << view.job.id << " in " << TaskStateName(state);
    }
    EXPECT_EQ(view.updated_at_ms, walked.updated_at_ms) << view.job.id;
    EXPECT_EQ(view.work_started_at_ms, walked.work_started_at_ms) << view.job.id;
    EXPECT_EQ(view.partitions_out, walked.partitions_out) << view.job.id;
  }
}

JobId JobStoreContract::MakeOpenJob(const JobId& id, const std::vector<int64_t>& sizes,
                                    PublishMode publish) {
  Plan plan;
  plan.job.id = id;
  plan.job.kind = "test.copy";
  plan.job.key = "key-" + id;
  plan.job.name = id;
  plan.job.publish = publish;
  plan.job.target = "target-" + id;
  plan.job.spec = R"({"from":"a"})";
  for (size_t i = 0; i < sizes.size(); ++i) {
    Task task;
    task.id = fmt::format("t{}", i);
    task.job = id;
    task.kind = "test.copy";
    task.number = static_cast<int64_t>(i);
    task.size_bytes = sizes[i];
    task.payload = fmt::format(R"({{"line":{}}})", i);
    plan.tasks.push_back(task);
  }
  const Result<JobId> made = store().CreateJob(ctx_, plan);
  EXPECT_EQ(CodeOf(made), "OK") << (made.ok() ? "" : made.status().ToString());
  return id;
}

JobId JobStoreContract::MakeJob(const JobId& id, const std::vector<int64_t>& sizes,
                                PublishMode publish) {
  MakeOpenJob(id, sizes, publish);
  const Status sealed = store().Seal(ctx_, id, static_cast<int64_t>(sizes.size()));
  EXPECT_TRUE(sealed.ok()) << sealed.ToString();
  return id;
}

std::vector<Lease> JobStoreContract::ClaimMany(const std::string& worker, int64_t tasks_max) {
  ClaimRequest request;
  request.worker = worker;
  request.kinds = {"test.copy"};
  request.tasks_max = tasks_max;
  const Result<std::vector<Lease>> leases = store().Claim(ctx_, request);
  EXPECT_TRUE(leases.ok()) << leases.status().ToString();
  return leases.ok() ? *leases : std::vector<Lease>{};
}

Lease JobStoreContract::ClaimOne(const std::string& worker, int64_t lease_ms) {
  ClaimRequest request;
  request.worker = worker;
  request.kinds = {"test.copy"};
  request.lease_ms = lease_ms;
  const Result<std::vector<Lease>> leases = store().Claim(ctx_, request);
  EXPECT_TRUE(leases.ok()) << leases.status().ToString();
  if (!leases.ok() || leases->size() != 1) {
    ADD_FAILURE() << "nothing to claim";
    Lease none;
    none.tasks.emplace_back();
    return none;
  }
  EXPECT_EQ(leases->at(0).tasks.size(), 1u);
  return leases->at(0);
}

void JobStoreContract::FinishAll(const std::string& worker) {
  while (true) {
    const std::vector<Lease> leases = ClaimMany(worker, 16);
    if (leases.empty()) return;
    for (const Lease& lease : leases) {
      const Status settled = store().Settle(ctx_, lease, FinishOf(lease));
      EXPECT_TRUE(settled.ok()) << settled.ToString();
    }
  }
}

void JobStoreContract::MakeCompactReady(int64_t parts_peak) {
  for (const Lease& lease : ClaimMany("w1", 100)) {
    const Status settled =
        store().Settle(ctx_, lease, FinishOf(lease, TaskState::kCompactReady, parts_peak));
    EXPECT_TRUE(settled.ok()) << settled.ToString();
  }
}

Task JobStoreContract::Get(const JobId& job, const TaskId& task) {
  const Result<Task> found = store().GetTask(ctx_, job, task);
  EXPECT_TRUE(found.ok()) << found.status().ToString();
  return found.ok() ? *found : Task{};
}

std::vector<std::string> JobStoreContract::AttemptStates(const JobId& job, const TaskId& task) {
  const Result<std::vector<AttemptView>> attempts = store().Attempts(ctx_, job, task);
  EXPECT_TRUE(attempts.ok()) << attempts.status().ToString();
  std::vector<std::string> states;
  if (!attempts.ok()) return states;
  for (const AttemptView& attempt : *attempts) states.push_back(attempt.state);
  return states;
}

Result<Commit> JobStoreContract::DecideTasks(const CommitId& id, const JobId& job,
                                             const std::vector<TaskId>& tasks,
                                             const std::vector<LockWish>& locks) {
  Commit proposal;
  proposal.id = id;
  proposal.job = job;
  proposal.kind = "test.copy";
  proposal.target = "target-" + job;
  proposal.protocol = "COPY";
  proposal.owner = "p1";
  proposal.intent = R"({"uuid":"u"})";
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tasks.size(); ++i) {
    PF_ASSIGN(const Task task, store().GetTask(ctx_, job, tasks[i]));
    Chosen& chosen = proposal.chosen.emplace_back();
    chosen.task = task.id;
    chosen.epoch = task.winner;
    Piece& piece = pieces.emplace_back();
    piece.number = static_cast<int64_t>(i);
    piece.task = task.id;
    piece.epoch = task.winner;
    piece.partition = "202401";
    piece.stage_part = "all_1_1_0";
    piece.rows = 10;
    piece.bytes = 100;
  }
  return store().Decide(ctx_, proposal, pieces, locks);
}

Commit JobStoreContract::FenceAndBind(const CommitId& id, const std::string& owner) {
  const Result<Commit> fenced = store().Fence(ctx_, id, owner, 60'000);
  EXPECT_TRUE(fenced.ok()) << fenced.status().ToString();
  if (!fenced.ok()) return {};
  Result<std::vector<Piece>> pieces = store().Pieces(ctx_, id);
  EXPECT_TRUE(pieces.ok()) << pieces.status().ToString();
  if (!pieces.ok()) return {};
  for (Piece& piece : *pieces) piece.token = fmt::format("tok_{}_{}", fenced->serial, piece.number);
  const Status bound =
      store().Advance(ctx_, *fenced, CommitState::kCommitting, R"({"names":"bound"})", *pieces);
  EXPECT_TRUE(bound.ok()) << bound.ToString();
  const Result<Commit> now = store().GetCommit(ctx_, id);
  EXPECT_TRUE(now.ok()) << now.status().ToString();
  return now.ok() ? *now : Commit{};
}

void JobStoreContract::Publish(const Commit& bound) {
  const Result<std::vector<Piece>> pieces = store().Pieces(ctx_, bound.id);
  ASSERT_TRUE(pieces.ok()) << pieces.status().ToString();
  for (const PieceState to : {PieceState::kSent, PieceState::kConfirmed}) {
    const Status marked = store().Mark(ctx_, bound, *pieces, to);
    ASSERT_TRUE(marked.ok()) << marked.ToString();
  }
  const Status published =
      store().Advance(ctx_, bound, CommitState::kPublished, R"({"seen":1})", {});
  ASSERT_TRUE(published.ok()) << published.ToString();
}

int64_t JobStoreContract::CountOf(const JobId& job, TaskState state) {
  const Result<JobView> view = store().View(ctx_, job);
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  if (!view.ok()) return -1;
  for (const StateCount& count : view->counts) {
    if (count.state == state) return count.tasks;
  }
  return 0;
}

}  // namespace partforge::testing
