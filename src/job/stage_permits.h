#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/context.h"
#include "job/kind.h"

namespace partforge {

// How many tasks of one worker may be in a stage at once. Thread-safe. Outlives the permits it
// gave.
class StagePermits {
 public:
  struct Limits {
    int64_t network = 1, engine = 1, cpu = 1;
  };
  explicit StagePermits(const Limits& limits);

  // Waits for a permit, which returns when the pointer is dropped. kCancelled on stop.
  Result<std::shared_ptr<void>> Enter(const Context& ctx, Stage stage);

 private:
  void Leave(size_t stage);

  std::mutex mutex_;
  std::condition_variable_any freed_;
  std::array<int64_t, 3> free_{};  // by Stage; guarded by mutex_
};

}  // namespace partforge
