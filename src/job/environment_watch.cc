#include "job/environment_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failure_class.h"
#include "job/failure.h"

namespace partforge {

void EnvironmentWatch::Note(int64_t now_ms, const Settlement& ended) {
  const TaskEdit* refused = nullptr;
  bool went_further = !ended.added.empty();
  for (const TaskEdit& edit : ended.edits) {
    const bool is_failure = !edit.failure_class.empty();
    if (!is_failure && edit.to == TaskState::kReady) continue;  // handed back without a reason
    const bool is_refusal = edit.failure_class == FailureClassName(FailureClass::kEnv);
    if (is_refusal) refused = &edit;
    if (!is_refusal) went_further = true;
  }
  if (refused == nullptr && !went_further) return;
  const std::lock_guard lock(mutex_);
  if (went_further) {
    refused_since_ms_.reset();
    return;
  }
  if (!refused_since_ms_) refused_since_ms_ = now_ms;
  const int64_t refused_ms = now_ms - *refused_since_ms_;
  if (refused_ms < patience_ms_) return;
  const Status last = RecordedStatus(refused->error, refused->failure_class);
  verdict_ =
      Status(Code::kInternal, fmt::format("nothing but refusals for {} s, the last: {}",
                                          refused_ms / 1000, last.message()))
          .Explain(
              last.explanation().pf_number, "worker",
              "correct the settings, credentials or rights of this worker, then start it again");
}

Status EnvironmentWatch::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

}  // namespace partforge
