#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "clickhouse/artifact.h"
#include "clickhouse/import_target.h"
#include "engine/engine.h"
#include "job/job_store.h"
#include "job/kind.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

struct ImportSettings {
  int files_in_parallel = 4;     // tars of one artifact fetched at once
  int64_t throttle_parts = 150;  // pause while a partition has more active parts; 0 = never
  int64_t old_statement_ms_max = 600'000;  // waiting for statements of older epochs
  int64_t room_wait_ms_max = 1'800'000;    // so long does a piece wait for throttle_parts
  bool checks_table = false;               // --verify-import=check-table
  // The caller counts the table's rows at the end, so that a piece taken for merged away would
  // show.
  bool compares_totals = false;
};

// Publishes finished artifacts into a ClickHouse table by the TOKEN protocol (exactly-once §6.1,
// clickhouse-parts §11): parts are built in detached/pftmp_<token>, bound, renamed to <token> and
// attached; evidence is the bound directory itself. Thread-safe: artifacts may be staged side by
// side, attaches run one after the other.
//
// What a crash leaves: before the bind, pftmp_ directories of a serial nobody uses (Clean removes
// them); after it, the bound directory under exactly one name, from which the next holder goes on.
// The receipt beside the artifact says "attaching" before the first of its parts has a part's name
// in detached/: a state store that does not know the commit decides nothing for that table.
class PartCommitter final : public Committer {
 public:
  using StoreOfBucket =
      std::function<Result<ObjectStore*>(const Context&, const std::string& bucket)>;

  PartCommitter(StateReader& state, StoreOfBucket store_of_bucket, Engine& engine,
                ImportTarget target, ImportSettings settings);

  Result<Prepared> Prepare(const Context& ctx, const Commit& proposal) override;
  Result<Staged> Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Forget(const Context& ctx, const Commit& fenced) override;
  Status Take(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Result<Evidence> Inspect(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Result<Json> Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Retract(const Context& ctx, const Commit& fenced, CommitScope& scope) override;
  Status Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) override;

 private:
  struct Intent {
    std::string bucket, finished_key, meta_key, meta_sha256, receipt_key, table_uuid;
  };
  static constexpr std::string_view kAttaching = "attaching", kPlaced = "placed",
                                    kTakenBack = "taken_back";  // states of a receipt
  static Json IntentJson(const Intent& intent);
  static Result<Intent> ReadIntent(const Commit& commit);
  Result<ArtifactMeta> ReadMeta(const Context& ctx, const Intent& intent);
  Status CheckNoReceipt(const Context& ctx, const CommitId& commit, const Intent& intent) const;
  // The receipt of a commit, in `state`; `pieces` are those that it lists.
  Status WriteReceipt(const Context& ctx, const Commit& fenced, const Intent& intent,
                      std::string_view state, std::span<const Piece> pieces) const;
  Status AnnounceSerial(const Context& ctx, const Commit& fenced, uint64_t serial,
                        CommitScope& scope);
  Result<std::vector<Thing>> ThingsOf(const Context& ctx, const Commit& fenced, CommitScope& scope);
  Status StagePiece(const Context& ctx, const Intent& intent, const ArtifactPart& part,
                    Piece& piece);
  Status ApplyPiece(const Context& stoppable, const Commit& fenced, Piece piece,
                    CommitScope& scope);
  Status Place(const Context& ctx, const Piece& piece, const std::string& name);
  // Whether the server's own log says that a statement of this commit attached the piece.
  Result<bool> IsAttachLogged(const Context& ctx, const Commit& fenced, const Piece& piece);
  Result<bool> AttachPiece(const Context& ctx, const Commit& fenced, const Piece& piece,
                           int64_t number);
  Status RollForward(const Context& ctx, const Commit& fenced, const std::vector<Piece>& pieces,
                     const Piece& attached, CommitScope& scope);
  // kExhausted when the partition has no room for room_wait_ms_max.
  Status WaitForRoom(const Context& ctx, const Piece& piece, CommitScope& scope);
  // Waits until no statement of this commit runs that was sent under an epoch below `epoch_end`;
  // asks the engine to end them.
  Status WaitForStatements(const Context& ctx, const Commit& fenced, uint64_t epoch_end);
  Status SyncTarget() const;
  // Removes what was staged under these serials.
  Status RemoveStaged(const std::set<uint64_t>& serials) const;

  StateReader& state_;
  const StoreOfBucket store_of_bucket_;
  Engine& engine_;
  const ImportTarget target_;
  const ImportSettings settings_;
  std::mutex announced_mutex_;
  std::map<CommitId, std::vector<Thing>> announced_;  // guarded by announced_mutex_
  std::mutex
      apply_mutex_;  // one attach at a time; held over the whole piece, since that is its purpose
};

}  // namespace partforge::clickhouse
