#include "job/lease_keeper.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge {

Status HeldLease::Check(int64_t now_ms) const {
  if (is_lost_) return Status(Code::kLeaseLost, "the lease was taken over");
  const int64_t age_ms = now_ms - renewed_at_ms_;
  if (age_ms < lease_ms_ * 2 / 3) return {};
  return Status(Code::kLeaseLost, fmt::format("the lease was last renewed {} ms ago", age_ms));
}

std::shared_ptr<HeldLease> LeaseKeeper::Add(Lease lease, int64_t claimed_at_ms) {
  auto held = std::make_shared<HeldLease>(std::move(lease), lease_ms_, claimed_at_ms);
  const std::lock_guard lock(mutex_);
  held_.push_back(held);
  return held;
}

void LeaseKeeper::Remove(const HeldLease& held) {
  const std::lock_guard lock(mutex_);
  std::erase_if(held_, [&](const auto& other) { return other.get() == &held; });
}

void LeaseKeeper::RenewDue(const Context& ctx) {
  std::vector<std::shared_ptr<HeldLease>> held;
  {
    const std::lock_guard lock(mutex_);
    held = held_;
  }
  for (const auto& one : held) {
    const int64_t now_ms = ctx.clock.NowMs();
    if (one->is_lost_ || now_ms - one->renewed_at_ms_ < lease_ms_ / 3) continue;
    const Status renewed = store_.Renew(ctx, one->lease_, lease_ms_);
    if (renewed.ok()) {
      one->renewed_at_ms_ = now_ms;
      ctx.metrics.Add("partforge_lease_renewals_total", {{"result", "ok"}});
      continue;
    }
    const std::string result(CodeName(renewed.code()));
    ctx.metrics.Add("partforge_lease_renewals_total", {{"result", result}});
    if (renewed.code() == Code::kLeaseLost) {
      one->is_lost_ = true;
      one->stop_.request_stop();
    } else if (one->IsExpired(ctx.clock.NowMs())) {
      one->stop_.request_stop();
    }
  }
}

void LeaseKeeper::RunUntilStopped(const Context& ctx) {
  // Often enough that a lease is seen a few times in each third, rarely enough to cost nothing.
  const int64_t pause_ms = std::clamp<int64_t>(lease_ms_ / 12, 5, 1'000);
  while (!ctx.IsStopping()) {
    RenewDue(ctx);
    ctx.clock.SleepMs(pause_ms, ctx.stop);
  }
}

}  // namespace partforge
