#include "job/state_url.h"

#include <fmt/format.h>

#include "job/migrations.h"
#include "job/postgres_db.h"
#include "job/sqlite_db.h"

namespace partforge {
namespace {

constexpr int kAbsentSchema = 6003;

Status AbsentSchema(std::string_view where) {
  return Status(Code::kInvalidArgument, fmt::format("the state store is absent: {}", where))
      .Explain(kAbsentSchema, std::string(where),
               "make it with `partforge migrate` (upload-freeze and rewrite make it too), or "
               "correct --state-url");
}

Status OlderSchema(std::string_view where, int64_t version) {
  return Status(Code::kInvalidArgument,
                fmt::format("the state store has an older schema: version {}, needed {}", version,
                            kSchemaVersion))
      .Explain(6004, fmt::format("{}, version {}", where, version),
               "upgrade it with `partforge migrate`");
}

Result<std::unique_ptr<SqlDb>> OpenDb(const Context& ctx, const StateUrl& url,
                                      const StateStoreOptions& options) {
  if (url.kind == StateUrl::Kind::kPostgres) {
    Result<std::unique_ptr<PostgresDb>> db =
        PostgresDb::Open(ctx, PostgresOptions{.url = url.path, .schema = options.schema});
    if (!db.ok()) return std::move(db).status();
    return std::unique_ptr<SqlDb>(std::move(db).value());
  }
  const bool may_create = options.use != SchemaUse::kRead;
  Result<std::unique_ptr<SqliteDb>> db = SqliteDb::Open(
      ctx, SqliteOptions{.path = url.path,
                         .if_absent = may_create ? SqliteOptions::IfAbsent::kCreate
                                                 : SqliteOptions::IfAbsent::kRefuse});
  if (!db.ok() && db.status().code() == Code::kNotFound)
    return AbsentSchema(fmt::format("sqlite {}", url.path));
  if (!db.ok()) {
    if (db.status().code() != Code::kInvalidArgument) return std::move(db).status();
    return std::move(db).status().Explain(
        6008, fmt::format("sqlite {}", url.path),
        "choose another file with --state-url, or see to the rights of the file and its folder");
  }
  return std::unique_ptr<SqlDb>(std::move(db).value());
}

// Whether a store at `version` may be brought up to date by this use of it.
bool MayApply(SchemaUse use, SqlDialect dialect, int64_t version) {
  if (use == SchemaUse::kMigrate) return true;
  if (use == SchemaUse::kRead) return false;
  if (dialect == SqlDialect::kSqlite) return true;
  return use == SchemaUse::kCreate && version == 0;
}

}  // namespace

Result<StateUrl> ParseStateUrl(std::string_view url) {
  if (url.starts_with("postgres://") || url.starts_with("postgresql://")) {
    return StateUrl{.kind = StateUrl::Kind::kPostgres, .path = std::string(url)};
  }
  constexpr std::string_view kSqlite = "sqlite:";
  if (url.starts_with(kSqlite)) {
    std::string_view path = url.substr(kSqlite.size());
    if (path.starts_with("//"))
      path.remove_prefix(2);  // sqlite:///absolute, as other tools write it
    if (path == ":memory:") {
      return Status(Code::kInvalidArgument, "a state store in memory ends with its process")
          .Explain(1005, "--state-url", "--state-url=sqlite:/path/to/state.db");
    }
    if (!path.empty()) return StateUrl{.kind = StateUrl::Kind::kSqlite, .path = std::string(path)};
  }
  // Only the scheme is shown: the rest may hold a password, as all of libpq's host=… form may.
  const size_t colon = url.find(':');
  const bool has_scheme = colon != std::string_view::npos &&
                          url.substr(0, colon).find_first_of("= @") == std::string_view::npos;
  return Status(Code::kInvalidArgument,
                has_scheme ? fmt::format("state store is neither sqlite:PATH nor postgres://…: {}",
                                         url.substr(0, colon))
                           : std::string("state store is neither sqlite:PATH nor postgres://…"))
      .Explain(1005, "--state-url", "--state-url=sqlite:/path/to/state.db");
}

Result<std::unique_ptr<SqlJobStore>> OpenJobStore(const Context& ctx,
                                                  const StateStoreOptions& options) {
  PF_ASSIGN(const StateUrl url, ParseStateUrl(options.url));
  PF_ASSIGN(std::unique_ptr<SqlDb> db, OpenDb(ctx, url, options));
  PF_ASSIGN(const int64_t version, ReadSchemaVersion(ctx, *db));
  if (version > kSchemaVersion) return NewerSchema(*db, version);
  if (version < kSchemaVersion) {
    if (!MayApply(options.use, db->dialect(), version)) {
      return version == 0 ? AbsentSchema(db->Describe()) : OlderSchema(db->Describe(), version);
    }
    PF_TRY(ApplyMigrations(ctx, *db, options.schema));
  }
  return std::make_unique<SqlJobStore>(std::move(db), options.actor);
}

Result<int64_t> MigrateStateStore(const Context& ctx, const StateStoreOptions& options) {
  StateStoreOptions migrating = options;
  migrating.use = SchemaUse::kMigrate;
  PF_ASSIGN(const StateUrl url, ParseStateUrl(migrating.url));
  PF_ASSIGN(const std::unique_ptr<SqlDb> db, OpenDb(ctx, url, migrating));
  return ApplyMigrations(ctx, *db, migrating.schema);
}

Result<int64_t> CountPendingMigrations(const Context& ctx, const StateStoreOptions& options) {
  StateStoreOptions looking = options;
  looking.use = SchemaUse::kRead;
  PF_ASSIGN(const StateUrl url, ParseStateUrl(looking.url));
  const Result<std::unique_ptr<SqlDb>> db = OpenDb(ctx, url, looking);
  if (!db.ok() && db.status().explanation().pf_number == kAbsentSchema) return kSchemaVersion;
  if (!db.ok()) return db.status();
  PF_ASSIGN(const int64_t version, ReadSchemaVersion(ctx, **db));
  if (version > kSchemaVersion) return NewerSchema(**db, version);
  return kSchemaVersion - version;
}

}  // namespace partforge
