#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/random.h"
#include "clickhouse/part_committer.h"
#include "clickhouse/piece_evidence.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

// The irreversible half of the TOKEN protocol: attach, evidence, and taking back (exactly-once
// §6.1, clickhouse-parts §11.4–11.6).
namespace partforge::clickhouse {
namespace {

constexpr int64_t kPollMs = 1000;
constexpr int64_t kAttachPauseMsMax = 10'000;
constexpr int64_t kAttachPatienceMs = 600'000;  // clickhouse-parts §15, class transient
constexpr int64_t kUnlistedTriesMax = 10;
// No part name, or no such directory in detached/: a stalled importer may hold it for a moment.
constexpr int kBadPartName = 233;
constexpr int64_t kBadNamesMax = 5;
constexpr int kSerialBits = 42;

std::string QueryPrefix(const CommitId& commit) {
  return fmt::format("pf-{}-", commit);
}

bool IsRetracting(const Commit& commit) {
  const Result<JsonDoc> staged = ParseJson(commit.staged);
  return staged.ok() && staged->is_object() && staged->contains("retract");
}

Status InDoubt(const Piece& piece, std::string_view table, std::string message) {
  return Status(Code::kUnknownOutcome,
                fmt::format("piece {} ({}): {}", piece.number, piece.token, message))
      .Explain(2138, std::string(table),
               "look for the part's rows in the table; nothing is attached again until somebody "
               "has decided (job-status --details)");
}

// The epoch in "pf-<commit>-<piece>-e<epoch>-<n>"; 0 when there is none.
uint64_t EpochOfQuery(std::string_view query_id) {
  const size_t at = query_id.rfind("-e");
  if (at == std::string_view::npos) return 0;
  uint64_t epoch = 0;
  for (const char c : query_id.substr(at + 2)) {
    if (c < '0' || c > '9') break;
    epoch = epoch * 10 + static_cast<uint64_t>(c - '0');
  }
  return epoch;
}

bool IsInDetached(PiecePlace place) {
  return place == PiecePlace::kStaged || place == PiecePlace::kPlaced ||
         place == PiecePlace::kInterrupted || place == PiecePlace::kSetAside ||
         place == PiecePlace::kTrashed;
}

}  // namespace

Status PartCommitter::Take(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const Intent intent, ReadIntent(fenced));
  if (intent.table_uuid != target_.table_uuid) {
    return Status(Code::kUnknownOutcome,
                  fmt::format("the table had uuid {} when the import was decided, it has {} now",
                              intent.table_uuid, target_.table_uuid))
        .Explain(2138, target_.table.ToString(),
                 "the table was created again or exchanged; name the table with the old uuid, or "
                 "start a new job");
  }
  PF_ASSIGN(const std::vector<Piece> pieces, scope.Pieces(ctx));
  if (!pieces.empty()) PF_TRY(WaitForStatements(ctx, fenced, fenced.epoch));
  return scope.Hold(ctx);
}

Status PartCommitter::WaitForStatements(const Context& ctx, const Commit& fenced,
                                        uint64_t epoch_end) {
  const std::string prefix = QueryPrefix(fenced.id);
  const std::string sql = fmt::format(
      "SELECT query_id, Settings['log_comment'] FROM system.processes WHERE startsWith(query_id, "
      "{0}) OR startsWith(Settings['log_comment'], {0})",
      QuoteString(prefix));
  const int64_t started_ms = MonotonicMs();
  while (true) {
    PF_ASSIGN(const QueryOutcome outcome, engine_.Query(ctx, sql, {}));
    std::string running;
    for (const auto& row : SplitTsv(outcome.text)) {
      const std::string& id = row.at(0).starts_with(prefix) ? row.at(0) : row.at(1);
      if (EpochOfQuery(id) < epoch_end) running = id;
    }
    if (running.empty()) return {};
    Ignore(ctx, engine_.Kill(ctx, running), "it is asked again");
    if (MonotonicMs() - started_ms > settings_.old_statement_ms_max) {
      return Status(Code::kUnknownOutcome, fmt::format("old statement still running: {}", running))
          .Explain(2138, target_.table.ToString(),
                   "end the statement on the server, then run the import again");
    }
    ctx.clock.SleepMs(kPollMs, ctx.stop);
    PF_TRY(ctx.CheckStop("waiting for an older statement"));
  }
}

