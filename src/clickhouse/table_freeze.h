#pragma once

#include <cstdint>
#include <string>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

enum class FreezeEnd : uint8_t {
  kMade,      // by this call
  kWasThere,  // a freeze of that name holds just the parts that the table has now
};

// kInvalidArgument (PF1005) on a name that no later command could read the freeze by, or that the
// server keeps for itself.
Status CheckFreezeName(const std::string& name);

// ALTER TABLE … FREEZE WITH NAME, all or nothing. FREEZE itself links part after part, so it runs
// under a name of our own (shadow/pftmp_…), and the finished folder is renamed to
// shadow/<name>/<table>, one rename a disk: what has the name is complete, and a run that was
// killed leaves only a pftmp_ folder, which the next run removes. A process that may not write to
// shadow/ lets the server freeze under the name itself, which is not all or nothing.
// kRefused (PF2127) when the name holds other parts of the table, which are left as they are;
// kConflict (PF6007) while another process freezes the table this way.
Result<FreezeEnd> FreezeTable(const Context& ctx, Engine& engine, const TableName& table,
                              const std::string& name);

// ALTER TABLE … UNFREEZE WITH NAME: removes the hard links of this table, and the folders that it
// leaves empty, where this process may.
Status UnfreezeTable(const Context& ctx, Engine& engine, const TableName& table,
                     const std::string& name);

}  // namespace partforge::clickhouse
