#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "job/kind.h"
#include "store/object_store.h"

namespace partforge::testing {

// The toy kind `testing.copy`: copies the lines of an object into a table of files, each line
// exactly once. It has all parts of a real kind and nothing else, so that the spine can be tested
// before any format exists.
//   source   an object of lines
//   attempt  <target>/data/<task>.<epoch>/lines
//   table    <target>/snapshot-<10 digits>: a JSON object {"version", "commit", "files": [key…]},
//   each made by
//            PutIfAbsent from the one before; the largest number is the table
struct CopyRequest {
  std::string source = {}, target = {};
  int64_t lines_per_task = 1;
  enum class Compaction : uint8_t { kNo, kYes } compaction = Compaction::kNo;
};
JobSpec MakeCopyJob(const JobId& id, const std::string& kind, const CopyRequest& request);

// Failures of the toy kind have a number where their text says "#246".
Failure ReadCopyFailure(const Status& status);

class CopyPlanner final : public Planner {
 public:
  explicit CopyPlanner(ObjectStore& store) : store_(store) {}
  // One task for every `lines_per_task` lines.
  Result<Plan> MakePlan(const Context& ctx, const JobSpec& spec) override;
  // FINISHED for what has no partner, once nothing else can become one.
  Settlement Replan(const JobView& view, const Candidates& candidates) override;
  std::vector<TaskEdit> Choose(const Candidates& candidates) override;

 private:
  ObjectStore& store_;
};

// The lines of one task, or of several that were gathered: their output supersedes them.
class CopyExecutor final : public Executor {
 public:
  explicit CopyExecutor(ObjectStore& store) : store_(store) {}
  Result<Settlement> Execute(const Context& ctx, const Lease& lease, TaskScope& scope) override;

 private:
  Result<std::string> ReadLines(const Context& ctx, const Task& task);

  ObjectStore& store_;
};

// Up to `tasks_max` neighbours a lease; what has failed is alone.
class CopyGatherer final : public Gatherer {
 public:
  explicit CopyGatherer(int64_t tasks_max) : tasks_max_(tasks_max) {}
  int64_t task_bytes_max() const override { return INT64_MAX; }
  bool MayGather(const Json&) const override { return true; }
  std::vector<std::vector<size_t>> Gather(const ClaimOffer& offer,
                                          const Limits& limits) const override;

 private:
  const int64_t tasks_max_;
};

// Puts the files of a batch together into one.
class CopyBatchExecutor final : public Executor {
 public:
  explicit CopyBatchExecutor(ObjectStore& store) : store_(store) {}
  Result<Settlement> Execute(const Context& ctx, const Lease& lease, TaskScope& scope) override;

 private:
  ObjectStore& store_;
};

class CopyCommitter final : public Committer {
 public:
  // kBlind is wrong on purpose: Apply adds the files without asking whether the commit is there
  // already.
  enum class Identity : uint8_t { kKept, kBlind };
  explicit CopyCommitter(ObjectStore& store, Identity identity = Identity::kKept)
      : store_(store), identity_(identity) {}
  Result<Prepared> Prepare(const Context& ctx, const Commit& proposal) override;
  // Checks every file against its digest; writes <target>/meta/manifest-<serial>.
  Result<Staged> Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Take(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Result<Evidence> Inspect(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Result<Json> Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Retract(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) override;

 private:
  ObjectStore& store_;
  const Identity identity_;
};

struct CopySnapshot {
  int64_t version = 0;
  CommitId commit;
  std::vector<std::string> files;
};
// All snapshots of the table, oldest first.
Result<std::vector<CopySnapshot>> ReadCopySnapshots(const Context& ctx, ObjectStore& store,
                                                    const std::string& target);
// The lines of the table as it is now, in the order of its files. A table that does not exist has
// none.
Result<std::vector<std::string>> ReadCopyTable(const Context& ctx, ObjectStore& store,
                                               const std::string& target);
std::vector<std::string> SplitLines(std::string_view text);

std::string DigestOfCopy(std::string_view text);
// Where the attempt put its lines, as `outputs` of its result says.
Result<std::string> CopyFileOf(const Json& outputs);

}  // namespace partforge::testing
