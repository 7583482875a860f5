#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/wire.h"
#include "clickhouse/upload_freeze.h"
#include "engine/engine.h"

namespace partforge::app {

// The checks of a source before its freeze, without what --apply-patches and --wait-mutations would
// do about it: that they would is a note. Writes nothing.
Result<std::vector<std::string>> CheckSourceOnly(const CommandInput& input, Engine& server,
                                                 const clickhouse::TableName& table);

// The job as an earlier run of `rewrite` left it; none when there is no such job.
Result<std::optional<JobView>> EarlierJob(const CommandInput& input, SqlJobStore& state,
                                          const std::string& job_id);

// The job of an earlier run must be this very one: to go on with another, or to say that it is
// done, would be untrue of the table that is named now. kConflict (PF6006) otherwise.
Status CheckSameRequest(const JobView& view, const clickhouse::UploadFreezeRequest& request);

// Whether the right to write to detached/ is tried with a folder that is removed again, or looked
// up.
enum class Probe : uint8_t { kTry, kLook };
// What the import would refuse at the end, asked before the first byte is copied. A destination
// that does not exist is made later.
Status CheckDestination(const CommandInput& input, Engine& server,
                        const clickhouse::UploadPlan& plan, Probe probe);

// What --dry-run prints: all checks, and how each part would be rewritten. Takes no freeze and no
// lock, makes no table, writes nothing but the scratch of its engine.
Status ShowRewritePlan(const CommandInput& input, Engine& server,
                       const clickhouse::UploadFreezeRequest& request, const MachineUse& use);

}  // namespace partforge::app
