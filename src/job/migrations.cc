#include "job/migrations.h"

#include <fmt/format.h>

#include <array>

#include "job/schema.h"

namespace partforge {
namespace {

constexpr SqlStatement kHasMigrationsSqlite = {
    "has_migrations",
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"};
// current_schema() is NULL while the schema of the search path is absent.
constexpr SqlStatement kHasMigrationsPostgres = {
    "has_migrations_postgres",
    "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = "
    "'migrations'"};
constexpr SqlStatement kLastVersion = {"last_version",
                                       "SELECT coalesce(max(version), 0) FROM migrations"};
constexpr SqlStatement kRecordMigration = {
    "record_migration",
    "INSERT INTO migrations (version, name, applied_at) VALUES (:version, :name, pf_now())"};
constexpr SqlStatement kMakeLedgerId = {
    "make_ledger_id",
    "INSERT INTO meta (k, v) VALUES ('ledger_id', :id) ON CONFLICT (k) DO NOTHING"};

Result<int64_t> VersionIn(SqlSession& session) {
  const bool is_sqlite = session.dialect() == SqlDialect::kSqlite;
  PF_ASSIGN(const SqlRows has,
            session.Run(is_sqlite ? kHasMigrationsSqlite : kHasMigrationsPostgres, {}));
  if (has.row(0).Int(0) == 0) return int64_t{0};
  PF_ASSIGN(const SqlRows last, session.Run(kLastVersion, {}));
  return last.row(0).Int(0);
}

// Applies migration `version` unless somebody else did while we waited for the lock.
Result<bool> ApplyOne(const Context& ctx, SqlSession& session, std::string_view schema,
                      int64_t version) {
  if (session.dialect() == SqlDialect::kPostgres) {
    PF_TRY(session.RunScript("SELECT pg_advisory_xact_lock(hashtext('partforge.migrate'))"));
    PF_TRY(session.RunScript(fmt::format("CREATE SCHEMA IF NOT EXISTS \"{}\"", schema)));
  }
  PF_ASSIGN(const int64_t found, VersionIn(session));
  if (found >= version) return false;
  const Migration& migration = kMigrations.at(static_cast<size_t>(version - 1));
  PF_TRY(session.RunScript(ExpandMacros(migration.both, session.dialect())));
  if (session.dialect() == SqlDialect::kPostgres && !migration.postgres.empty()) {
    PF_TRY(session.RunScript(migration.postgres));
  }
  PF_TRY(session.Run(kRecordMigration, {{"version", version}, {"name", migration.name}}));
  PF_TRY(session.Run(kMakeLedgerId, {{"id", RandomHex(ctx.random, 16)}}));
  return true;
}

}  // namespace

Status NewerSchema(const SqlDb& db, int64_t version) {
  return Status(Code::kRefused,
                fmt::format("the state store has a newer schema: version {}, this program knows up "
                            "to {}",
                            version, kSchemaVersion))
      .Explain(6002, fmt::format("{}, version {}", db.Describe(), version),
               "upgrade partforge on this host; running workers are not affected");
}

Result<int64_t> ReadSchemaVersion(const Context& ctx, SqlDb& db) {
  return ReadFor<int64_t>(ctx, db, [](SqlSession& session) { return VersionIn(session); });
}

Result<int64_t> ApplyMigrations(const Context& ctx, SqlDb& db, std::string_view schema) {
  PF_ASSIGN(const int64_t found, ReadSchemaVersion(ctx, db));
  if (found > kSchemaVersion) return NewerSchema(db, found);
  int64_t applied = 0;
  for (int64_t version = found + 1; version <= kSchemaVersion; ++version) {
    Result<bool> one = WriteFor<bool>(
        ctx, db, [&](SqlSession& session) { return ApplyOne(ctx, session, schema, version); });
    if (!one.ok()) {
      return std::move(one).status().With(
          fmt::format("apply migration {} to {}", version, db.Describe()));
    }
    applied += *one ? 1 : 0;
    PF_FAULT(ctx, "job.migrated");
  }
  return applied;
}

}  // namespace partforge
