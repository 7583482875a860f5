#include "job/stage_permits.h"

#include <algorithm>

namespace partforge {

StagePermits::StagePermits(const Limits& limits)
    : free_{std::max<int64_t>(1, limits.network), std::max<int64_t>(1, limits.engine),
            std::max<int64_t>(1, limits.cpu)},
      is_taken_(static_cast<size_t>(std::max<int64_t>(1, limits.engine)), false) {}

Result<std::unique_lock<std::mutex>> StagePermits::AwaitFree(const Context& ctx, size_t stage) {
  std::unique_lock lock(mutex_);
  if (!freed_.wait(lock, ctx.stop, [&] { return free_.at(stage) > 0; })) {
    return Status(Code::kCancelled, "wait for a permit of the worker: stop requested");
  }
  --free_.at(stage);
  return lock;
}

Result<std::shared_ptr<void>> StagePermits::Enter(const Context& ctx, Stage stage) {
  const auto index = static_cast<size_t>(stage);
  PF_ASSIGN(const std::unique_lock<std::mutex> lock, AwaitFree(ctx, index));
  return std::shared_ptr<void>(
      this, [index](void* permits) { static_cast<StagePermits*>(permits)->Leave(index); });
}

Result<StagePermits::SlotPermit> StagePermits::EnterSlot(const Context& ctx) {
  constexpr auto kIndex = static_cast<size_t>(Stage::kEngine);
  PF_ASSIGN(const std::unique_lock<std::mutex> lock, AwaitFree(ctx, kIndex));
  const auto found = std::find(is_taken_.begin(), is_taken_.end(), false);
  PF_CHECK(found != is_taken_.end(), "permits of engines with and without a slot are mixed");
  *found = true;
  const auto slot = static_cast<size_t>(found - is_taken_.begin());
  return SlotPermit{.permit = std::shared_ptr<void>(this,
                                                    [slot](void* all) {
                                                      auto* own = static_cast<StagePermits*>(all);
                                                      {
                                                        const std::lock_guard guard(own->mutex_);
                                                        own->is_taken_[slot] = false;
                                                      }
                                                      own->Leave(kIndex);
                                                    }),
                    .slot = static_cast<int>(slot)};
}

void StagePermits::Leave(size_t stage) {
  const std::lock_guard lock(mutex_);
  ++free_.at(stage);
  freed_.notify_all();
}

}  // namespace partforge
