#include "clickhouse/part_committer.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "base/parallel_for.h"
#include "clickhouse/artifact_fetch.h"
#include "clickhouse/piece_evidence.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/staged_check.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int kDiffers = 2133;
constexpr std::string_view kTokenProtocol = "TOKEN";
constexpr std::string_view kSerialKind = "dir";
constexpr uint64_t kFirstEpoch = 1;  // of the first fence of a commit
constexpr std::string_view kNoUuid = "00000000-0000-0000-0000-000000000000";
constexpr int64_t kReceiptBytesMax = int64_t{1} << 26;

}  // namespace

PartCommitter::PartCommitter(StateReader& state, StoreOfBucket store_of_bucket, Engine& engine,
                             ImportTarget target, ImportSettings settings)
    : state_(state),
      store_of_bucket_(std::move(store_of_bucket)),
      engine_(engine),
      target_(std::move(target)),
      settings_(settings) {}

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

// A receipt of another commit for this very table: the rows are there already, decided from another
// state store (PF2134).
Status PartCommitter::CheckNoReceipt(const Context& ctx, const CommitId& commit,
                                     const Intent& intent) const {
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, intent.bucket));
  const Result<std::string> text = ReadObject(ctx, *store, intent.receipt_key, kReceiptBytesMax);
  if (!text.ok() && text.status().code() == Code::kNotFound) return {};
  PF_TRY(text);
  const Result<JsonDoc> doc = ParseJson(*text);
  const auto field = [&](const char* name) -> std::string {
    if (!doc.ok() || !doc->is_object()) return {};
    const auto found = doc->find(name);
    return found != doc->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string placed_by = field("commit_id"), table_uuid = field("table_uuid"),
                    receipt_state = field("state");
  if (placed_by.empty() || table_uuid.empty()) {
    return Status(Code::kRefused, "not a receipt of an import: " + intent.receipt_key)
        .Explain(2133, intent.receipt_key,
                 "look whether the artifact's rows are in the table; remove the object if they are "
                 "not");
  }
  // Databases without table uuids know their tables by name only.
  const bool is_here = table_uuid == target_.table_uuid &&
                       (table_uuid != kNoUuid || field("table") == target_.table.ToString());
  if (!is_here || placed_by == commit || receipt_state == kTakenBack) return {};
  const bool is_placed = receipt_state != kAttaching;
  return Status(Code::kRefused,
                fmt::format("commit {} {} it here, this state store does not know it", placed_by,
                            is_placed ? "placed" : "began to place"))
      .Explain(2134, intent.receipt_key,
               "use the state store that knows the import; if the rows were removed from the table "
               "on purpose, remove the receipt and import again");
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
  PF_TRY(CheckNoReceipt(ctx, proposal.id, intent));
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
  if (intent.table_uuid != target_.table_uuid) {
    return Status(Code::kRefused, fmt::format("the table had uuid {} when the import was decided, "
                                              "it has {} now",
                                              intent.table_uuid, target_.table_uuid))
        .Explain(2138, target_.table.ToString(),
                 "nothing was placed; partforge retry-failed, then run the import again");
  }
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
  if (!pieces.empty()) PF_TRY(AnnounceSerial(ctx, fenced, fenced.serial, scope));
  const auto stage_one = [&](const Context& inner, int64_t i) -> Status {
    Piece& piece = pieces[static_cast<size_t>(i)];
    piece.token = PieceToken(piece.partition, fenced.serial, piece.number);
    return StagePiece(inner, intent, meta.parts[static_cast<size_t>(i)], piece);
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(pieces.size()), settings_.files_in_parallel,
                     stage_one));
  if (!pieces.empty()) {
    // Once one part is attached an artifact can only be completed: so the server is asked about all
    // of them first. An artifact of one part is simply attached, and taken back when it is refused.
    if (settings_.checks_table || pieces.size() > 1) {
      PF_TRY(CheckStagedPieces(
          ctx, engine_, target_, pieces, fenced.serial,
          settings_.checks_table ? StagedCheck::kCheckTable : StagedCheck::kAttach));
    }
    PF_TRY(SyncDirectory(target_.detached()));
  }
  PF_FAULT(ctx, "clickhouse.pieces_staged");
  Json staged =
      DumpJson(JsonDoc{{"version", 1}, {"serial", fenced.serial}, {"pieces", pieces.size()}});
  return Staged{.staged = std::move(staged), .pieces = std::move(pieces)};
}

// One intent for all directories of a serial, before the first is made: Clean finds them by it.
Status PartCommitter::AnnounceSerial(const Context& ctx, const Commit& fenced, uint64_t serial,
                                     CommitScope& scope) {
  PF_ASSIGN(Thing thing, scope.Intend(ctx, Thing{.id = 0,
                                                 .kind = std::string(kSerialKind),
                                                 .name = fmt::format("{}/{}", fenced.id, serial),
                                                 .uuid = target_.table_uuid,
                                                 .state = "INTENT",
                                                 .shard = 0}));
  const std::lock_guard hold(announced_mutex_);
  announced_[fenced.id].push_back(std::move(thing));
  return {};
}

