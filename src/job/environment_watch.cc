#include "job/environment_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failure_class.h"
#include "job/failure.h"

namespace partforge {

void EnvironmentWatch::Note(int64_t now_ms, const Settlement& ended) {
  if (ended.edits.empty()) return;
  const TaskEdit& edit = ended.edits.front();
  const bool is_failure = !edit.failure_class.empty();
  const bool is_without_reason = !is_failure && edit.to == TaskState::kReady;
  if (is_without_reason) return;
  const std::lock_guard lock(mutex_);
  if (edit.failure_class != FailureClassName(FailureClass::kEnv)) {
    refused_since_ms_.reset();
    return;
  }
  if (!refused_since_ms_) refused_since_ms_ = now_ms;
  const int64_t refused_ms = now_ms - *refused_since_ms_;
  if (refused_ms < patience_ms_) return;
  const Status last = RecordedStatus(edit.error, edit.failure_class);
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
