#include <gtest/gtest.h>

#include "job/migrations.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_test.h"
#include "job/sqlite_db.h"
#include "testing/job_store_contract.h"

namespace partforge::testing {
namespace {

StoreUnderTest MakeSqlite(const Context& ctx) {
  auto folder = std::make_shared<TempDir>();
  SqliteOptions options;
  options.path = *folder / "state.db";
  const auto open = [options](const Context& context) {
    Result<std::unique_ptr<SqliteDb>> db = SqliteDb::Open(context, options);
    EXPECT_TRUE(db.ok()) << db.status().ToString();
    const Result<int64_t> applied = ApplyMigrations(context, **db, "");
    EXPECT_TRUE(applied.ok()) << applied.status().ToString();
    return std::make_unique<SqlJobStore>(std::move(db).value());
  };
  StoreUnderTest made;
  made.keep = folder;
  made.store = open(ctx);
  made.shift_clock_ms = [offset = options.clock_offset_ms](int64_t ms) { *offset += ms; };
  made.open_another = [open, ctx] { return open(ctx); };
  return made;
}

INSTANTIATE_TEST_SUITE_P(Sqlite, JobStoreContract,
                         ::testing::Values(NamedStore{"sqlite", MakeSqlite}), StoreName);

INSTANTIATE_TEST_SUITE_P(Sqlite, SqlJobStoreTest,
                         ::testing::Values(NamedStore{"sqlite", MakeSqlite}), StoreName);

}  // namespace
}  // namespace partforge::testing
