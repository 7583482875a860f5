#include "token_committer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"
#include "testing/copy_kind.h"

namespace partforge::sim {
namespace {

constexpr int kMovesMax =
    60;  // of one piece in one Apply; then somebody else is at work and we come again
constexpr int kLooksForAbsence = 3;  // exactly-once §6.1, "stable absence"
constexpr int64_t kLookPauseMs = 1'000;
constexpr int64_t kPollMs = 200;
constexpr int kPollsMax = 100;
constexpr size_t kPiecesOfATask = 2;

// Rename that somebody else may have made: then there is nothing to do here, and the next look
// tells.
Status MaybeRenamed(Status renamed) {
  if (!renamed.ok() &&
      (renamed.code() == Code::kNotFound || renamed.code() == Code::kAlreadyExists))
    return {};
  return renamed;
}

std::string StagedName(const std::string& token) {
  return "pftmp_" + token;
}
std::string TrashName(const std::string& token) {
  return "pftrash_" + token;
}
// What is still to be in the table: a piece that was cut anew has given its rows to another one.
Result<std::vector<Piece>> LivePieces(const Context& ctx, CommitScope& scope) {
  PF_ASSIGN(auto pieces, scope.Pieces(ctx));
  std::erase_if(pieces, [](const Piece& piece) { return piece.state == PieceState::kReplaced; });
  return pieces;
}

std::string AttachingName(const std::string& token) {
  return "attaching_" + token;
}
// The token that a statement about the directory would name.
std::string TokenIn(const std::string& name) {
  const std::string prefix = AttachingName("");
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace

Result<TokenCommitter::Plan> TokenCommitter::ParsePlan(const Json& staged) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(staged));
  Plan plan;
  plan.is_retract = doc.at("retract").get<bool>();
  return plan;
}

Json TokenCommitter::DumpPlan(const Plan& plan) {
  JsonDoc doc = JsonDoc::object();
  doc["retract"] = plan.is_retract;
  return DumpJson(doc);
}

std::string TokenCommitter::TokenOf(const Commit& fenced, const Piece& piece) const {
  // 2^62 + serial·2^20 + piece
  const uint64_t serial =
      variant_ == Variant::kSharedNames ? XxHash64(AsBytes(fenced.id)) >> 22 : fenced.serial;
  const uint64_t block = (uint64_t{1} << 62) + (serial << 20) + static_cast<uint64_t>(piece.number);
  return fmt::format("{}_{}_{}_0", piece.partition, block, block);
}

Result<std::vector<std::string>> TokenCommitter::ReadRows(const Context& ctx,
                                                          const Chosen& chosen) {
  PF_ASSIGN(const std::string file, testing::CopyFileOf(chosen.result.outputs));
  PF_ASSIGN(const std::string text, ReadObject(ctx, store_, file));
  if (Sha256Hex(text) != chosen.result.digest) {
    return Status(Code::kCorruption, fmt::format("digest of {} differs", file));
  }
  return testing::SplitLines(text);
}

Result<Prepared> TokenCommitter::Prepare(const Context& ctx, const Commit& proposal) {
  Prepared prepared;
  prepared.protocol = "TOKEN";
  prepared.target = proposal.target;
  for (const Chosen& chosen : proposal.chosen) {
    PF_ASSIGN(const auto rows, ReadRows(ctx, chosen));
    for (size_t part = 0; part < std::min(kPiecesOfATask, rows.size()); ++part) {
      Piece piece;
      piece.number = std::ssize(prepared.pieces);
      piece.task = chosen.task;
      piece.epoch = chosen.epoch;
      piece.partition = fmt::format("p{}", part);
      piece.rows = static_cast<int64_t>((rows.size() - part + kPiecesOfATask - 1) / kPiecesOfATask);
      prepared.pieces.push_back(std::move(piece));
    }
  }
  LockWish lock;
  lock.target = proposal.target;
  lock.scope = "*";
  lock.is_exclusive = false;
  prepared.locks.push_back(std::move(lock));
  return prepared;
}

Result<Staged> TokenCommitter::Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  partforge::Staged staged;
  PF_ASSIGN(staged.pieces, LivePieces(ctx, scope));
  for (Piece& piece : staged.pieces) {
    PF_TRY(scope.Hold(ctx));
    const auto chosen = std::find_if(fenced.chosen.begin(), fenced.chosen.end(),
                                     [&](const Chosen& one) { return one.task == piece.task; });
    PF_ASSIGN(const auto rows, ReadRows(ctx, *chosen));
    SimPart part;
    part.commit = fenced.id;
    for (size_t i = piece.partition == "p0" ? 0 : 1; i < rows.size(); i += kPiecesOfATask) {
      part.rows.push_back(rows[i]);
    }
    for (const std::string& row : rows) {
      if (row.ends_with("refused")) part.refusal = SimPart::Refusal::kAlways;
      if (row.ends_with("flaky")) part.refusal = SimPart::Refusal::kSometimes;
    }
    piece.token = TokenOf(fenced, piece);
    Thing directory;
    directory.kind = "dir";
    directory.name = piece.token;
    directory.uuid = fenced.id;
    const auto intended = scope.Intend(ctx, directory);
    const bool is_shared = variant_ == Variant::kSharedNames;
    const auto may_stand = [&](const Status& status) {
      return is_shared && status.code() == Code::kAlreadyExists;
    };
    if (!intended.ok() && !may_stand(intended.status())) return intended.status();
    const Result<int64_t> inode = target_.MakeDirectory(StagedName(piece.token), part);
    if (inode.ok()) {
      piece.ino = static_cast<uint64_t>(*inode);
    } else if (may_stand(inode.status())) {
      PF_ASSIGN(const auto found, target_.FindDetached(StagedName(piece.token)));
      piece.ino = static_cast<uint64_t>(found.value_or(0));
    } else {
      return inode.status();
    }
    PF_FAULT(ctx, "sim.staged_directory");
  }
  staged.staged = DumpPlan({});
  return staged;
}