Status PartCommitter::StagePiece(const Context& ctx, const Intent& intent, const ArtifactPart& part,
                                 Piece& piece) {
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, intent.bucket));
  const std::filesystem::path directory = target_.detached() / ("pftmp_" + piece.token);
  const auto fetch = [&]() -> Status {
    PF_TRY(RemoveTree(directory));  // an earlier try of this very epoch
    PF_TRY(FetchPart(ctx, *store, intent.finished_key, part, directory,
                     FetchPartOptions{.verify = VerifyLevel::kContent, .is_synced = true}));
    return {};
  };
  Status fetched = fetch();
  // Damaged on its way, perhaps (clickhouse-parts §15 row 9).
  if (!fetched.ok() && fetched.explanation().pf_number == kDiffers) {
    ctx.log.Warn("an artifact differs from its description and is fetched again",
                 {{"part", part.name}, {"error", fetched.message()}});
    fetched = fetch();
  }
  std::error_code ignored;
  if (!fetched.ok() && !std::filesystem::exists(target_.detached(), ignored)) {
    // The table went away: nothing that was met then tells of the artifact.
    constexpr int kRefusedByMachine = 7015;
    return std::move(fetched)
        .As(Code::kRefused)
        .Explain(kRefusedByMachine, target_.detached().string(), "see what became of the table");
  }
  PF_TRY(fetched);
  PF_TRY(GiveToOwner(directory, target_.owner_uid, target_.owner_gid));
  PF_ASSIGN(const DirectoryIdentity identity, IdentityOf(directory));
  piece.dev = identity.dev;
  piece.ino = identity.ino;
  PF_ASSIGN(const std::string checksums, ReadFile(directory / kChecksumsFile, kChecksumsBytesMax));
  piece.files_hash = Sha256Hex(checksums);
  PF_FAULT(ctx, "clickhouse.piece_staged");
  return {};
}

// What this commit has announced, and possibly things of others. The list of the store is as long
// as the job, so it is asked only about commits that another holder of the fence has begun.
Result<std::vector<Thing>> PartCommitter::ThingsOf(const Context& ctx, const Commit& fenced,
                                                   CommitScope& scope) {
  if (fenced.epoch != kFirstEpoch) return scope.Things(ctx);
  const std::lock_guard hold(announced_mutex_);
  const auto found = announced_.find(fenced.id);
  return found == announced_.end() ? std::vector<Thing>() : found->second;
}

Status PartCommitter::RemoveStaged(const std::set<uint64_t>& serials) const {
  PF_ASSIGN(const std::vector<std::string> names, ListNames(target_.detached()));
  for (const std::string& name : names) {
    const auto serial = SerialOfStagedName(name);
    if (serial && serials.contains(*serial)) PF_TRY(RemoveTree(target_.detached() / name));
  }
  return {};
}

// A fence draws another serial only while nothing is bound, so what lies under one that is no
// longer the commit's is not bound and never will be.
Status PartCommitter::Forget(const Context& ctx, const Commit& fenced) {
  PF_ASSIGN(const Commit now, state_.GetCommit(ctx, fenced.id));
  if (now.serial == fenced.serial) return {};
  return RemoveStaged({fenced.serial});
}

// Removes what was staged under any serial of this commit. Nothing of it is bound any more: the
// commit is PUBLISHED or ABORTED.
Status PartCommitter::Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const std::vector<Thing> things, ThingsOf(ctx, fenced, scope));
  const std::string prefix = fenced.id + "/";
  std::vector<Thing> mine;
  std::set<uint64_t> serials;
  for (const Thing& thing : things) {
    if (thing.kind != kSerialKind || thing.state == "GONE" || !thing.name.starts_with(prefix))
      continue;
    mine.push_back(thing);
    uint64_t serial = 0;
    const char* const end = thing.name.data() + thing.name.size();
    const auto parsed = std::from_chars(thing.name.data() + prefix.size(), end, serial);
    if (parsed.ec != std::errc() || parsed.ptr != end)
      return Status(Code::kCorruption, "intent of a commit names no serial: " + thing.name);
    // A table that was created anew took the old one's folder with it.
    if (thing.uuid == target_.table_uuid) serials.insert(serial);
  }
  if (!serials.empty()) {
    PF_TRY(RemoveStaged(serials));
    PF_ASSIGN(const std::vector<Piece> pieces, scope.Pieces(ctx));
    // An earlier holder of the fence may have checked what this run would not.
    if (settings_.checks_table || pieces.size() > 1 || fenced.epoch != kFirstEpoch) {
      for (const uint64_t serial : serials) {
        Status dropped = DropStagedCheck(ctx, engine_, target_, serial);
        if (dropped.ok()) continue;
        // What may pass is tried again: with the intent gone nobody would look for the table.
        const Code code = dropped.code();
        if (code == Code::kCancelled || code == Code::kUnavailable || code == Code::kUnknownOutcome)
          return dropped;
        Ignore(ctx, dropped, "an empty scratch table stays; its name says whose it is");
      }
    }
  }
  for (const Thing& thing : mine) {
    Thing gone = thing;
    gone.state = "GONE";
    PF_TRY(scope.SetThing(ctx, thing, gone));
  }
  const std::lock_guard hold(announced_mutex_);
  announced_.erase(fenced.id);
  return {};
}

}  // namespace partforge::clickhouse
