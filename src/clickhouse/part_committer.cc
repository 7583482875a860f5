#include "clickhouse/part_committer.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/parallel_for.h"
#include "clickhouse/artifact_fetch.h"
#include "clickhouse/piece_evidence.h"
#include "clickhouse/rewrite_check.h"
#include "clickhouse/rewrite_job.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kPollMs = 1000;
constexpr int64_t kAttachTriesMax = 600;
constexpr std::string_view kTokenProtocol = "TOKEN";

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

// The epoch in "pf-<commit>-<op>-e<epoch>-<n>"; 0 when there is none.
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

}  // namespace

PartCommitter::PartCommitter(StateReader& state, StoreOfBucket store_of_bucket, Engine& engine,
                             ImportTarget target, ImportSettings settings)
    : state_(state),
      store_of_bucket_(std::move(store_of_bucket)),
      engine_(engine),
      target_(std::move(target)),
      settings_(std::move(settings)) {}

Json PartCommitter::IntentJson(const Intent& intent) {
  return DumpJson(JsonDoc{{"version", 1},
                          {"bucket", intent.bucket},
                          {"finished_key", intent.finished_key},
                          {"meta_key", intent.meta_key},
                          {"meta_sha256", intent.meta_sha256},
                          {"receipt_key", intent.receipt_key},
                          {"table_uuid", intent.table_uuid}});
}

Result<PartCommitter::Intent> PartCommitter::ReadIntent(const Commit& commit) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(commit.intent));
  JsonReader reader(doc, "import intent");
  Intent intent;
  PF_ASSIGN(const int64_t version, reader.Int("version"));
  if (version != 1)
    return Status(
        Code::kCorruption,
        fmt::format("import intent has a version this program does not know: {}", version));
  PF_ASSIGN(intent.bucket, reader.String("bucket"));
  PF_ASSIGN(intent.finished_key, reader.String("finished_key"));
  PF_ASSIGN(intent.meta_key, reader.String("meta_key"));
  PF_ASSIGN(intent.meta_sha256, reader.String("meta_sha256"));
  PF_ASSIGN(intent.receipt_key, reader.String("receipt_key"));
  PF_ASSIGN(intent.table_uuid, reader.String("table_uuid"));
  PF_TRY(reader.Finish());
  return intent;
}

Result<ArtifactMeta> PartCommitter::ReadMeta(const Context& ctx, const Intent& intent) {
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, intent.bucket));
  return FetchMeta(ctx, *store, intent.meta_key, intent.meta_sha256);
}

Result<Prepared> PartCommitter::Prepare(const Context& ctx, const Commit& proposal) {
  PF_CHECK(proposal.chosen.size() == 1, "an import commits one artifact");
  const Chosen& chosen = proposal.chosen.front();
  PF_ASSIGN(const JobView view, state_.View(ctx, proposal.job));
  PF_ASSIGN(const RewriteJobSpec job, RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const RewriteOutput output, RewriteOutput::FromJson(chosen.result.outputs));
  PF_ASSIGN(const JobKeys keys, JobKeys::Make(job.prefix, proposal.job));
  PF_ASSIGN(const std::string receipt_key, keys.ReceiptKey(chosen.task));
  const Intent intent{.bucket = job.bucket,
                      .finished_key = output.finished_key,
                      .meta_key = output.meta_key,
                      .meta_sha256 = output.meta_sha256,
                      .receipt_key = receipt_key,
                      .table_uuid = target_.table_uuid};
  PF_ASSIGN(const ArtifactMeta meta, ReadMeta(ctx, intent));
  Prepared prepared;
  prepared.protocol = kTokenProtocol;
  prepared.target = target_.key();
  prepared.intent = IntentJson(intent);
  std::map<std::string, bool> partitions;
  for (const ArtifactPart& part : meta.parts) {
    Piece piece;
    piece.number = static_cast<int64_t>(prepared.pieces.size());
    piece.task = chosen.task;
    piece.epoch = chosen.epoch;
    piece.partition = part.partition_id;
    piece.stage_part = part.name;
    piece.files_hash = part.checksums_txt_sha256;
    piece.rows = part.rows;
    piece.bytes = part.bytes_on_disk;
    prepared.pieces.push_back(std::move(piece));
    if (partitions.emplace(part.partition_id, true).second) {
      prepared.locks.push_back(LockWish{.target = target_.key(),
                                        .scope = part.partition_id,
                                        .is_exclusive = false,
                                        .lease_ms = 0});
    }
  }
  return prepared;
}