Status TokenCommitter::Take(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const auto pieces, LivePieces(ctx, scope));
  for (const Piece& piece : pieces) {
    for (int polls = 0;; ++polls) {
      PF_ASSIGN(const bool is_running, target_.IsRunning(piece.token, fenced.epoch));
      if (!is_running) break;
      if (polls == kPollsMax) return Status(Code::kUnknownOutcome, "old statement still running");
      PF_TRY(scope.Hold(ctx));
      ctx.clock.SleepMs(kPollMs, ctx.stop);
    }
  }
  return {};
}

Result<TokenCommitter::Seen> TokenCommitter::Look(const Piece& piece) {
  const auto inode = static_cast<int64_t>(piece.ino);
  const bool trusts_names = variant_ != Variant::kRight;
  std::vector<std::pair<std::string, Place>> names{{StagedName(piece.token), Place::kStaged},
                                                   {piece.token, Place::kPlaced},
                                                   {AttachingName(piece.token), Place::kAttaching},
                                                   {TrashName(piece.token), Place::kTrash}};
  if (variant_ == Variant::kCopies) std::swap(names[0], names[1]);
  for (const auto& [name, place] : names) {
    PF_ASSIGN(const std::optional<int64_t> found, target_.FindDetached(name));
    if (!found) continue;
    if (*found == inode || trusts_names) return Seen{place, name};
    return Status(Code::kUnknownOutcome, fmt::format("not the bound directory: {}", name));
  }
  PF_ASSIGN(const bool is_in_table, target_.IsInTable(inode));
  if (is_in_table) return Seen{Place::kInTable, {}};
  PF_ASSIGN(const std::optional<std::string> other, target_.FindByInode(inode));
  if (other) {
    // Under an earlier token: a retract was turned back and the piece bound anew.
    if (other->starts_with(StagedName("")) || other->starts_with(TrashName("")))
      return Seen{Place::kStaged, *other};
    return Seen{other->starts_with(AttachingName("")) ? Place::kAttaching : Place::kSetAside,
                *other};
  }
  PF_ASSIGN(const bool is_there_now, target_.IsInTable(inode));
  return is_there_now ? Seen{Place::kInTable, {}} : Seen{};
}

