#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "job/task.h"

namespace partforge {

// Tells a worker that it should end: whatever it took was refused by its surroundings (failures of
// class env: an object store that answers 403, a folder without rights) for too long, and nothing
// went better in between. Such parts go back to READY; a worker with other rights may do them
// (clickhouse-parts §15, row 20). Thread-safe.
class EnvironmentWatch {
 public:
  explicit EnvironmentWatch(int64_t patience_ms) : patience_ms_(patience_ms) {}

  // Takes note of how an attempt ended, at a time of the worker's clock. What was handed back
  // without a reason says nothing; any other end shows that the surroundings let work happen.
  void Note(int64_t now_ms, const Settlement& ended);
  // kInternal with the last refusal once the patience is over; OK before.
  Status verdict() const;

 private:
  const int64_t patience_ms_;
  mutable std::mutex mutex_;
  std::optional<int64_t> refused_since_ms_;  // guarded by mutex_
  Status verdict_;                           // guarded by mutex_
};

}  // namespace partforge
