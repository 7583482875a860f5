#include "app/exit_code.h"

#include <csignal>

namespace partforge::app {
namespace {

constexpr int kPartlyDone = 2149;
constexpr int kNothingToDo = 1016;

constexpr int kAbsentSchema = 6003, kOlderSchema = 6004;

// Also a state store that `migrate` has to make or upgrade first (state-schema §1).
bool IsUsage(int pf_number) {
  return (pf_number >= 1000 && pf_number < 2000) || pf_number == kAbsentSchema ||
         pf_number == kOlderSchema;
}

}  // namespace

int ExitCode(const Status& status) {
  if (status.ok()) return 0;
  const int number = status.explanation().pf_number;
  if (number == kPartlyDone) return 4;
  if (number == kNothingToDo) return 9;
  switch (status.code()) {
    case Code::kInvalidArgument:
      return IsUsage(number) ? 2 : 1;
    case Code::kRefused:
      return 3;
    case Code::kConflict:
    case Code::kLeaseLost:
      return 5;
    case Code::kUnknownOutcome:
      return 6;
    case Code::kUnavailable:
      return 7;
    case Code::kCorruption:
      return 8;
    case Code::kCancelled:
      return ExitCodeOfSignal(SIGTERM);
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kExhausted:
    case Code::kInternal:
      return 1;
  }
  return 1;
}

int ExitCodeOfSignal(int signal_number) {
  return 128 + signal_number;
}

}  // namespace partforge::app