Result<Evidence> TokenCommitter::Inspect(const Context& ctx, const Commit&, CommitScope& scope) {
  PF_ASSIGN(const auto pieces, LivePieces(ctx, scope));
  int64_t in_table = 0;
  for (const Piece& piece : pieces) {
    if (piece.state == PieceState::kConfirmed) {
      ++in_table;
      continue;
    }
    PF_ASSIGN(const Seen seen, Look(piece));
    in_table += seen.place == Place::kInTable ? 1 : 0;
  }
  if (in_table == std::ssize(pieces)) return Evidence::kApplied;
  return in_table == 0 ? Evidence::kNotApplied : Evidence::kPartly;
}

Result<Json> TokenCommitter::Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const Plan plan, ParsePlan(fenced.staged));
  if (plan.is_retract) return Status(Code::kRefused, "the commit is being taken back");
  PF_ASSIGN(auto pieces, LivePieces(ctx, scope));
  std::vector<Piece> unsent;
  for (const Piece& piece : pieces) {
    if (piece.state == PieceState::kStaged) unsent.push_back(piece);
  }
  if (!unsent.empty()) PF_TRY(scope.Mark(ctx, unsent, PieceState::kSent));
  PF_FAULT(ctx, "sim.sent");
  for (const Piece& piece : pieces) {
    if (piece.state == PieceState::kConfirmed) continue;
    PF_TRY(PublishPiece(ctx, fenced, piece, scope));
    PF_TRY(scope.Mark(ctx, std::span(&piece, 1), PieceState::kConfirmed));
  }
  return Json("{}");
}

Status TokenCommitter::PlacePiece(const Piece& piece, const std::string& name) {
  if (variant_ == Variant::kCopies) return MaybeRenamed(target_.Copy(name, piece.token));
  return MaybeRenamed(target_.Rename(name, piece.token));
}

Status TokenCommitter::PublishPiece(const Context& ctx, const Commit& fenced, const Piece& piece,
                                    CommitScope& scope) {
  for (int moves = 0; moves < kMovesMax; ++moves) {
    PF_TRY(scope.Hold(ctx));
    PF_ASSIGN(const Seen seen, Look(piece));
    switch (seen.place) {
      case Place::kInTable:
        return {};
      case Place::kStaged:
        PF_TRY(PlacePiece(piece, seen.name));
        PF_FAULT(ctx, "sim.placed");
        break;
      case Place::kPlaced: {
        const Status attached = target_.Attach(piece.token, fenced.epoch);
        if (!attached.ok() && attached.code() == Code::kRefused) return attached;
        PF_FAULT(ctx, "sim.attach_sent");
        if (attached.ok() && variant_ == Variant::kCopies) {
          PF_TRY(target_.Remove(StagedName(piece.token)));
        }
        break;
      }
      case Place::kAttaching:
      case Place::kSetAside: {
        PF_ASSIGN(const bool is_running, target_.IsRunning(TokenIn(seen.name), UINT64_MAX));
        if (is_running) {
          ctx.clock.SleepMs(kPollMs, ctx.stop);
        } else {
          PF_TRY(MaybeRenamed(target_.Rename(seen.name, piece.token)));
        }
        break;
      }
      case Place::kTrash:
        return Status(Code::kRefused, "the commit is being taken back");
      case Place::kAbsent: {
        PF_ASSIGN(const bool is_gone, IsGoneForGood(ctx, piece, scope));
        if (is_gone) return {};
        break;
      }
    }
  }
  return Status(Code::kUnavailable, fmt::format("piece does not come to rest: {}", piece.token));
}

Result<bool> TokenCommitter::IsGoneForGood(const Context& ctx, const Piece& piece,
                                           CommitScope& scope) {
  for (int looks = 0; looks < kLooksForAbsence; ++looks) {
    ctx.clock.SleepMs(kLookPauseMs, ctx.stop);
    PF_TRY(scope.Hold(ctx));
    PF_ASSIGN(const bool is_running, target_.IsRunning(piece.token, UINT64_MAX));
    if (is_running) return false;
    PF_ASSIGN(const Seen seen, Look(piece));
    if (seen.place != Place::kAbsent) return false;
  }
  // SENT and nowhere: attached, and merged away since.
  return true;
}

