#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "base/context.h"
#include "job/job_store.h"

namespace partforge {

// Who renews leases and fences while work goes on: threads that do nothing else, or (simulation,
// unit tests) the calls that the work makes of its scope.
enum class Renewal : uint8_t { kByThread, kByCaller };

// A lease this process works under. Thread-safe.
class HeldLease {
 public:
  HeldLease(Lease lease, int64_t lease_ms, int64_t now_ms)
      : lease_(std::move(lease)), lease_ms_(lease_ms), renewed_at_ms_(now_ms) {}

  const Lease& lease() const { return lease_; }
  // Fires when the lease was lost or has run out: local work ends.
  std::stop_token stop_token() const { return stop_.get_token(); }
  // kLeaseLost when the store said so, or once no renewal has succeeded for 2/3 of the lease.
  Status Check(int64_t now_ms) const;
  bool IsExpired(int64_t now_ms) const { return now_ms - renewed_at_ms_ >= lease_ms_; }
  bool is_lost() const { return is_lost_; }

 private:
  friend class LeaseKeeper;
  const Lease lease_;
  const int64_t lease_ms_;
  // When the last renewal that succeeded was begun: the store counts from later, never from
  // earlier.
  std::atomic<int64_t> renewed_at_ms_;
  std::atomic<bool> is_lost_ = false;
  std::stop_source stop_;
};

// Renews what this process holds, each third of the lease, and stops local work whose lease is
// gone. A lease that merely ran out may still be settled; correctness rests on epochs alone.
// Thread-safe.
class LeaseKeeper {
 public:
  LeaseKeeper(WorkStore& store, int64_t lease_ms) : store_(store), lease_ms_(lease_ms) {}

  // `claimed_at_ms` was read before the claim was sent.
  std::shared_ptr<HeldLease> Add(Lease lease, int64_t claimed_at_ms);
  void Remove(const HeldLease& held);
  // Renews each lease whose last renewal is a third of the lease old. Failures show in
  // HeldLease::Check only.
  void RenewDue(const Context& ctx);
  // RenewDue until stopped; the body of the thread that does nothing else.
  void RunUntilStopped(const Context& ctx);
  int64_t lease_ms() const { return lease_ms_; }

 private:
  WorkStore& store_;
  const int64_t lease_ms_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<HeldLease>> held_;  // guarded by mutex_
};

}  // namespace partforge
