#pragma once

#include <cstdint>
#include <vector>

#include "base/context.h"
#include "clickhouse/import_target.h"
#include "engine/engine.h"
#include "job/commit.h"

namespace partforge::clickhouse {

enum class StagedCheck : uint8_t {
  kAttach,      // the server takes every part; skipped where no scratch table can be made
  kCheckTable,  // and reads each of them whole: CHECK TABLE
};

// Asks the server, before anything is bound, whether it would take the staged parts: hard links of
// detached/pftmp_<token> are attached to a scratch table of the target's structure on the same
// disk,
// "<table>__partforge_check_<serial>", which is dropped again. Fails with what the server said
// about the first part it refused. A crash leaves the table; DropStagedCheck removes it.
Status CheckStagedPieces(const Context& ctx, Engine& engine, const ImportTarget& target,
                         const std::vector<Piece>& pieces, uint64_t serial, StagedCheck check);
Status DropStagedCheck(const Context& ctx, Engine& engine, const ImportTarget& target,
                       uint64_t serial);

}  // namespace partforge::clickhouse
