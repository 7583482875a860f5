#include "job/stage_permits.h"

#include <algorithm>

namespace partforge {

StagePermits::StagePermits(const Limits& limits)
    : free_{std::max<int64_t>(1, limits.network), std::max<int64_t>(1, limits.engine),
            std::max<int64_t>(1, limits.cpu)} {}

Result<std::shared_ptr<void>> StagePermits::Enter(const Context& ctx, Stage stage) {
  const auto index = static_cast<size_t>(stage);
  std::unique_lock lock(mutex_);
  if (!freed_.wait(lock, ctx.stop, [&] { return free_.at(index) > 0; })) {
    return Status(Code::kCancelled, "wait for a permit of the worker: stop requested");
  }
  --free_.at(index);
  return std::shared_ptr<void>(
      this, [index](void* permits) { static_cast<StagePermits*>(permits)->Leave(index); });
}

void StagePermits::Leave(size_t stage) {
  const std::lock_guard lock(mutex_);
  ++free_.at(stage);
  freed_.notify_all();
}

}  // namespace partforge
