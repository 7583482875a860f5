#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fake_target.h"
#include "job/kind.h"
#include "store/object_store.h"

namespace partforge::sim {

// Publishes the files of copy tasks into a FakeTarget by the protocol TOKEN (exactly-once §6.1),
// with the retract of clickhouse-parts §11.6: the steps, names and evidence of the real committer
// without its bytes.
class TokenCommitter final : public Committer {
 public:
  // Wrong on purpose, all but the first:
  enum class Variant : uint8_t {
    kRight,
    kSharedNames,  // every epoch stages under the same names, and uses what it finds there
    kCopies,       // places a copy of what is bound instead of the thing itself
  };
  TokenCommitter(FakeTarget& target, ObjectStore& store, Variant variant)
      : target_(target), store_(store), variant_(variant) {}

  Result<Prepared> Prepare(const Context& ctx, const Commit& proposal) override;
  Result<Staged> Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Take(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Result<Evidence> Inspect(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Result<Json> Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Retract(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) override;

 private:
  // As PiecePlace of the real committer, less what this table's server never does.
  enum class Place : uint8_t { kStaged, kPlaced, kAttaching, kSetAside, kTrash, kInTable, kAbsent };
  struct Seen {
    Place place = Place::kAbsent;
    std::string name;  // below detached/
  };
  struct Plan {
    bool is_retract = false;  // what `staged` holds: the commit is being taken back
  };

  static Result<Plan> ParsePlan(const Json& staged);
  static Json DumpPlan(const Plan& plan);
  std::string TokenOf(const Commit& fenced, const Piece& piece) const;
  Status PlacePiece(const Piece& piece, const std::string& name);
  // Looks for the bound directory, whatever it is called by now: first under the piece's own names,
  // then by its inode. kUnknownOutcome when another directory has one of them.
  Result<Seen> Look(const Piece& piece);
  Result<bool> IsGoneForGood(const Context& ctx, const Piece& piece, CommitScope& scope);
  Status PublishPiece(const Context& ctx, const Commit& fenced, const Piece& piece,
                      CommitScope& scope);
  Status SetAside(const Context& ctx, const Piece& piece, CommitScope& scope);
  Result<std::vector<std::string>> ReadRows(const Context& ctx, const Chosen& chosen);

  FakeTarget& target_;
  ObjectStore& store_;
  const Variant variant_;
};

}  // namespace partforge::sim