Result<Evidence> PartCommitter::Inspect(const Context& ctx, const Commit& fenced,
                                        CommitScope& scope) {
  if (IsRetracting(fenced)) return Evidence::kNotApplied;
  PF_ASSIGN(const std::vector<Piece> pieces, scope.Pieces(ctx));
  size_t applied = 0;
  for (const Piece& piece : pieces) {
    if (piece.state == PieceState::kConfirmed) {
      ++applied;
      continue;
    }
    PF_ASSIGN(const PieceSeen seen, LookForPiece(ctx, engine_, target_, piece));
    if (seen.place == PiecePlace::kAttached) ++applied;
  }
  if (applied == pieces.size()) return Evidence::kApplied;
  return applied == 0 ? Evidence::kNotApplied : Evidence::kPartly;
}

Result<Json> PartCommitter::Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  if (IsRetracting(fenced)) {
    return Status(Code::kRefused, "a retract of this artifact is under way")
        .Explain(2148, target_.table.ToString(), "nothing: the artifact is taken back");
  }
  PF_ASSIGN(const Intent intent, ReadIntent(fenced));
  PF_ASSIGN(const std::vector<Piece> pieces, scope.Pieces(ctx));
  const bool is_begun = std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return piece.state != PieceState::kStaged;
  });
  if (!is_begun && !pieces.empty()) {
    PF_TRY(scope.Hold(ctx));
    PF_TRY(WriteReceipt(ctx, fenced, intent, kAttaching, pieces));
    PF_FAULT(ctx, "clickhouse.receipt_begun");
  }
  int64_t rows = 0;
  for (const Piece& piece : pieces) {
    PF_TRY(ctx.CheckStop("publishing"));
    if (piece.state != PieceState::kConfirmed && piece.state != PieceState::kReplaced) {
      // Before the lock: a full partition must not stop the others.
      if (piece.state == PieceState::kStaged) PF_TRY(WaitForRoom(ctx, piece, scope));
      const std::lock_guard lock(apply_mutex_);
      PF_TRY(ApplyPiece(ctx, fenced, piece, scope));
    }
    rows += piece.rows;
  }
  PF_TRY(WriteReceipt(ctx, fenced, intent, kPlaced, pieces));
  PF_FAULT(ctx, "clickhouse.receipt_written");
  return DumpJson(JsonDoc{{"version", 1},
                          {"rows", rows},
                          {"parts", pieces.size()},
                          {"receipt_key", intent.receipt_key}});
}

Status PartCommitter::WriteReceipt(const Context& ctx, const Commit& fenced, const Intent& intent,
                                   std::string_view state, std::span<const Piece> pieces) const {
  JsonDoc parts = JsonDoc::array();
  int64_t rows = 0;
  for (const Piece& piece : pieces) {
    rows += piece.rows;
    parts.push_back(
        JsonDoc{{"part", piece.stage_part}, {"token", piece.token}, {"rows", piece.rows}});
  }
  const JsonDoc receipt{{"version", 1},
                        {"state", state},
                        {"commit_id", fenced.id},
                        {"table_uuid", target_.table_uuid},
                        {"table", target_.table.ToString()},
                        {"rows", rows},
                        {"parts", parts},
                        {"time_ms", ctx.clock.NowMs()}};
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, intent.bucket));
  PF_TRY(WriteObject(ctx, *store, intent.receipt_key, DumpJsonPretty(receipt)));
  return {};
}

