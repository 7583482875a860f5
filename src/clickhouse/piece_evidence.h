#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/context.h"
#include "clickhouse/import_target.h"
#include "engine/engine.h"
#include "job/commit.h"

namespace partforge::clickhouse {

// Where the bound directory of a piece is now (exactly-once §6.1, table of evidence).
enum class PiecePlace : uint8_t {
  kStaged,       // detached/pftmp_<token>, or pftmp_, pftrash_ of an earlier token after a rebind
  kPlaced,       // detached/<token>
  kInterrupted,  // detached/attaching_<token>: an attach was cut off
  kSetAside,  // elsewhere in detached/: the engine put our directory aside (ignored_… and others)
  kTrashed,   // detached/pftrash_<token>: a retract is under way
  kAttached,  // in the table, listed in system.parts
  kUnlisted,  // in the table's folder, but not (yet) listed as active
  kAbsent,    // none of these, in one look
};
std::string_view PlaceName(PiecePlace place);

struct PieceSeen {
  PiecePlace place = PiecePlace::kAbsent;
  std::string name;  // of the directory, below detached/ or the table
};

// The part name under which a piece is placed: "<partition>_<B>_<B>_0" with B = 2^62 + serial·2^20
// + number.
std::string PieceToken(std::string_view partition_id, uint64_t serial, int64_t piece_number);
// The serial in "pftmp_<token>" or "pftrash_<token>"; empty for any other name.
std::optional<uint64_t> SerialOfStagedName(std::string_view name);

// One look at the target for one bound piece. Names are looked up one after the other, so kAbsent
// proves nothing alone. kUnavailable when a folder or a file cannot be read: then nothing is known.
Result<PieceSeen> LookForPiece(const Context& ctx, Engine& engine, const ImportTarget& target,
                               const Piece& piece);

// Looks again until the piece is found, or absent four times with a second between: nothing moves
// it any more.
Result<PieceSeen> LookUntilStable(const Context& ctx, Engine& engine, const ImportTarget& target,
                                  const Piece& piece);

}  // namespace partforge::clickhouse
