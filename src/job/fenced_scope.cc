#include "job/fenced_scope.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge {
namespace {

constexpr int kReadBacksMax = 4;  // of one lost reply

bool IsAt(const Commit& commit, CommitState to) {
  return to == CommitState::kCleaned ? commit.is_cleaned : commit.state == to;
}

bool IsSame(const Thing& a, const Thing& b) {
  return a.kind == b.kind && a.name == b.name && a.shard == b.shard && a.uuid == b.uuid &&
         a.state == b.state;
}

Status Fenced(const CommitId& commit) {
  return Status(Code::kLeaseLost, fmt::format("commit was fenced: {}", commit));
}

}  // namespace

Status FencedScope::Advance(const Context& ctx, CommitState to, const Json& recorded,
                            std::span<const Piece> pieces) {
  PF_TRY(AdvanceOnce(ctx, to, recorded, pieces));
  if (to == CommitState::kCleaned) {
    commit_.is_cleaned = true;
    if (commit_.state == CommitState::kPublished) commit_.state = to;
    return {};
  }
  commit_.state = to;
  (to == CommitState::kCommitting ? commit_.staged : commit_.evidence) = recorded;
  return {};
}

Status FencedScope::AdvanceOnce(const Context& ctx, CommitState to, const Json& recorded,
                                std::span<const Piece> pieces) {
  bool is_in_doubt = false;
  Status last;
  for (int tries = 0; tries < kReadBacksMax; ++tries) {
    last = store_.Advance(ctx, commit_, to, recorded, pieces);
    if (last.ok()) return {};
    is_in_doubt = is_in_doubt || last.code() == Code::kUnknownOutcome;
    if (!is_in_doubt) return last;
    PF_ASSIGN(const Commit now, store_.GetCommit(ctx, commit_.id));
    // Taken by us or by whoever fenced us: either way no longer ours to go on with.
    if (now.epoch != commit_.epoch) return Fenced(commit_.id);
    // Only we can have taken a step under our epoch. A rebind leaves the state as it is: there
    // `staged` tells.
    const bool is_rebind = commit_.state == to;
    if (IsAt(now, to) && (!is_rebind || now.staged == recorded)) return {};
  }
  return last;
}

Result<std::vector<Piece>> FencedScope::Pieces(const Context& ctx) {
  return store_.Pieces(ctx, commit_.id);
}

Status FencedScope::Mark(const Context& ctx, std::span<const Piece> pieces, PieceState to) {
  Status last;
  for (int tries = 0; tries < kReadBacksMax; ++tries) {
    last = store_.Mark(ctx, commit_, pieces, to);
    if (last.ok() || last.code() != Code::kUnknownOutcome) return last;
    PF_TRY(Hold(ctx));
    PF_ASSIGN(const auto now, Pieces(ctx));
    const bool is_marked = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
      return std::any_of(now.begin(), now.end(), [&](const Piece& other) {
        return other.number == piece.number && other.state == to;
      });
    });
    if (is_marked) return {};
  }
  return last;
}

Result<Thing> FencedScope::Intend(const Context& ctx, const Thing& thing) {
  const Actor actor{
      .job = commit_.job, .task = {}, .commit = commit_.id, .epoch = commit_.epoch, .token = {}};
  auto intended = store_.Intend(ctx, actor, thing);
  if (intended.ok() || intended.status().code() != Code::kUnknownOutcome) return intended;
  PF_ASSIGN(const auto things, Things(ctx));
  for (const Thing& one : things) {
    if (one.kind == thing.kind && one.name == thing.name && one.shard == thing.shard) return one;
  }
  return store_.Intend(ctx, actor, thing);
}

Status FencedScope::SetThing(const Context& ctx, const Thing& as_it_was, const Thing& now) {
  Status set = store_.SetThing(ctx, as_it_was, now);
  if (set.ok() || set.code() != Code::kUnknownOutcome) return set;
  PF_ASSIGN(const auto things, Things(ctx));
  for (const Thing& one : things) {
    if (one.id == as_it_was.id && IsSame(one, now)) return {};
  }
  return store_.SetThing(ctx, as_it_was, now);
}

Result<std::vector<Thing>> FencedScope::Things(const Context& ctx) {
  return store_.Things(ctx, commit_.job);
}

Status FencedScope::Hold(const Context& ctx) {
  return store_.Hold(ctx, commit_, lease_ms_);
}

Result<Commit> FencedScope::Rebind(const Context& ctx, const Json& staged,
                                   std::span<const Piece> pieces) {
  PF_TRY(Advance(ctx, CommitState::kCommitting, staged, pieces));
  return commit_;
}

FenceHolder::FenceHolder(const Context& ctx, JobStore& store, Commit fenced, int64_t lease_ms,
                         std::function<void()> on_lost)
    : thread_([outer = Context(ctx), &store, fenced = std::move(fenced), lease_ms,
               on_lost = std::move(on_lost)](const std::stop_token& stop) {
        Context own = outer;
        own.stop = stop;
        int64_t held_at_ms = own.clock.NowMs();
        while (!stop.stop_requested()) {
          own.clock.SleepMs(std::max<int64_t>(1, lease_ms / 4), stop);
          if (stop.stop_requested()) return;
          const int64_t asked_at_ms = own.clock.NowMs();
          const Status held = store.Hold(own, fenced, lease_ms);
          if (held.ok()) {
            held_at_ms = asked_at_ms;
          } else if (held.code() == Code::kLeaseLost || asked_at_ms - held_at_ms >= lease_ms) {
            on_lost();
            return;
          }
        }
      }) {}

}  // namespace partforge
