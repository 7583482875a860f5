#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/failure_class.h"
#include "job/task.h"

namespace partforge {

// What is known about a failure. An executor that knows more than the Code says fills the class
// itself and answers with FailedSettlement or ReleasedSettlement instead of the bare Status.
struct Failure {
  FailureClass failure_class = FailureClass::kInternal;
  int64_t code =
      0;  // what its engine calls it, for people and to tell whether two are alike; 0 = none
  Status status;  // not OK
};
// The class that the Code stands for, and no number. Requires !status.ok().
Failure FailureFrom(const Status& status);
// How a kind of work reads what its executors and committers fail with: FailureFrom, or one that
// knows more.
using FailureReader = Failure (*)(const Status& status);

// Whether a failure tells of the process's surroundings and nothing of the task or its artifact:
// credentials, rights, a bucket or folder that is not there, what the operating system refuses, a
// store that holds nothing of the job. Another machine, or this one when it is set right, does not
// meet it. Requires !status.ok().
bool IsOfSurroundings(const Status& status);

// What is kept of a failure for people: "PF2145: …", at most 4 KiB. Requires !status.ok().
std::string RecordedError(const Status& status);
// The reverse, for whoever tells a recorded failure to a person: the PF number is taken off the
// text, class `data` is kCorruption, everything else kInternal.
Status RecordedStatus(std::string_view error, std::string_view failure_class);

// Every task of the lease goes back where it was claimed from (READY, or COMPACT_READY for a batch)
// and is not taken again for `backoff_ms`. `failure` may be null: handed back without a reason.
Settlement ReleasedSettlement(const Lease& lease, const Failure* failure, int64_t backoff_ms);
// The task of the lease becomes FAILED, and so does every input of a compaction. Tasks that were
// gathered (READY before) go back instead, each with the failure's class, by which the next claim
// knows to take it alone: then the one to blame fails, and the others do not.
Settlement FailedSettlement(const Lease& lease, const Failure& failure);

struct FailureRules {
  int64_t backoff_ms = 0;  // of releases for a reason
  int64_t attempts_max =
      0;  // a task that had so many attempts is FAILED instead of released; 0 = no limit
  bool is_stopping = false;  // the worker shuts down or the lease ran out: hand back at once
  FailureReader read_failure = &FailureFrom;
};
// Turns what Execute failed with into the end of the lease: kLeaseLost and kCancelled release,
// kUnavailable, kExhausted and kUnknownOutcome release with the back-off, all else is FAILED. Pure.
Settlement SettlementFor(const Lease& lease, const Status& status, const FailureRules& rules);

// True when any edit ends its task as FAILED.
bool HasFailed(const Settlement& settlement);

}  // namespace partforge
