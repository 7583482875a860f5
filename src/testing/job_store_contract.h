#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "job/job_store.h"
#include "testing/test_world.h"

namespace partforge::testing {

// A fresh, empty store and the means to move its clock. Members are destroyed from the last to the
// first, so `keep` (a folder, a schema, a server) is put first.
struct StoreUnderTest {
  std::shared_ptr<void> keep;  // what must outlive the store; may be empty
  std::unique_ptr<JobStore> store;
  // Moves the store's clock forward by so many milliseconds, for every handle on the same store.
  std::function<void(int64_t ms)> shift_clock_ms;
  // Another handle on the same state, as another process would have; empty when the store lives in
  // memory.
  std::function<std::unique_ptr<JobStore>()> open_another;
};
// A StoreUnderTest without a store skips the test: its database is absent here.
using StoreFactory = std::function<StoreUnderTest(const Context& ctx)>;

struct NamedStore {
  std::string name;
  StoreFactory make;
};
inline void PrintTo(const NamedStore& store, std::ostream* out) {
  *out << store.name;
}

// The laws of JobStore, the same for every implementation. A test binary lists the files
// testing/job_store_contract_{work,batch,ledger,race}.cc among its sources and says, in a file of
// its own:
//   INSTANTIATE_TEST_SUITE_P(Memory, JobStoreContract, ::testing::Values(NamedStore{"memory",
//   MakeMemory}),
//                            StoreName);
// After each test the counters of every job are compared with a count over its tasks.
//
// Decisions the interface leaves open, which these tests fix:
// - A finished attempt of a labelled (load) attempt leaves other attempts alone; the first sets
// `winner`. For such
//   an attempt an edit from IN_PROGRESS also fits a task that another attempt has FINISHED
//   meanwhile.
// - A release or failure of an attempt that has an OPEN twin ends only that attempt; the task stays
// with the twin.
// - The leases of one Claim share their token, so that a worker may settle several together.
// - payload.error stands only while a task is FAILED.
// - counters: bytes is the sum of size_bytes in every state; parts and rows (parts_out, rows_out)
// are not
//   counted in READY and IN_PROGRESS.
// - Decide of a job with publish = command needs it SEALED; with publish = asked also every task
// chosen, and such
//   a job's commit is never aborted (kRefused). Chosen.epoch = 0 means the winner.
// - AbortJob ends the open attempts; the job is ABORTED at once when no thing is left, else
// ABORTING until AbortJob
//   is called again after the last thing is GONE.
// - ClaimBatch: `output` of the request, or when empty `superseded_by` of the first edit chosen.
// - Amend to READY forgets winner and ready_at; any other target keeps them (COMPACT_READY gets a
// ready_at).
class JobStoreContract : public ::testing::TestWithParam<NamedStore> {
 protected:
  void SetUp() override;
  void TearDown() override;

  const Context& ctx() const { return ctx_; }
  JobStore& store() { return *under_test_.store; }
  void Shift(int64_t ms) { under_test_.shift_clock_ms(ms); }

  // A job `id` of kind "test.copy" with tasks t0… of the given sizes, sealed unless told otherwise.
  JobId MakeJob(const JobId& id, const std::vector<int64_t>& sizes,
                PublishMode publish = PublishMode::kAuto);
  JobId MakeOpenJob(const JobId& id, const std::vector<int64_t>& sizes,
                    PublishMode publish = PublishMode::kAuto);
  // The lease of the largest READY task; fails the test when there is none.
  Lease ClaimOne(const std::string& worker = "w1", int64_t lease_ms = 60'000);
  std::vector<Lease> ClaimMany(const std::string& worker, int64_t tasks_max);
  // Claims and finishes every READY task.
  void FinishAll(const std::string& worker = "w1");
  // Claims every READY task and leaves it COMPACT_READY with so many parts.
  void MakeCompactReady(int64_t parts_peak);
  // The task as the store holds it now; fails the test when it is not there.
  Task Get(const JobId& job, const TaskId& task);
  std::vector<std::string> AttemptStates(const JobId& job, const TaskId& task);  // by epoch
  // Decides a commit of the given tasks with their winners, one piece a task.
  Result<Commit> DecideTasks(const CommitId& id, const JobId& job, const std::vector<TaskId>& tasks,
                             const std::vector<LockWish>& locks = {});
  // Carries a commit that is DECIDED to COMMITTING under `owner`; pieces get tokens.
  Commit FenceAndBind(const CommitId& id, const std::string& owner);
  // SENT, CONFIRMED, PUBLISHED.
  void Publish(const Commit& bound);
  int64_t CountOf(const JobId& job, TaskState state);  // from the counters

  TestWorld world_;
  Context ctx_ = world_.context();
  StoreUnderTest under_test_;
};

std::string StoreName(const ::testing::TestParamInfo<NamedStore>& info);

// A finish of the lease's first task: `to` with one output part of ten rows.
Settlement FinishOf(const Lease& lease, TaskState to = TaskState::kFinished,
                    int64_t parts_peak = 1);
// An end without a result: release or failure of every task of the lease.
Settlement EndOf(const Lease& lease, TaskState from, TaskState to,
                 const std::string& failure_class = "");
// The failure's code, or nothing when `status` is OK, as text that reads well in a failed
// expectation.
std::string CodeOf(const Status& status);
template <class T>
std::string CodeOf(const Result<T>& result) {
  return result.ok() ? "OK" : CodeOf(result.status());
}

}  // namespace partforge::testing
