#include "clickhouse/piece_evidence.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "base/files.h"
#include "clickhouse/checksums.h"
#include "clickhouse/local_tables.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr uint64_t kBlockBase = uint64_t{1} << 62;
constexpr int kLooksForAbsence = 4;
constexpr int64_t kLookPauseMs = 1000;

// Names under which the engine puts a directory of detached/ aside (exactly-once §6.1).
constexpr std::array<std::string_view, 7> kAsidePrefixes = {
    "ignored_",           "unexpected_", "broken_", "broken-on-start_",
    "covered-by-broken_", "noquorum_",   "clone_"};

bool IsOurs(const std::filesystem::path& directory, const Piece& piece) {
  const Result<DirectoryIdentity> identity = IdentityOf(directory);
  return identity.ok() && identity->dev == piece.dev && identity->ino == piece.ino;
}

// An inode number may be used again after a directory is gone: the content decides.
bool HasOurFiles(const std::filesystem::path& directory, const Piece& piece) {
  const Result<std::string> text = ReadFile(directory / kChecksumsFile, kChecksumsBytesMax);
  return text.ok() && Sha256Hex(*text) == piece.files_hash;
}

Result<std::optional<std::string>> FindByIdentity(const std::filesystem::path& folder,
                                                  const Piece& piece, bool is_detached) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return ErrnoStatus(error.value(), "list " + folder.string());
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (error) return ErrnoStatus(error.value(), "list " + folder.string());
    const std::string name = entries->path().filename().string();
    if (is_detached) {
      bool is_aside = false;
      for (const std::string_view prefix : kAsidePrefixes)
        is_aside = is_aside || name.starts_with(prefix);
      if (!is_aside) continue;
    } else if (name == "detached") {
      continue;
    }
    if (IsOurs(entries->path(), piece) && HasOurFiles(entries->path(), piece))
      return std::optional<std::string>(name);
  }
  return std::optional<std::string>();
}

}  // namespace

std::string_view PlaceName(PiecePlace place) {
  switch (place) {
    case PiecePlace::kStaged:
      return "staged";
    case PiecePlace::kPlaced:
      return "placed";
    case PiecePlace::kInterrupted:
      return "interrupted";
    case PiecePlace::kSetAside:
      return "set aside";
    case PiecePlace::kTrashed:
      return "trashed";
    case PiecePlace::kAttached:
      return "attached";
    case PiecePlace::kUnlisted:
      return "unlisted";
    case PiecePlace::kAbsent:
      return "absent";
  }
  return "absent";
}

std::string PieceToken(std::string_view partition_id, uint64_t serial, int64_t piece_number) {
  const uint64_t block = kBlockBase + (serial << 20) + static_cast<uint64_t>(piece_number);
  return fmt::format("{}_{}_{}_0", partition_id, block, block);
}

Result<PieceSeen> LookForPiece(const Context& ctx, Engine& engine, const ImportTarget& target,
                               const Piece& piece) {
  const std::filesystem::path detached = target.detached();
  const std::pair<std::string, PiecePlace> names[] = {
      {"pftmp_" + piece.token, PiecePlace::kStaged},
      {piece.token, PiecePlace::kPlaced},
      {"attaching_" + piece.token, PiecePlace::kInterrupted},
      {"pftrash_" + piece.token, PiecePlace::kTrashed}};
  for (const auto& [name, place] : names) {
    const Result<DirectoryIdentity> identity = IdentityOf(detached / name);
    if (!identity.ok() && identity.status().code() == Code::kNotFound) continue;
    if (!identity.ok()) return identity.status();
    if (identity->dev == piece.dev && identity->ino == piece.ino) return PieceSeen{place, name};
    return Status(Code::kUnknownOutcome,
                  fmt::format("detached/{} is not the directory that was bound", name))
        .Explain(2138, target.table.ToString(),
                 "somebody put another directory under that name; move it away and run the import "
                 "again");
  }
  PF_ASSIGN(const std::optional<std::string> aside, FindByIdentity(detached, piece, true));
  if (aside) return PieceSeen{PiecePlace::kSetAside, *aside};
  PF_ASSIGN(const std::optional<std::string> inside,
            FindByIdentity(target.data_path, piece, false));
  if (!inside) return PieceSeen{};
  PF_ASSIGN(
      const int64_t listed,
      QueryInt(
          ctx, engine,
          fmt::format(
              "SELECT count() FROM system.parts WHERE database = {} AND table = {} AND name = {}",
              QuoteString(target.table.database), QuoteString(target.table.table),
              QuoteString(*inside)),
          {}));
  return PieceSeen{listed > 0 ? PiecePlace::kAttached : PiecePlace::kUnlisted, *inside};
}

Result<PieceSeen> LookUntilStable(const Context& ctx, Engine& engine, const ImportTarget& target,
                                  const Piece& piece) {
  for (int look = 1;; ++look) {
    PF_ASSIGN(PieceSeen seen, LookForPiece(ctx, engine, target, piece));
    const bool is_final = seen.place != PiecePlace::kAbsent && seen.place != PiecePlace::kUnlisted;
    if (is_final || look >= kLooksForAbsence) return seen;
    ctx.clock.SleepMs(kLookPauseMs, ctx.stop);
    PF_TRY(ctx.CheckStop("looking for a piece"));
  }
}

}  // namespace partforge::clickhouse
