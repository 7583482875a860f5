#include <fmt/format.h>
#include <gtest/gtest.h>

#include "job/migrations.h"
#include "job/postgres_db.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_test.h"
#include "testing/job_store_contract.h"
#include "testing/postgres_server.h"

namespace partforge::testing {
namespace {

StoreUnderTest MakePostgres(const Context& ctx) {
  if (!PostgresServer::Shared().has_value()) return {};
  PostgresOptions options;
  options.url = PostgresServer::Shared()->url();
  options.schema = NewSchemaName();
  const auto open = [options](const Context& context) {
    Result<std::unique_ptr<PostgresDb>> db = PostgresDb::Open(context, options);
    EXPECT_TRUE(db.ok()) << db.status().ToString();
    const Result<int64_t> applied = ApplyMigrations(context, **db, options.schema);
    EXPECT_TRUE(applied.ok()) << applied.status().ToString();
    return std::make_unique<SqlJobStore>(std::move(db).value());
  };
  StoreUnderTest made;
  made.store = open(ctx);
  made.shift_clock_ms = [offset = options.clock_offset_ms](int64_t ms) { *offset += ms; };
  made.open_another = [open, ctx] { return open(ctx); };
  return made;
}

INSTANTIATE_TEST_SUITE_P(Postgres, JobStoreContract,
                         ::testing::Values(NamedStore{"postgres", MakePostgres}), StoreName);

INSTANTIATE_TEST_SUITE_P(Postgres, SqlJobStoreTest,
                         ::testing::Values(NamedStore{"postgres", MakePostgres}), StoreName);

}  // namespace
}  // namespace partforge::testing
