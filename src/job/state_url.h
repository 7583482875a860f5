#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "job/sql_job_store.h"

namespace partforge {

// What a command may do to the schema of the state store (specs state-schema §1).
enum class SchemaUse : uint8_t {
  kMigrate,  // `migrate`: makes an absent schema and upgrades an older one
  kCreate,   // `upload-freeze`, `rewrite`: makes an absent schema; an older one only in a
             // SQLite file
  kWrite,    // commands that change state: makes and upgrades a SQLite file, nothing on PostgreSQL
  kRead,     // commands that only look: the schema must be there and up to date
};

struct StateStoreOptions {
  std::string
      url;  // --state-url: "sqlite:/path", "sqlite:///path", "postgres://…", "postgresql://…"
  std::string schema = "partforge";  // --state-schema; PostgreSQL only
  SchemaUse use = SchemaUse::kWrite;
  std::string actor = "operator";  // see SqlJobStore
};

struct StateUrl {
  enum class Kind : uint8_t { kSqlite, kPostgres } kind = Kind::kSqlite;
  std::string path;  // of the file, or the whole URL for libpq
};
// kInvalidArgument when the text names no state store.
Result<StateUrl> ParseStateUrl(std::string_view url);

// Opens the state store. An absent or older schema that `use` does not allow to change is
// kInvalidArgument (exit 2) and names the command that may; a newer one is kRefused with PF6002.
// kUnavailable when no server answers.
Result<std::unique_ptr<SqlJobStore>> OpenJobStore(const Context& ctx,
                                                  const StateStoreOptions& options);

// The command `migrate`: how many migrations it applied; 0 when the store is up to date.
Result<int64_t> MigrateStateStore(const Context& ctx, const StateStoreOptions& options);
// How many it would apply; of an absent store all. Writes nothing. kRefused (PF6002) when the store
// is newer.
Result<int64_t> CountPendingMigrations(const Context& ctx, const StateStoreOptions& options);

}  // namespace partforge