Status TokenCommitter::SetAside(const Context& ctx, const Piece& piece, CommitScope& scope) {
  for (int moves = 0; moves < kMovesMax; ++moves) {
    PF_TRY(scope.Hold(ctx));
    PF_ASSIGN(const Seen seen, Look(piece));
    switch (seen.place) {
      case Place::kTrash:
        return {};
      case Place::kStaged:
      case Place::kPlaced:
        PF_TRY(MaybeRenamed(target_.Rename(seen.name, TrashName(piece.token))));
        break;
      case Place::kAttaching:
      case Place::kSetAside: {
        PF_ASSIGN(const bool is_running, target_.IsRunning(TokenIn(seen.name), UINT64_MAX));
        if (is_running) {
          ctx.clock.SleepMs(kPollMs, ctx.stop);
        } else {
          PF_TRY(MaybeRenamed(target_.Rename(seen.name, TrashName(piece.token))));
        }
        break;
      }
      case Place::kInTable:
        return Status(Code::kConflict,
                      fmt::format("piece was attached meanwhile: {}", piece.token));
      case Place::kAbsent: {
        PF_ASSIGN(const bool is_gone, IsGoneForGood(ctx, piece, scope));
        if (is_gone)
          return Status(Code::kConflict,
                        fmt::format("piece was attached meanwhile: {}", piece.token));
        break;
      }
    }
  }
  return Status(Code::kUnavailable, fmt::format("piece does not come to rest: {}", piece.token));
}

Status TokenCommitter::Retract(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(Plan plan, ParsePlan(fenced.staged));
  PF_ASSIGN(auto pieces, LivePieces(ctx, scope));
  if (!plan.is_retract) {
    for (const Piece& piece : pieces) {
      PF_ASSIGN(const Seen seen, Look(piece));
      if (seen.place == Place::kInTable || seen.place == Place::kAbsent) {
        return Status(Code::kRefused, fmt::format("a piece is attached already: {}", piece.token));
      }
    }
    plan.is_retract = true;
    PF_TRY(scope.Rebind(ctx, DumpPlan(plan), {}));
    PF_FAULT(ctx, "sim.retract_bound");
  }
  Status aside;
  for (const Piece& piece : pieces) {
    aside = SetAside(ctx, piece, scope);
    if (!aside.ok()) break;
  }
  if (aside.ok() || aside.code() != Code::kConflict) return aside;
  // One is in the table after all: the others go forward as pieces under names that no old
  // statement knows.
  plan.is_retract = false;
  PF_ASSIGN(const auto ever, scope.Pieces(ctx));
  int64_t next_number = ever.back().number + 1;
  std::vector<Piece> changed;
  for (Piece& piece : pieces) {
    PF_ASSIGN(const Seen seen, Look(piece));
    if (seen.place != Place::kTrash) continue;
    Piece again = piece;
    again.number = next_number++;
    again.state = PieceState::kStaged;
    again.token = TokenOf(fenced, again);
    Thing directory;
    directory.kind = "dir";
    directory.name = again.token;
    directory.uuid = fenced.id;
    const auto intended = scope.Intend(ctx, directory);
    // By an earlier turn that died before it bound.
    if (!intended.ok() && intended.status().code() != Code::kAlreadyExists)
      return intended.status();
    piece.state = PieceState::kReplaced;
    changed.push_back(piece);
    changed.push_back(again);
  }
  PF_TRY(scope.Rebind(ctx, DumpPlan(plan), changed));
  PF_FAULT(ctx, "sim.turned_forward");
  return aside;
}

Status TokenCommitter::Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const auto things, scope.Things(ctx));
  for (const Thing& thing : things) {
    if (thing.uuid != fenced.id || thing.state == "GONE") continue;
    PF_TRY(scope.Hold(ctx));
    PF_TRY(target_.Remove(StagedName(thing.name)));
    PF_TRY(target_.Remove(TrashName(thing.name)));
    Thing gone = thing;
    gone.state = "GONE";
    PF_TRY(scope.SetThing(ctx, thing, gone));
  }
  return {};
}

}  // namespace partforge::sim
