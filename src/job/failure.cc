#include "job/failure.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace partforge {
namespace {

constexpr size_t kErrorBytesMax = 4'096;  // of the text kept with a task

FailureClass ClassOf(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return FailureClass::kSql;
    case Code::kNotFound:
    case Code::kCorruption:
      return FailureClass::kData;
    case Code::kAlreadyExists:
    case Code::kUnknownOutcome:
      return FailureClass::kDoubt;
    case Code::kRefused:
      return FailureClass::kEnv;
    case Code::kConflict:
      return FailureClass::kConflict;
    case Code::kLeaseLost:
    case Code::kUnavailable:
    case Code::kCancelled:
      return FailureClass::kTransient;
    case Code::kExhausted:
      return FailureClass::kResource;
    case Code::kInternal:
      return FailureClass::kInternal;
  }
  return FailureClass::kInternal;
}

TaskEdit EndOf(const Task& task, TaskState to, const Failure* failure) {
  TaskEdit edit = EditTo(task, to);
  if (failure == nullptr) return edit;
  edit.failure_class = FailureClassName(failure->failure_class);
  edit.failure_code = failure->code;
  edit.error = RecordedError(failure->status);
  return edit;
}

bool IsOutOfAttempts(const Lease& lease, int64_t attempts_max) {
  if (attempts_max <= 0) return false;
  return std::any_of(lease.tasks.begin(), lease.tasks.end(),
                     [&](const Task& task) { return task.attempts >= attempts_max; });
}

}  // namespace

bool IsOfSurroundings(const Status& status) {
  constexpr int kMissingObject = 2126;  // kRefused: not this one is missing, but the whole job
  constexpr auto kSurroundings =
      std::to_array<int>({7002, 7003, 7004, 7005, 7007, 7009, 7012, 7015});
  const int number = status.explanation().pf_number;
  if (number == kMissingObject) return status.code() == Code::kRefused;
  return std::find(kSurroundings.begin(), kSurroundings.end(), number) != kSurroundings.end();
}

std::string RecordedError(const Status& status) {
  const int number = status.explanation().pf_number;
  std::string text = number == 0 ? std::string() : "PF" + std::to_string(number) + ": ";
  return (text + status.message()).substr(0, kErrorBytesMax);
}

Status RecordedStatus(std::string_view error, std::string_view failure_class) {
  int number = 0;
  const size_t colon = error.find(": ");
  if (error.starts_with("PF") && colon != std::string_view::npos) {
    const auto [end, wrong] = std::from_chars(error.data() + 2, error.data() + colon, number);
    if (wrong != std::errc() || end != error.data() + colon) number = 0;
    if (number != 0) error.remove_prefix(colon + 2);
  }
  const bool is_data = failure_class == FailureClassName(FailureClass::kData);
  return Status(is_data ? Code::kCorruption : Code::kInternal, std::string(error))
      .Explain(number, "", "");
}

Failure FailureFrom(const Status& status) {
  return Failure{.failure_class = ClassOf(status.code()), .code = 0, .status = status};
}

Settlement ReleasedSettlement(const Lease& lease, const Failure* failure, int64_t backoff_ms) {
  Settlement settlement;
  for (const Task& task : lease.tasks) {
    const TaskState to =
        task.state == TaskState::kCompacting ? TaskState::kCompactReady : TaskState::kReady;
    settlement.edits.push_back(EndOf(task, to, failure));
    settlement.edits.back().backoff_ms = backoff_ms;
  }
  return settlement;
}

Settlement FailedSettlement(const Lease& lease, const Failure& failure) {
  if (IsGathered(lease)) return ReleasedSettlement(lease, &failure, 0);
  Settlement settlement;
  for (const Task& task : lease.tasks) {
    settlement.edits.push_back(EndOf(task, TaskState::kFailed, &failure));
  }
  return settlement;
}

Settlement SettlementFor(const Lease& lease, const Status& status, const FailureRules& rules) {
  Failure failure = rules.read_failure(status);
  switch (status.code()) {
    case Code::kLeaseLost:
      // The store refuses this when the lease is really gone; a mere scare must not spin.
      return ReleasedSettlement(lease, nullptr, rules.is_stopping ? 0 : rules.backoff_ms);
    case Code::kCancelled:
      if (rules.is_stopping) return ReleasedSettlement(lease, nullptr, 0);
      break;  // nobody of ours cancelled it: the engine did, which may pass
    case Code::kUnavailable:
    case Code::kExhausted:
      break;
    case Code::kUnknownOutcome:
      // What an attempt may have done lies below its own prefix, so the next attempt need not know.
      failure.failure_class = FailureClass::kTransient;
      break;
    default:
      return FailedSettlement(lease, failure);
  }
  if (rules.is_stopping) return ReleasedSettlement(lease, &failure, 0);
  if (IsOutOfAttempts(lease, rules.attempts_max)) return FailedSettlement(lease, failure);
  return ReleasedSettlement(lease, &failure, rules.backoff_ms);
}

bool HasFailed(const Settlement& settlement) {
  return std::any_of(settlement.edits.begin(), settlement.edits.end(),
                     [](const TaskEdit& edit) { return edit.to == TaskState::kFailed; });
}

}  // namespace partforge
