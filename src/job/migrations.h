#pragma once

#include <cstdint>

#include "job/sql_db.h"

namespace partforge {

// The number of the last migration this program knows.
inline constexpr int64_t kSchemaVersion = 1;

// The last migration applied to the store; 0 when there is none, or no schema at all.
Result<int64_t> ReadSchemaVersion(const Context& ctx, SqlDb& db);

// Applies what is missing, each migration in one transaction under the store's migration lock, so
// that several processes may do it at once. Returns how many this call applied. kRefused with
// PF6002 when the store is newer. A crash leaves whole migrations only. `schema` is the PostgreSQL
// schema to make; unused on SQLite.
Result<int64_t> ApplyMigrations(const Context& ctx, SqlDb& db, std::string_view schema);

// PF6002: the store has a migration that this program does not know.
Status NewerSchema(const SqlDb& db, int64_t version);

}  // namespace partforge