Status PartCommitter::ApplyPiece(const Context& stoppable, const Commit& fenced, Piece piece,
                                 CommitScope& scope) {
  // A signal lets the piece come to its end (clickhouse-parts §11.6) and only cuts waits short; a
  // lost fence is found by Hold.
  Context ctx = stoppable;
  ctx.stop = {};
  const std::filesystem::path detached = target_.detached();
  const std::string table = target_.table.ToString();
  int64_t statement = 0;
  bool has_attached = false;  // this call saw its own statement succeed
  bool is_quiet = false;      // no statement about this commit runs since the last look
  const int64_t started_ms = MonotonicMs();
  for (int64_t tries = 0; MonotonicMs() - started_ms < kAttachPatienceMs; ++tries) {
    PF_TRY(scope.Hold(ctx));
    PF_ASSIGN(const PieceSeen seen, has_attached ? LookForPiece(ctx, engine_, target_, piece)
                                                 : LookUntilStable(ctx, engine_, target_, piece));
    switch (seen.place) {
      case PiecePlace::kStaged:
      case PiecePlace::kPlaced:
        if (piece.state == PieceState::kStaged) {
          PF_TRY(scope.Mark(ctx, std::span(&piece, 1), PieceState::kSent));
          piece.state = PieceState::kSent;
          PF_FAULT(ctx, "clickhouse.piece_sent");
        }
        if (seen.place == PiecePlace::kStaged) {
          PF_TRY(Place(ctx, piece, seen.name));
          continue;
        }
        if (has_attached) {
          return InDoubt(piece, table,
                         "the engine reported success and kept the part out (content deduplication "
                         "of a replicated table)");
        }
        is_quiet = false;
        if (Result<bool> said = AttachPiece(ctx, fenced, piece, ++statement); said.ok()) {
          has_attached = *said;
          if (!has_attached) PF_TRY(stoppable.CheckStop("attaching"));
          continue;
        } else {
          return std::move(said).status();
        }
      case PiecePlace::kInterrupted:
      case PiecePlace::kSetAside:
        if (!is_quiet) {
          // An attach that still runs holds it there: only what nobody works on is taken back.
          PF_TRY(WaitForStatements(stoppable, fenced, fenced.epoch + 1));
          is_quiet = true;
          continue;
        }
        PF_TRY(Place(ctx, piece, seen.name));
        continue;
      case PiecePlace::kTrashed:
        return Status(Code::kRefused, "the piece was taken back")
            .Explain(2148, table, "nothing: the artifact is taken back");
      case PiecePlace::kUnlisted:
        // In the table's folder but unknown to the engine: it was not durable, or the engine is
        // still loading.
        if (tries > kUnlistedTriesMax)
          return InDoubt(
              piece, table,
              fmt::format("directory {} of the table is not listed in system.parts", seen.name));
        stoppable.clock.SleepMs(kPollMs, stoppable.stop);
        PF_TRY(stoppable.CheckStop("waiting for the engine"));
        continue;
      case PiecePlace::kAbsent:
        if (!has_attached && piece.state == PieceState::kStaged) {
          return InDoubt(piece, table, "the bound directory is gone although it was never sent");
        }
        if (!has_attached && target_.is_replicated()) {
          return InDoubt(
              piece, table,
              "absent from a replicated table: attached and merged, or put aside by the engine");
        }
        if (!has_attached && !is_quiet) {
          PF_TRY(WaitForStatements(stoppable, fenced, fenced.epoch + 1));
          is_quiet = true;
          continue;
        }
        // SENT and absent for good: attached and merged away since, or somebody emptied detached/
        // before it was attached. Where the rows are not counted at the end, only the server's word
        // tells the two apart.
        if (!has_attached && !settings_.compares_totals) {
          PF_ASSIGN(const bool is_logged, IsAttachLogged(ctx, fenced, piece));
          if (!is_logged) {
            return InDoubt(piece, table,
                           "it was sent and is gone: attached and merged since, or removed from "
                           "detached/ by hand; the server's query_log does not say that it was "
                           "attached");
          }
        }
        [[fallthrough]];
      case PiecePlace::kAttached:
        PF_TRY(SyncTarget());
        PF_FAULT(ctx, "clickhouse.piece_attached");
        PF_TRY(scope.Mark(ctx, std::span(&piece, 1), PieceState::kConfirmed));
        PF_FAULT(ctx, "clickhouse.piece_confirmed");
        return {};
    }
  }
  return Status(Code::kUnavailable, fmt::format("piece {} could not be attached within {} s",
                                                piece.token, kAttachPatienceMs / 1000))
      .Explain(7008, table, "look at the server's log, then run the import again");
}

Result<bool> PartCommitter::IsAttachLogged(const Context& ctx, const Commit& fenced,
                                           const Piece& piece) {
  constexpr int kNoSuchTable = 60, kNoAccess = 497;
  // A day before, for servers in other time zones.
  const std::string sql = fmt::format(
      "SELECT count() FROM system.query_log WHERE event_date >= toDate({}) - 1 AND "
      "type = 'QueryFinish' AND startsWith(query_id, {})",
      fenced.decided_at_ms / 1000,
      QuoteString(fmt::format("{}{}-e", QueryPrefix(fenced.id), piece.number)));
  const Result<int64_t> logged = QueryInt(ctx, engine_, sql, {});
  if (logged.ok()) return *logged > 0;
  const int number = ClickHouseNumber(logged.status());
  if (number == kNoSuchTable || number == kNoAccess) return false;
  return logged.status();
}