Result<Staged> PartCommitter::Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const Intent intent, ReadIntent(fenced));
  PF_ASSIGN(const ArtifactMeta meta, ReadMeta(ctx, intent));
  PF_ASSIGN(std::vector<Piece> pieces, scope.Pieces(ctx));
  if (pieces.size() != meta.parts.size()) {
    return Status(Code::kCorruption,
                  fmt::format("{} pieces were decided, the artifact has {} parts", pieces.size(),
                              meta.parts.size()))
        .Explain(
            2133, intent.meta_key,
            "the artifact was changed after it was decided; run the part again with retry-failed");
  }
  std::mutex intend_mutex;  // the scope is for one thread at a time
  const auto stage_one = [&](const Context& inner, int64_t i) -> Status {
    Piece& piece = pieces[static_cast<size_t>(i)];
    piece.token = PieceToken(piece.partition, fenced.serial, piece.number);
    {
      const std::lock_guard lock(intend_mutex);
      const Thing wish{.id = 0,
                       .kind = "dir",
                       .name = "pftmp_" + piece.token,
                       .uuid = target_.table_uuid,
                       .state = "INTENT",
                       .shard = 0};
      PF_TRY(scope.Intend(inner, wish));
    }
    return StagePiece(inner, intent, meta.parts[static_cast<size_t>(i)], piece);
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(pieces.size()), settings_.files_in_parallel,
                     stage_one));
  if (settings_.checks_table) PF_TRY(CheckStagedTable(ctx, pieces));
  PF_TRY(SyncDirectory(target_.detached()));
  PF_FAULT(ctx, "clickhouse.pieces_staged");
  return Staged{.staged = DumpJson(
                    JsonDoc{{"version", 1}, {"serial", fenced.serial}, {"pieces", pieces.size()}}),
                .pieces = std::move(pieces)};
}

Status PartCommitter::StagePiece(const Context& ctx, const Intent& intent, const ArtifactPart& part,
                                 Piece& piece) {
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, intent.bucket));
  const std::filesystem::path directory = target_.detached() / ("pftmp_" + piece.token);
  PF_TRY(RemoveTree(directory));  // an earlier try of this very epoch
  PF_TRY(FetchPart(ctx, *store, intent.finished_key, part, directory,
                   FetchPartOptions{.verify = VerifyLevel::kContent, .is_synced = true}));
  PF_TRY(GiveToOwner(directory, target_.owner_uid, target_.owner_gid));
  PF_ASSIGN(const DirectoryIdentity identity, IdentityOf(directory));
  piece.dev = identity.dev;
  piece.ino = identity.ino;
  PF_ASSIGN(const std::string checksums, ReadFile(directory / kChecksumsFile, kChecksumsBytesMax));
  piece.files_hash = Sha256Hex(checksums);
  PF_FAULT(ctx, "clickhouse.piece_staged");
  return {};
}

// Hard links of the staged directories in a scratch table on the same disk, CHECK TABLE, drop
// (clickhouse-parts §11.4).
Status PartCommitter::CheckStagedTable(const Context& ctx, const std::vector<Piece>& pieces) {
  const TableName scratch{target_.table.database, target_.table.table + "__partforge_check"};
  const std::string scratch_sql = QuoteTable(scratch.database, scratch.table);
  PF_TRY(engine_.Query(ctx, fmt::format("DROP TABLE IF EXISTS {} SYNC", scratch_sql), {}));
  PF_ASSIGN(CreateTable create, ParseCreateTable(target_.create_sql));
  create.name = scratch;
  create.uuid.clear();
  create.cluster.clear();
  PF_ASSIGN(const LocalDdl ddl, NormalizeDestination(create.ToSql(), DdlOptions{}));
  PF_TRY(engine_.Query(ctx, ddl.sql, {}));
  const auto run = [&]() -> Status {
    PF_TRY(engine_.Query(ctx, fmt::format("SYSTEM STOP MERGES {}", scratch_sql), {}));
    PF_ASSIGN(const ImportTarget check, ReadImportTarget(ctx, engine_, scratch));
    for (const Piece& piece : pieces) {
      const std::filesystem::path from = target_.detached() / ("pftmp_" + piece.token),
                                  to = check.detached() / piece.token;
      PF_ASSIGN(const std::vector<FileEntry> entries, ListTree(from));
      PF_TRY(MakeDirectories(to, 0750));
      for (const FileEntry& entry : entries) {
        std::error_code error;
        if (entry.is_directory) {
          std::filesystem::create_directory(to / entry.relative_path, error);
        } else {
          std::filesystem::create_hard_link(from / entry.relative_path, to / entry.relative_path,
                                            error);
        }
        if (error) return ErrnoStatus(error.value(), "link " + entry.relative_path);
      }
      PF_TRY(GiveToOwner(to, target_.owner_uid, target_.owner_gid));
      PF_TRY(engine_.Query(
          ctx, fmt::format("ALTER TABLE {} ATTACH PART {}", scratch_sql, QuoteString(piece.token)),
          {}));
    }
    return CheckTable(ctx, engine_, scratch);
  };
  const Status status = run();
  Context unstopped = ctx;
  unstopped.stop = {};
  const auto dropped =
      engine_.Query(unstopped, fmt::format("DROP TABLE IF EXISTS {} SYNC", scratch_sql), {});
  if (!dropped.ok()) Ignore(ctx, dropped.status(), "the next check drops the scratch table first");
  return status;
}

