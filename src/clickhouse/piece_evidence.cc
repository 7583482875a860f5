#include "clickhouse/piece_evidence.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/files.h"
#include "clickhouse/checksums.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/part_name.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr uint64_t kBlockBase = uint64_t{1} << 62;
constexpr int kPieceBits = 20;
constexpr std::string_view kStagedPrefix = "pftmp_", kTrashPrefix = "pftrash_",
                           kAttachingPrefix = "attaching_";
constexpr int kLooksForAbsence = 4;
constexpr int64_t kLookPauseMs = 1000;

// A look that failed says nothing about the piece: it may be there. So it is tried again later, and
// is never the reason to take anything back.
Status CannotLook(Status why) {
  return std::move(why).As(Code::kUnavailable);
}

// What has this name: empty when nothing has. A file has no identity that a piece could have.
Result<std::optional<DirectoryIdentity>> IdentityAt(const std::filesystem::path& path) {
  using Found = std::optional<DirectoryIdentity>;
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Found();
    return CannotLook(ErrnoStatus(errno, "look at " + path.string()));
  }
  if (!S_ISDIR(info.st_mode)) return Found(DirectoryIdentity{});
  return Found(DirectoryIdentity{.dev = info.st_dev, .ino = info.st_ino});
}

bool IsIdentityOf(const DirectoryIdentity& identity, const Piece& piece) {
  return identity.dev == piece.dev && identity.ino == piece.ino;
}

// Whether a directory is the bound one. An inode number may be used again after a directory is
// gone: the content decides. (An artifact of the reference has no recorded hash; then the identity
// has to do.)
Result<bool> IsOurs(const std::filesystem::path& directory, const Piece& piece) {
  PF_ASSIGN(const std::optional<DirectoryIdentity> identity, IdentityAt(directory));
  if (!identity || !IsIdentityOf(*identity, piece)) return false;
  if (piece.files_hash.empty()) return true;
  const Result<std::string> text = ReadFile(directory / kChecksumsFile, kChecksumsBytesMax);
  if (text.ok()) return Sha256Hex(*text) == piece.files_hash;
  if (text.status().code() == Code::kNotFound) return false;  // a part that is being written
  return CannotLook(text.status());
}

// The name of the entry of `folder` that is the bound directory, wherever it was moved to.
Result<std::optional<std::string>> FindByIdentity(const std::filesystem::path& folder,
                                                  const Piece& piece) {
  Result<std::vector<std::string>> names = ListNames(folder);
  if (!names.ok()) return CannotLook(std::move(names).status());
  for (std::string& name : *names) {
    PF_ASSIGN(const bool is_ours, IsOurs(folder / name, piece));
    if (is_ours) return std::optional<std::string>(std::move(name));
  }
  return std::optional<std::string>();
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// The same, but only where the folder's own list tells the inode number: one read of the list, no
// look at each of thousands of parts. File systems may tell other numbers there than stat
// (overlay), so absence proves nothing.
Result<std::optional<std::string>> FindByListedInode(const std::filesystem::path& folder,
                                                     const Piece& piece) {
  const auto cannot = [&folder](int error_number) {
    return CannotLook(ErrnoStatus(error_number, "list " + folder.string()));
  };
  const std::unique_ptr<DIR, CloseDirectory> list(opendir(folder.c_str()));
  if (list == nullptr) return cannot(errno);
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(list.get());
    if (entry == nullptr && errno != 0) return cannot(errno);
    if (entry == nullptr) return std::optional<std::string>();
    const std::string name = entry->d_name;
    if (entry->d_ino != piece.ino || name == "." || name == "..") continue;
    PF_ASSIGN(const bool is_ours, IsOurs(folder / name, piece));
    if (is_ours) return std::optional<std::string>(name);
  }
}

// In the table's folder; whether the engine knows it there is for the engine to say.
Result<PieceSeen> InTable(const Context& ctx, Engine& engine, const ImportTarget& target,
                          const std::string& name) {
  PF_ASSIGN(
      const int64_t listed,
      QueryInt(
          ctx, engine,
          fmt::format(
              "SELECT count() FROM system.parts WHERE database = {} AND table = {} AND name = {}",
              QuoteString(target.table.database), QuoteString(target.table.table),
              QuoteString(name)),
          {}));
  return PieceSeen{listed > 0 ? PiecePlace::kAttached : PiecePlace::kUnlisted, name};
}

// What a name of detached/ that is none of the piece's present ones means.
PiecePlace PlaceOfOtherName(std::string_view name) {
  // Under an earlier token: a retract was turned back and the piece bound anew (clickhouse-parts
  // §11.6).
  if (name.starts_with(kStagedPrefix) || name.starts_with(kTrashPrefix)) return PiecePlace::kStaged;
  if (name.starts_with(kAttachingPrefix)) return PiecePlace::kInterrupted;
  // ignored_, unexpected_, broken_, clone_ and the like by the engine, or whatever an operator
  // chose.
  return PiecePlace::kSetAside;
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
  const uint64_t block = kBlockBase + (serial << kPieceBits) + static_cast<uint64_t>(piece_number);
  return fmt::format("{}_{}_{}_0", partition_id, block, block);
}

std::optional<uint64_t> SerialOfStagedName(std::string_view name) {
  for (const std::string_view prefix : {kStagedPrefix, kTrashPrefix}) {
    if (!name.starts_with(prefix)) continue;
    const Result<PartName> token = ParsePartName(name.substr(prefix.size()));
    if (!token.ok() || token->min_block != token->max_block || token->level != 0) return {};
    const auto block = static_cast<uint64_t>(token->min_block);
    if (block < kBlockBase) return {};
    return (block - kBlockBase) >> kPieceBits;
  }
  return {};
}

Result<PieceSeen> LookForPiece(const Context& ctx, Engine& engine, const ImportTarget& target,
                               const Piece& piece) {
  const std::filesystem::path detached = target.detached();
  const std::pair<std::string, PiecePlace> names[] = {
      {std::string(kStagedPrefix) + piece.token, PiecePlace::kStaged},
      {piece.token, PiecePlace::kPlaced},
      {std::string(kAttachingPrefix) + piece.token, PiecePlace::kInterrupted},
      {std::string(kTrashPrefix) + piece.token, PiecePlace::kTrashed}};
  for (const auto& [name, place] : names) {
    PF_ASSIGN(const std::optional<DirectoryIdentity> identity, IdentityAt(detached / name));
    if (!identity) continue;
    if (IsIdentityOf(*identity, piece)) return PieceSeen{place, name};
    return Status(Code::kUnknownOutcome,
                  fmt::format("detached/{} is not the directory that was bound", name))
        .Explain(2138, target.table.ToString(),
                 "somebody put another directory under that name; move it away and run the import "
                 "again");
  }
  // Attached is how most looks end.
  PF_ASSIGN(const std::optional<std::string> listed, FindByListedInode(target.data_path, piece));
  if (listed) return InTable(ctx, engine, target, *listed);
  PF_ASSIGN(const std::optional<std::string> other, FindByIdentity(detached, piece));
  if (other) return PieceSeen{PlaceOfOtherName(*other), *other};
  PF_ASSIGN(const std::optional<std::string> inside, FindByIdentity(target.data_path, piece));
  return inside ? InTable(ctx, engine, target, *inside) : PieceSeen{};
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
