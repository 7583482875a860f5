#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "job/job_store.h"
#include "job/kind.h"

namespace partforge {

struct MaintainOptions {
  std::string worker;            // asks for candidates under this name
  std::vector<JobId> only;       // empty = any job; leases are reaped for all of them alike
  int64_t interval_ms = 10'000;  // between two passes, ± 50 %
  int64_t crashes_max = 3;       // leases that ran out before a task is FAILED as poison
};

// The work anybody may do when there is nothing better (clickhouse-parts §10.8): ends leases that
// ran out, and finishes what the planner says can be finished without further work. One thread at a
// time.
class Maintainer {
 public:
  Maintainer(JobStore& store, const KindTable& kinds, MaintainOptions options)
      : store_(store), kinds_(kinds), options_(std::move(options)) {}

  // False when the last pass is too recent. Fails when the store does.
  Result<bool> RunWhenDue(const Context& ctx);
  Status Run(const Context& ctx);

 private:
  Status Replan(const Context& ctx, const JobSpec& job, Planner& planner);

  JobStore& store_;
  const KindTable& kinds_;
  const MaintainOptions options_;
  int64_t next_at_ms_ = 0;
};

// Three equal failures of class sql while nothing of the job has succeeded: the statement is wrong
// for every part, so claims of the job are paused and the history says why (clickhouse-parts §15
// #7). Called after a task FAILED.
Status PauseAfterEqualFailures(const Context& ctx, JobStore& store, const JobId& job);

}  // namespace partforge