Status PartCommitter::Take(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const Intent intent, ReadIntent(fenced));
  PF_TRY(CheckTargetUuid(ctx, intent));
  PF_TRY(WaitForOlderStatements(ctx, fenced));
  return scope.Hold(ctx);
}

Status PartCommitter::CheckTargetUuid(const Context&, const Intent& intent) {
  if (intent.table_uuid == target_.table_uuid) return {};
  return Status(Code::kUnknownOutcome,
                fmt::format("the table had uuid {} when the import was decided, it has {} now",
                            intent.table_uuid, target_.table_uuid))
      .Explain(2138, target_.table.ToString(),
               "the table was created again or exchanged; name the table with the old uuid, or "
               "start a new job");
}

Status PartCommitter::WaitForOlderStatements(const Context& ctx, const Commit& fenced) {
  const std::string prefix = QueryPrefix(fenced.id);
  const std::string pattern = QuoteString(prefix + "%");
  const std::string sql = fmt::format(
      "SELECT query_id, Settings['log_comment'] FROM system.processes WHERE query_id LIKE {0} OR "
      "Settings['log_comment'] LIKE {0}",
      pattern);
  const int64_t started_ms = MonotonicMs();
  while (true) {
    PF_ASSIGN(const QueryOutcome outcome, engine_.Query(ctx, sql, {}));
    std::string oldest;
    for (const auto& row : SplitTsv(outcome.text)) {
      const std::string& id = row.at(0).starts_with(prefix) ? row.at(0) : row.at(1);
      if (EpochOfQuery(id) < fenced.epoch) oldest = id;
    }
    if (oldest.empty()) return {};
    const Status killed = engine_.Kill(ctx, oldest);
    Ignore(ctx, killed, "it is asked again");
    if (MonotonicMs() - started_ms > settings_.old_statement_ms_max) {
      return Status(Code::kUnknownOutcome, fmt::format("old statement still running: {}", oldest))
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
  JsonDoc receipt_parts = JsonDoc::array();
  int64_t rows = 0;
  for (const Piece& piece : pieces) {
    if (piece.state != PieceState::kConfirmed && piece.state != PieceState::kReplaced) {
      const std::lock_guard lock(apply_mutex_);
      PF_TRY(ApplyPiece(ctx, fenced, piece, scope));
    }
    rows += piece.rows;
    receipt_parts.push_back(
        JsonDoc{{"part", piece.stage_part}, {"token", piece.token}, {"rows", piece.rows}});
    PF_TRY(ctx.CheckStop("publishing"));
  }
  const JsonDoc receipt{{"version", 1},
                        {"commit_id", fenced.id},
                        {"table_uuid", target_.table_uuid},
                        {"table", target_.table.ToString()},
                        {"rows", rows},
                        {"parts", receipt_parts},
                        {"time_ms", ctx.clock.NowMs()}};
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, intent.bucket));
  PF_TRY(WriteObject(ctx, *store, intent.receipt_key, DumpJsonPretty(receipt)));
  PF_FAULT(ctx, "clickhouse.receipt_written");
  return DumpJson(JsonDoc{{"version", 1},
                          {"rows", rows},
                          {"parts", pieces.size()},
                          {"receipt_key", intent.receipt_key}});
}

