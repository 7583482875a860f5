#include <fmt/format.h>
#include <gtest/gtest.h>

#include "clickhouse/job_rig.h"

namespace partforge::clickhouse {
namespace {

const char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY id";
const char kDestination[] =
    "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY (event_date, id)";
const char kInsert[] =
    "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(amount) FROM shop.orders\n";

// check: PF-1
TEST(RewriteJob, ASmallJobGoesFromUploadToImport) {
  JobRig rig;
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, kDestination,
           "SYSTEM STOP MERGES shop.orders", "SYSTEM STOP MERGES shop2.orders_v2",
           "INSERT INTO shop.orders VALUES (1, 10, '2024-01-05'), (2, 20, '2024-01-06')",
           "INSERT INTO shop.orders VALUES (3, 30, '2024-01-07'), (4, 40, '2024-01-08')"});
  const auto uploaded = rig.Upload(rig.UploadRequest(kDestination, kInsert));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  EXPECT_EQ(uploaded->parts, 2);
  EXPECT_EQ(uploaded->rows, 4);
  EXPECT_EQ(rig.Count(TaskState::kReady), 2);
  rig.Work(rig.Settings());
  ASSERT_EQ(rig.Count(TaskState::kFinished), 2);
  const auto imported = rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(imported->imported, 2);
  EXPECT_EQ(imported->rows, 4);
  EXPECT_EQ(imported->rows_in_table, 4);
  EXPECT_EQ(rig.Count(TaskState::kImported), 2);
  EXPECT_EQ(rig.Ask("SELECT groupArray((id, amount)) FROM (SELECT * FROM shop2.orders_v2 ORDER BY "
                    "id)"),
            "[(1,'10'),(2,'20'),(3,'30'),(4,'40')]");
  EXPECT_EQ(rig.Ask("SELECT count() FROM system.parts WHERE active AND database = 'shop2'"), "2");
}

}  // namespace
}  // namespace partforge::clickhouse
