#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

// Where a test may stop the program. A point stands after each durable effect, so a crash there
// means: everything before it is on disk, nothing after it happened. Thread-safe.
class Faults {
 public:
  virtual ~Faults() = default;
  // Answers OK, an injected error, or does not return at all.
  virtual Status Hit(std::string_view point) = 0;
};

class NoFaults final : public Faults {
 public:
  Status Hit(std::string_view) override { return {}; }
};

// Faults asked for by the environment of a test:
//   PARTFORGE_FAULT=publish.renamed:2:kill[,more]   at the second hit: SIGKILL to this process
//                   …:error | …:delay=500 (milliseconds) | …:stop (SIGSTOP to this process)
//   PARTFORGE_FAULT_TRACE=file   appends one line "<point>" for each hit
class EnvironmentFaults final : public Faults {
 public:
  // `spec` and `trace_path` are the two variables' values, empty when unset. Fails with
  // kInvalidArgument on a spec that does not parse.
  static Result<std::unique_ptr<EnvironmentFaults>> Parse(std::string_view spec,
                                                          std::string_view trace_path);
  Status Hit(std::string_view point) override;

 private:
  enum class Action { kKill, kError, kDelay, kStop };
  struct Rule {
    std::string point;
    int64_t hit = 1;  // which hit of the point, from 1; 0 = every hit
    Action action = Action::kKill;
    int64_t delay_ms = 0;
  };
  EnvironmentFaults(std::vector<Rule> rules, std::string trace_path);

  const std::vector<Rule> rules_;
  const std::string trace_path_;
  std::mutex mutex_;
  std::map<std::string, int64_t, std::less<>> hits_;  // guarded by mutex_
};

}  // namespace partforge

// PF_FAULT(ctx, "room.done_verb"): at every durable boundary; names are unique in the tree (checked
// by `tidy`). Returns early with the injected error in functions that return Status or Result.
#define PF_FAULT(ctx, point) PF_TRY((ctx).faults.Hit(point))
