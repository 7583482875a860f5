#pragma once

#include "base/error.h"
#include "job/failure.h"

namespace partforge::clickhouse {

// A failure with the number that the engine or a server gave it; the class is the Code's. Requires
// !status.ok(). The reader of failures of rewrite jobs (JobKind::read_failure).
Failure ReadEngineFailure(const Status& status);

}  // namespace partforge::clickhouse
