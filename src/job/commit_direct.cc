#include "job/commit_direct.h"

#include <algorithm>

namespace partforge {
namespace {

constexpr int kAppliesMax = 5;  // Inspect and Apply after kConflict

// Keeps pieces and things for the length of one call.
class FleetingScope final : public CommitScope {
 public:
  explicit FleetingScope(Commit commit) : commit_(std::move(commit)) {}

  const Commit& commit() const { return commit_; }
  void Bind(const Json& staged, std::vector<Piece> pieces) {
    commit_.state = CommitState::kCommitting;
    commit_.staged = staged;
    pieces_ = std::move(pieces);
  }
  void SetState(CommitState state) { commit_.state = state; }
  void SetPieces(std::vector<Piece> pieces) { pieces_ = std::move(pieces); }

  Result<std::vector<Piece>> Pieces(const Context&) override { return pieces_; }
  Status Mark(const Context&, std::span<const Piece> pieces, PieceState to) override {
    for (const Piece& marked : pieces) {
      for (Piece& piece : pieces_) {
        if (piece.number == marked.number) piece.state = to;
      }
    }
    return {};
  }
  Result<Thing> Intend(const Context&, const Thing& thing) override {
    Thing kept = thing;
    kept.id = std::ssize(things_) + 1;
    kept.state = "INTENT";
    things_.push_back(kept);
    return kept;
  }
  Status SetThing(const Context&, const Thing& as_it_was, const Thing& now) override {
    for (Thing& thing : things_) {
      if (thing.id == as_it_was.id) thing = now;
    }
    return {};
  }
  Result<std::vector<Thing>> Things(const Context&) override { return things_; }
  Status Hold(const Context&) override { return {}; }
  Result<Commit> Rebind(const Context&, const Json& staged,
                        std::span<const Piece> pieces) override {
    Bind(staged, std::vector<Piece>(pieces.begin(), pieces.end()));
    return commit_;
  }

 private:
  Commit commit_;
  std::vector<Piece> pieces_;
  std::vector<Thing> things_;
};

Result<Json> Apply(const Context& ctx, Committer& committer, FleetingScope& scope) {
  Status last;
  for (int tries = 0; tries < kAppliesMax; ++tries) {
    auto evidence = committer.Apply(ctx, scope.commit(), scope);
    if (evidence.ok()) return evidence;
    last = evidence.status();
    if (last.code() != Code::kConflict && last.code() != Code::kUnknownOutcome) return last;
    PF_TRY(committer.Inspect(ctx, scope.commit(), scope));
  }
  return last;
}

}  // namespace

Result<Commit> CommitDirect(const Context& ctx, Committer& committer, const Commit& commit) {
  Commit proposal = commit;
  PF_ASSIGN(Prepared prepared, committer.Prepare(ctx, proposal));
  proposal.protocol = prepared.protocol;
  if (!prepared.target.empty()) proposal.target = prepared.target;
  proposal.intent = prepared.intent;
  FleetingScope scope(proposal);
  scope.SetPieces(std::move(prepared.pieces));

  PF_ASSIGN(const Evidence seen, committer.Inspect(ctx, scope.commit(), scope));
  Json evidence = "{}";
  if (seen != Evidence::kApplied) {
    PF_ASSIGN(Staged staged, committer.Stage(ctx, scope.commit(), scope));
    scope.Bind(staged.staged, std::move(staged.pieces));
    PF_FAULT(ctx, "job.staged_direct");
    PF_ASSIGN(evidence, Apply(ctx, committer, scope));
    PF_FAULT(ctx, "job.applied_direct");
  }
  scope.SetState(CommitState::kPublished);
  PF_TRY(committer.Clean(ctx, scope.commit(), scope));
  Commit done = scope.commit();
  done.state = CommitState::kCleaned;
  done.is_cleaned = true;
  done.evidence = evidence;
  return done;
}

}  // namespace partforge