// Gives a directory of detached/ the bound name. What moved away meanwhile is looked for again.
Status PartCommitter::Place(const Context& ctx, const Piece& piece, const std::string& name) {
  const std::filesystem::path detached = target_.detached();
  const Status renamed = RenameNoReplace(detached / name, detached / piece.token);
  if (!renamed.ok() && renamed.code() == Code::kNotFound) return {};
  if (!renamed.ok() && renamed.code() == Code::kAlreadyExists)
    return InDoubt(piece, target_.table.ToString(), "another directory has its name in detached/");
  PF_TRY(renamed);
  PF_TRY(SyncDirectory(detached));
  PF_FAULT(ctx, "clickhouse.piece_placed");
  return {};
}

// True when the engine said that it attached the piece; false: look at the target. kCorruption or,
// for want of rights, kRefused (PF2148) when the engine will never take it.
Result<bool> PartCommitter::AttachPiece(const Context& ctx, const Commit& fenced,
                                        const Piece& piece, int64_t number) {
  QueryOptions options;
  // A repeated try of the same epoch must not meet its own earlier id.
  options.query_id = fmt::format("{}{}-e{}-{}.{}", QueryPrefix(fenced.id), piece.number,
                                 fenced.epoch, number, RandomHex(ctx.random, 4));
  const Result<QueryOutcome> attached =
      engine_.Query(ctx,
                    fmt::format("ALTER TABLE {} ATTACH PART {}",
                                QuoteTable(target_.table.database, target_.table.table),
                                QuoteString(piece.token)),
                    options);
  PF_FAULT(ctx, "clickhouse.attach_sent");
  if (attached.ok()) return true;
  const Status& failure = attached.status();
  if (failure.code() == Code::kCancelled || failure.code() == Code::kLeaseLost) return failure;
  if (failure.code() == Code::kUnknownOutcome) return false;
  const FailureClass failure_class = FailureClassOf(failure);
  const bool may_pass = failure_class == FailureClass::kTransient ||
                        failure_class == FailureClass::kResource ||
                        failure.code() == Code::kUnavailable ||  // 999: of a keeper, on a server
                        (ClickHouseNumber(failure) == kBadPartName && number <= kBadNamesMax);
  if (!may_pass) {
    // T15 keeps the class: refused for its bytes or shape, the artifact must be made anew (data);
    // refused for our rights, it is as good as before.
    const bool is_refused_access =
        failure_class == FailureClass::kEnv || failure.code() == Code::kRefused;
    return Status(failure)
        .As(is_refused_access ? Code::kRefused : Code::kCorruption)
        .Explain(2148, fmt::format("{} part {}", target_.table.ToString(), piece.stage_part),
                 "see the engine's message; correct the job, then partforge retry-failed");
  }
  ctx.log.Warn("attach is tried again", {{"piece", piece.token}, {"error", failure.message()}});
  ctx.clock.SleepMs(std::min<int64_t>(kPollMs * number, kAttachPauseMsMax), ctx.stop);
  return false;
}

Status PartCommitter::WaitForRoom(const Context& ctx, const Piece& piece, CommitScope& scope) {
  if (settings_.throttle_parts <= 0) return {};
  const std::string sql = fmt::format(
      "SELECT count() FROM system.parts WHERE database = {} AND table = {} AND partition_id = {} "
      "AND active",
      QuoteString(target_.table.database), QuoteString(target_.table.table),
      QuoteString(piece.partition));
  const int64_t started_ms = MonotonicMs();
  for (int64_t waited = 0;; ++waited) {
    PF_ASSIGN(const int64_t parts, QueryInt(ctx, engine_, sql, {}));
    if (parts < settings_.throttle_parts) return {};
    if (MonotonicMs() - started_ms >= settings_.room_wait_ms_max) {
      return Status(Code::kExhausted,
                    fmt::format("partition {} has {} active parts, the limit is {}; the server "
                                "does not merge them",
                                piece.partition, parts, settings_.throttle_parts))
          .Explain(2148, target_.table.ToString(),
                   "run the same command again when the parts are merged, or give "
                   "--throttle-parts=0");
    }
    if (waited % 30 == 0)
      ctx.log.Info(
          "waiting for merges of the destination",
          {{"partition", piece.partition}, {"parts", parts}, {"limit", settings_.throttle_parts}});
    ctx.clock.SleepMs(kPollMs, ctx.stop);
    PF_TRY(ctx.CheckStop("waiting for merges of the destination"));
    PF_TRY(scope.Hold(ctx));
  }
}

