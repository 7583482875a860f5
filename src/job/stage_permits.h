#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

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
  // A permit of kEngine with a number below limits.engine that nobody else holds: the smallest, so
  // that engines which run already are taken first.
  struct SlotPermit {
    std::shared_ptr<void> permit;
    int slot = 0;
  };
  Result<SlotPermit> EnterSlot(const Context& ctx);

 private:
  Result<std::unique_lock<std::mutex>> AwaitFree(const Context& ctx, size_t stage);
  void Leave(size_t stage);

  std::mutex mutex_;
  std::condition_variable_any freed_;
  std::array<int64_t, 3> free_{};  // by Stage; guarded by mutex_
  std::vector<bool> is_taken_;     // slots of EnterSlot; guarded by mutex_
};

}  // namespace partforge
