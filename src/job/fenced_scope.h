#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/context.h"
#include "job/job_store.h"
#include "job/kind.h"

namespace partforge {

// The store as the holder of one fence sees it. A lost reply is resolved by reading back, so a
// committer sees kUnknownOutcome from here only when the store could not be read either. One thread
// at a time, but for Hold.
class FencedScope final : public CommitScope {
 public:
  FencedScope(JobStore& store, Commit fenced, int64_t lease_ms)
      : store_(store), commit_(std::move(fenced)), lease_ms_(lease_ms) {}

  // The commit as this holder left it.
  const Commit& commit() const { return commit_; }
  // The step to another state, with its reply made certain.
  Status Advance(const Context& ctx, CommitState to, const Json& recorded,
                 std::span<const Piece> pieces);

  Result<std::vector<Piece>> Pieces(const Context& ctx) override;
  Status Mark(const Context& ctx, std::span<const Piece> pieces, PieceState to) override;
  Result<Thing> Intend(const Context& ctx, const Thing& thing) override;
  Status SetThing(const Context& ctx, const Thing& as_it_was, const Thing& now) override;
  Result<std::vector<Thing>> Things(const Context& ctx) override;
  Status Hold(const Context& ctx) override;
  Result<Commit> Rebind(const Context& ctx, const Json& staged,
                        std::span<const Piece> pieces) override;

 private:
  Status AdvanceOnce(const Context& ctx, CommitState to, const Json& recorded,
                     std::span<const Piece> pieces);

  JobStore& store_;
  Commit commit_;
  const int64_t lease_ms_;
};

// Renews a fence each quarter of its lease while it lives, and fires `on_lost` once when the fence
// is lost or could not be renewed for a whole lease. Its thread ends with the object.
class FenceHolder {
 public:
  FenceHolder(const Context& ctx, JobStore& store, Commit fenced, int64_t lease_ms,
              std::function<void()> on_lost);

 private:
  std::jthread thread_;
};

}  // namespace partforge