Status PartCommitter::SyncTarget() const {
  PF_TRY(SyncDirectory(target_.data_path));
  return SyncDirectory(target_.detached());
}

Status PartCommitter::Retract(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_TRY(WaitForStatements(ctx, fenced, fenced.epoch + 1));
  PF_ASSIGN(const std::vector<Piece> pieces, scope.Pieces(ctx));
  const std::filesystem::path detached = target_.detached();
  std::vector<PieceSeen> seen;
  for (const Piece& piece : pieces) {
    PF_ASSIGN(PieceSeen one, LookUntilStable(ctx, engine_, target_, piece));
    if (one.place == PiecePlace::kAttached && IsRetracting(fenced))
      return RollForward(ctx, fenced, pieces, piece, scope);
    if (!IsInDetached(one.place)) {
      return InDoubt(
          piece, target_.table.ToString(),
          fmt::format("the artifact cannot be taken back, this piece is {}", PlaceName(one.place)));
    }
    seen.push_back(std::move(one));
  }
  if (!IsRetracting(fenced)) {
    PF_ASSIGN(JsonDoc staged, ParseJson(fenced.staged));
    staged["retract"] = true;
    // From here on every holder of the fence only retracts. The pieces stay as they are bound.
    PF_TRY(scope.Rebind(ctx, DumpJson(staged), {}));
    PF_FAULT(ctx, "clickhouse.retract_bound");
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::filesystem::path trash = detached / ("pftrash_" + pieces[i].token);
    while (seen[i].place != PiecePlace::kTrashed) {
      PF_TRY(scope.Hold(ctx));
      Status renamed = RenameNoReplace(detached / seen[i].name, trash);
      if (!renamed.ok() && renamed.code() != Code::kNotFound) return renamed;
      // A stalled statement may have moved it between the look and the rename: look again.
      PF_ASSIGN(seen[i], LookUntilStable(ctx, engine_, target_, pieces[i]));
      if (seen[i].place == PiecePlace::kAttached)
        return RollForward(ctx, fenced, pieces, pieces[i], scope);
      if (!IsInDetached(seen[i].place)) {
        return InDoubt(pieces[i], target_.table.ToString(),
                       "the piece was lost sight of while the artifact was taken back");
      }
    }
    PF_FAULT(ctx, "clickhouse.piece_trashed");
  }
  PF_TRY(SyncDirectory(detached));
  // The next decision for this artifact is another commit, maybe of another state store.
  PF_ASSIGN(const Intent intent, ReadIntent(fenced));
  PF_TRY(WriteReceipt(ctx, fenced, intent, kTakenBack, {}));
  PF_FAULT(ctx, "clickhouse.receipt_taken_back");
  return {};
}

// A stalled importer attached a piece in the middle of the retract: the artifact can only be
// completed now. What is in the trash gets new tokens, so that nothing late can touch it by its old
// ones, and Apply goes on from there.
Status PartCommitter::RollForward(const Context& ctx, const Commit& fenced,
                                  const std::vector<Piece>& pieces, const Piece& attached,
                                  CommitScope& scope) {
  const uint64_t serial = ctx.random.Next() >> (64 - kSerialBits);
  std::vector<Piece> renamed;
  for (const Piece& piece : pieces) {
    if (piece.number == attached.number || piece.state == PieceState::kConfirmed) continue;
    PF_ASSIGN(const PieceSeen seen, LookForPiece(ctx, engine_, target_, piece));
    if (seen.place == PiecePlace::kAttached) continue;
    if (piece.state != PieceState::kStaged) {
      return InDoubt(
          attached, target_.table.ToString(),
          "a stalled importer attached it while the artifact was taken back, and another "
          "piece was sent too");
    }
    renamed.push_back(piece);
    renamed.back().token = PieceToken(piece.partition, serial, piece.number);
  }
  PF_TRY(AnnounceSerial(ctx, fenced, serial, scope));
  const JsonDoc staged{{"version", 1}, {"serial", serial}, {"pieces", pieces.size()}};
  PF_TRY(scope.Rebind(ctx, DumpJson(staged), renamed));
  PF_FAULT(ctx, "clickhouse.retract_undone");
  return Status(Code::kConflict,
                fmt::format("piece {} was attached by a stalled importer while the "
                            "artifact was taken back; the rest follows",
                            attached.token));
}

}  // namespace partforge::clickhouse