Status PartCommitter::ApplyPiece(const Context& ctx, const Commit& fenced, Piece piece,
                                 CommitScope& scope) {
  const std::filesystem::path detached = target_.detached();
  const std::filesystem::path placed = detached / piece.token;
  int64_t statement = 0;
  bool has_attached = false;  // this call saw its own statement succeed
  for (int64_t tries = 0; tries < kAttachTriesMax; ++tries) {
    PF_TRY(scope.Hold(ctx));
    PF_ASSIGN(const PieceSeen seen, has_attached ? LookForPiece(ctx, engine_, target_, piece)
                                                 : LookUntilStable(ctx, engine_, target_, piece));
    switch (seen.place) {
      case PiecePlace::kStaged:
        if (piece.state == PieceState::kStaged) {
          PF_TRY(scope.Mark(ctx, std::span(&piece, 1), PieceState::kSent));
          piece.state = PieceState::kSent;
          PF_FAULT(ctx, "clickhouse.piece_sent");
        }
        PF_TRY(WaitForRoom(ctx, piece));
        PF_TRY(RenameNoReplace(detached / seen.name, placed));
        PF_TRY(SyncDirectory(detached));
        PF_FAULT(ctx, "clickhouse.piece_placed");
        continue;
      case PiecePlace::kInterrupted:
      case PiecePlace::kSetAside:
        PF_TRY(RenameNoReplace(detached / seen.name, placed));
        PF_TRY(SyncDirectory(detached));
        continue;
      case PiecePlace::kTrashed:
        return Status(Code::kRefused, "the piece was taken back")
            .Explain(2148, target_.table.ToString(), "nothing: the artifact is taken back");
      case PiecePlace::kPlaced: {
        if (has_attached) {
          return InDoubt(piece, target_.table.ToString(),
                         "the engine reported success and kept the part out (content deduplication "
                         "of a replicated table)");
        }
        if (piece.state == PieceState::kStaged) {
          PF_TRY(scope.Mark(ctx, std::span(&piece, 1), PieceState::kSent));
          piece.state = PieceState::kSent;
        }
        const Status attached = AttachPiece(ctx, fenced, piece, ++statement);
        PF_FAULT(ctx, "clickhouse.attach_sent");
        if (attached.ok()) {
          has_attached = true;
          continue;
        }
        const Code code = attached.code();
        if (code == Code::kUnknownOutcome || ClickHouseNumber(attached) == 233)
          continue;  // look at the target
        const FailureClass failure_class = FailureClassOf(attached);
        const bool passes =
            failure_class == FailureClass::kTransient || failure_class == FailureClass::kResource;
        if (code == Code::kCancelled || code == Code::kLeaseLost) return attached;
        if (!passes)
          return Status(attached)
              .As(Code::kRefused)
              .Explain(2148, fmt::format("{} part {}", target_.table.ToString(), piece.stage_part),
                       "see the engine's message; correct the job, then partforge retry-failed");
        ctx.log.Warn("attach is tried again",
                     {{"piece", piece.token}, {"error", attached.message()}});
        ctx.clock.SleepMs(std::min<int64_t>(kPollMs * (tries + 1), 10'000), ctx.stop);
        PF_TRY(ctx.CheckStop("attaching"));
        continue;
      }
      case PiecePlace::kUnlisted:
        // In the table's folder but unknown to the engine: it was not durable, or the engine is
        // still loading.
        if (tries > 10)
          return InDoubt(
              piece, target_.table.ToString(),
              fmt::format("directory {} of the table is not listed in system.parts", seen.name));
        ctx.clock.SleepMs(kPollMs, ctx.stop);
        PF_TRY(ctx.CheckStop("waiting for the engine"));
        continue;
      case PiecePlace::kAbsent:
        if (!has_attached && piece.state == PieceState::kStaged) {
          return InDoubt(piece, target_.table.ToString(),
                         "the bound directory is gone although it was never sent");
        }
        if (!has_attached && target_.is_replicated()) {
          return InDoubt(
              piece, target_.table.ToString(),
              "absent from a replicated table: attached and merged, or put aside by the engine");
        }
        [[fallthrough]];  // SENT and absent for good: attached, and merged away since
      case PiecePlace::kAttached:
        PF_TRY(SyncTarget());
        PF_FAULT(ctx, "clickhouse.piece_attached");
        PF_TRY(scope.Mark(ctx, std::span(&piece, 1), PieceState::kConfirmed));
        PF_FAULT(ctx, "clickhouse.piece_confirmed");
        ctx.metrics.Add("partforge_publish_parts", {{"state", "confirmed"}});
        return {};
    }
  }
  return Status(Code::kUnavailable, fmt::format("piece {} could not be attached within {} tries",
                                                piece.token, kAttachTriesMax))
      .Explain(7008, target_.table.ToString(),
               "look at the server's log, then run the import again");
}

Status PartCommitter::AttachPiece(const Context& ctx, const Commit& fenced, const Piece& piece,
                                  int64_t number) {
  QueryOptions options;
  options.query_id =
      fmt::format("{}{}-e{}-{}", QueryPrefix(fenced.id), piece.number, fenced.epoch, number);
  // A repeated try of the same epoch must not meet its own earlier id.
  options.query_id += fmt::format(".{}", RandomHex(ctx.random, 4));
  PF_TRY(engine_.Query(ctx,
                       fmt::format("ALTER TABLE {} ATTACH PART {}",
                                   QuoteTable(target_.table.database, target_.table.table),
                                   QuoteString(piece.token)),
                       options));
  return {};
}

Status PartCommitter::WaitForRoom(const Context& ctx, const Piece& piece) {
  if (settings_.throttle_parts <= 0) return {};
  const std::string sql = fmt::format(
      "SELECT count() FROM system.parts WHERE database = {} AND table = {} AND partition_id = {} "
      "AND active",
      QuoteString(target_.table.database), QuoteString(target_.table.table),
      QuoteString(piece.partition));
  for (int64_t waited = 0;; ++waited) {
    PF_ASSIGN(const int64_t parts, QueryInt(ctx, engine_, sql, {}));
    if (parts < settings_.throttle_parts) return {};
    if (waited % 30 == 0)
      ctx.log.Info(
          "waiting for merges of the destination",
          {{"partition", piece.partition}, {"parts", parts}, {"limit", settings_.throttle_parts}});
    ctx.clock.SleepMs(kPollMs, ctx.stop);
    PF_TRY(ctx.CheckStop("waiting for merges of the destination"));
  }
}

Status PartCommitter::SyncTarget() const {
  PF_TRY(SyncDirectory(target_.data_path));
  return SyncDirectory(target_.detached());
}

Status PartCommitter::Retract(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_TRY(WaitForOlderStatements(ctx, fenced));
  PF_ASSIGN(const std::vector<Piece> pieces, scope.Pieces(ctx));
  const std::filesystem::path detached = target_.detached();
  std::vector<PieceSeen> seen;
  for (const Piece& piece : pieces) {
    PF_ASSIGN(PieceSeen one, LookUntilStable(ctx, engine_, target_, piece));
    const bool is_in_detached =
        one.place == PiecePlace::kStaged || one.place == PiecePlace::kPlaced ||
        one.place == PiecePlace::kInterrupted || one.place == PiecePlace::kSetAside ||
        one.place == PiecePlace::kTrashed;
    if (!is_in_detached) {
      return InDoubt(
          piece, target_.table.ToString(),
          fmt::format("the artifact cannot be taken back, this piece is {}", PlaceName(one.place)));
    }
    seen.push_back(std::move(one));
  }
  if (!IsRetracting(fenced)) {
    PF_ASSIGN(JsonDoc staged, ParseJson(fenced.staged));
    staged["retract"] = true;
    // From here on every holder of the fence only retracts.
    PF_TRY(scope.Rebind(ctx, DumpJson(staged), pieces));
    PF_FAULT(ctx, "clickhouse.retract_bound");
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::filesystem::path trash = detached / ("pftrash_" + pieces[i].token);
    while (seen[i].place != PiecePlace::kTrashed) {
      const Status renamed = RenameNoReplace(detached / seen[i].name, trash);
      if (!renamed.ok() && renamed.code() != Code::kNotFound) return renamed;
      // A stalled statement may have moved it between the look and the rename: look again.
      PF_ASSIGN(seen[i], LookUntilStable(ctx, engine_, target_, pieces[i]));
      if (seen[i].place == PiecePlace::kAttached || seen[i].place == PiecePlace::kUnlisted ||
          seen[i].place == PiecePlace::kAbsent) {
        return InDoubt(pieces[i], target_.table.ToString(),
                       "the piece was attached while the artifact was taken back");
      }
    }
    PF_FAULT(ctx, "clickhouse.piece_trashed");
  }
  return SyncDirectory(detached);
}

Status PartCommitter::Clean(const Context& ctx, const Commit&, CommitScope& scope) {
  PF_ASSIGN(const std::vector<Thing> things, scope.Things(ctx));
  for (const Thing& thing : things) {
    if (thing.state == "GONE" || thing.kind != "dir") continue;
    // The name is "pftmp_<token>"; what was placed has no such directory any more. Only names that
    // we announced are removed.
    PF_TRY(CheckRelativePath(thing.name));
    if (!thing.name.starts_with("pftmp_"))
      return Status(Code::kRefused, "not a name of ours: " + thing.name);
    const std::string token = thing.name.substr(6);
    PF_TRY(RemoveTree(target_.detached() / thing.name));
    PF_TRY(RemoveTree(target_.detached() / ("pftrash_" + token)));
    Thing gone = thing;
    gone.state = "GONE";
    PF_TRY(scope.SetThing(ctx, thing, gone));
  }
  return {};
}

}  // namespace partforge::clickhouse
