#pragma once

#include <span>

#include "job/commit.h"
#include "job/sql_db.h"

namespace partforge {

// Takes all locks for one holder inside a transaction, in the order of targets, each under its
// target's mutex. kConflict when another holder's lock excludes one of them (specs state-schema
// §4.9).
Status TakeLocks(SqlSession& session, const JobId& job, std::string_view holder,
                 std::span<const LockWish> wishes);

}  // namespace partforge
