#pragma once

#include <string>
#include <string_view>

#include "base/context.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/rewrite_job.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

// The zone in which an engine reads and writes times without a zone of their own: toDate, toHour
// and every partition key of a DateTime depend on it.
Result<std::string> ReadTimeZone(const Context& ctx, Engine& engine);

// Equal names, or two names of UTC. Pure.
bool IsSameTimeZone(std::string_view a, std::string_view b);

// A part made in another zone may lie in the wrong partition of this table and hold other dates.
// kRefused (PF2121) when `engine` has another zone than the job.
Status CheckTimeZone(const Context& ctx, Engine& engine, const RewriteJobSpec& job,
                     const TableName& table);

}  // namespace partforge::clickhouse
