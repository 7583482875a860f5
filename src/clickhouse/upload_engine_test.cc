#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/files.h"
#include "clickhouse/job_rig.h"
#include "clickhouse/source_checks.h"
#include "clickhouse/table_freeze.h"

namespace partforge::clickhouse {
namespace {

using ::testing::HasSubstr;

const char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date) ENGINE = "
    "ReplacingMergeTree PARTITION BY toYYYYMM(event_date) ORDER BY id";
const char kDestination[] =
    "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = MergeTree "
    "ORDER BY (event_date, id)";
const char kInsert[] =
    "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(amount) FROM shop.orders";

void MakeSource(JobRig& rig) {
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, kDestination,
           "SYSTEM STOP MERGES shop.orders",
           "INSERT INTO shop.orders SELECT number, number, toDate('2024-01-01') + number % 70 FROM "
           "numbers(1000)"});
}

// check: PF-21
TEST(UploadFreeze, SqlThatIsNotRowLocalIsRefusedNamingTheConstruct) {
  JobRig rig;
  MakeSource(rig);
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "f1").ok());
  auto local = rig.slots().Get(rig.ctx(), 0, rig.dir() / "engine");
  ASSERT_TRUE(local.ok());
  const std::pair<std::string, std::string> constructs[] = {
      {"SELECT event_date, id, toString(amount) FROM merge('shop', 'orders')", "merge"},
      {"SELECT * FROM (SELECT event_date, id, toString(amount) FROM shop.orders SETTINGS "
       "additional_table_filters = {})",
       "additional_table_filters"},
      {"SELECT event_date, id, toString(amount) FROM shop.orders GROUP BY event_date, id, amount",
       "GROUP BY"},
      {"SELECT event_date, id, toString(amount) FROM shop.orders LIMIT 10", "LIMIT"},
      {"SELECT event_date, id, toString(row_number() OVER (ORDER BY id)) FROM shop.orders",
       "row_number"},
      {"SELECT event_date, id, toString(amount) FROM shop.orders FINAL", "FINAL"},
      {"SELECT DISTINCT event_date, id, toString(amount) FROM shop.orders", "DISTINCT"}};
  for (const auto& [select, construct] : constructs) {
    SCOPED_TRACE(select);
    const auto plan =
        PlanUpload(rig.ctx(), rig.server(), **local,
                   rig.UploadRequest(kDestination, "INSERT INTO shop2.orders_v2 " + select));
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), Code::kRefused) << plan.status().ToString();
    EXPECT_THAT(plan.status().ToString() + plan.status().explanation().where, HasSubstr(construct));
  }
  EXPECT_FALSE(rig.state().View(rig.ctx(), rig.job_id).ok());
  // On whole parts, if the user says so; what would be lost silently stays refused.
  UploadFreezeRequest request =
      rig.UploadRequest(kDestination,
                        "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(amount) FROM "
                        "shop.orders FINAL");
  request.allows_whole_parts_only = true;
  const auto plan = PlanUpload(rig.ctx(), rig.server(), **local, request);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_FALSE(plan->job.is_chunk_safe);
}

// check: PF-48
TEST(UploadFreeze, AnInterruptedUploadCompletesByTheSameCommand) {
  JobRig rig;
  MakeSource(rig);
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "f1").ok());
  auto local = rig.slots().Get(rig.ctx(), 0, rig.dir() / "engine");
  ASSERT_TRUE(local.ok());
  UploadFreezeRequest request = rig.UploadRequest(kDestination, kInsert);
  request.parts_in_parallel = 1;
  const auto plan = PlanUpload(rig.ctx(), rig.server(), **local, request);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_EQ(plan->parts.size(), 3u);
  EXPECT_EQ(plan->rows, 1000);
  int64_t interruptions = 0;
  Result<UploadSummary> uploaded = Status(Code::kInternal, "not run");
  for (int64_t nth = 1; !uploaded.ok() && nth < 500; ++nth) {
    testing::FailNth faults(nth, "clickhouse.");
    Context ctx{rig.ctx().clock,   rig.ctx().random, faults,        rig.ctx().log,
                rig.ctx().metrics, rig.ctx().memory, rig.ctx().stop};
    uploaded = RunUpload(ctx, rig.state(), rig.store(), request, *plan, {});
    interruptions += uploaded.ok() ? 0 : 1;
    const auto view = rig.state().View(rig.ctx(), rig.job_id);
    // Complete only with its last step.
    if (!uploaded.ok() && faults.fired_point() != "clickhouse.job_sealed") {
      EXPECT_TRUE(!view.ok() || view->state == "OPEN") << faults.fired_point();
    }
  }
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  EXPECT_GT(interruptions, 5);
  EXPECT_EQ(uploaded->parts, 3);
  EXPECT_EQ(uploaded->skipped, 3);
  EXPECT_EQ(rig.Count(TaskState::kReady), 3);
  const auto objects = ListAll(rig.ctx(), rig.store(), "partforge/jobs/job-1/source/");
  ASSERT_TRUE(objects.ok());
  int64_t files = 0;
  for (const Task& task : rig.Tasks(TaskState::kReady)) {
    const auto spec = RewriteTaskSpec::FromJson(task.payload);
    ASSERT_TRUE(spec.ok());
    files += spec->files + 1;  // and the manifest
  }
  EXPECT_EQ(static_cast<int64_t>(objects->size()), files);
  const auto again = RunUpload(rig.ctx(), rig.state(), rig.store(), request, *plan, {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->skipped, 3);
  // Another version of the program may warn in other words; another SELECT is another job.
  UploadPlan other = *plan;
  other.job.warnings.emplace_back("PF2110 in other words");
  const auto resumed = RunUpload(rig.ctx(), rig.state(), rig.store(), request, other, {});
  ASSERT_TRUE(resumed.ok()) << resumed.status().ToString();
  EXPECT_EQ(rig.state().View(rig.ctx(), rig.job_id)->job.spec, plan->job.ToJson());
  other.job.insert_select += " ";
  EXPECT_EQ(RunUpload(rig.ctx(), rig.state(), rig.store(), request, other, {}).status().code(),
            Code::kConflict);
}

// The embedded engine has neither the volume nor the disk.
TEST(UploadFreeze, ADestinationWhoseTtlMovesPartsIsRewritten) {
  JobRig rig;
  MakeSource(rig);
  const std::string schema = std::string(kDestination) +
                             " TTL event_date + INTERVAL 1 YEAR TO VOLUME 'cold', event_date + "
                             "INTERVAL 2 YEAR TO DISK 'far' SETTINGS storage_policy = 'tiered'";
  const auto uploaded = rig.Upload(rig.UploadRequest(schema, kInsert));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  rig.Work(rig.Settings());
  EXPECT_EQ(rig.Count(TaskState::kFinished), 3);
}

// A live table changes; the frozen parts do not.
TEST(UploadFreeze, ALaterMutationDoesNotStopTheResumeOfAJob) {
  JobRig rig;
  MakeSource(rig);
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "f1").ok());
  auto local = rig.slots().Get(rig.ctx(), 0, rig.dir() / "engine");
  ASSERT_TRUE(local.ok());
  UploadFreezeRequest request = rig.UploadRequest(kDestination, kInsert);
  rig.Run(
      {"ALTER TABLE shop.orders UPDATE amount = amount + 1 WHERE id > 5 SETTINGS "
       "mutations_sync = 0"});
  const auto refused = PlanUpload(rig.ctx(), rig.server(), **local, request);
  EXPECT_EQ(refused.status().explanation().pf_number, 2108);
  request.is_resumed = true;
  const auto plan = PlanUpload(rig.ctx(), rig.server(), **local, request);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->rows, 1000);
}

TEST(SourceChecks, OnlyWholeMergeTreeTablesMayBeFrozen) {
  JobRig rig;
  MakeSource(rig);
  rig.Run({"CREATE TABLE shop.log (id UInt64) ENGINE = Log"});
  const auto check = [&](const std::string& table, const SourceCheckOptions& options = {}) {
    return CheckSourceTable(rig.ctx(), rig.server(), {"shop", table}, options);
  };
  EXPECT_TRUE(check("orders").ok()) << check("orders").ToString();
  EXPECT_EQ(check("log").explanation().pf_number, 2101);
  EXPECT_EQ(check("absent").code(), Code::kNotFound);
  // Merges are stopped, so the mutation waits.
  rig.Run(
      {"ALTER TABLE shop.orders UPDATE amount = amount + 1 WHERE id > 5 SETTINGS "
       "mutations_sync = 0"});
  EXPECT_EQ(check("orders").explanation().pf_number, 2108);
  rig.Run({"SYSTEM START MERGES shop.orders"});
  EXPECT_TRUE(check("orders", {.wait_mutations_ms = 60'000}).ok());
}

// Names of the parts of shop.orders below shadow/<freeze> of the rig's server.
std::set<std::string> FrozenParts(JobRig& rig, const std::string& freeze) {
  std::set<std::string> names;
  const std::filesystem::path root = *rig.server().data_path() / "shadow" / freeze;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "checksums.txt")
      names.insert(entry.path().parent_path().filename().string());
  }
  return names;
}

std::set<std::string> ShadowNames(JobRig& rig) {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(*rig.server().data_path() / "shadow")) {
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(FreezeTable, TheSameAgainChangesNothingAndAnotherMomentIsRefused) {
  JobRig rig;
  MakeSource(rig);
  const auto freeze = [&] { return FreezeTable(rig.ctx(), rig.server(), rig.source, "f9"); };
  const auto first = freeze();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(*first, FreezeEnd::kMade);
  const std::set<std::string> parts = FrozenParts(rig, "f9");
  EXPECT_EQ(parts.size(), 3u);
  const auto second = freeze();
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(*second, FreezeEnd::kWasThere);
  rig.Run({"INSERT INTO shop.orders SELECT 5000, 1, toDate('2024-01-01')"});
  EXPECT_EQ(freeze().status().explanation().pf_number, 2127);
  EXPECT_EQ(FrozenParts(rig, "f9"), parts);
  // The remedy works, and leaves no empty folders.
  ASSERT_TRUE(UnfreezeTable(rig.ctx(), rig.server(), rig.source, "f9").ok());
  EXPECT_EQ(ShadowNames(rig), std::set<std::string>{});
  const auto again = freeze();
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(*again, FreezeEnd::kMade);
  EXPECT_EQ(FrozenParts(rig, "f9").size(), 4u);
  EXPECT_EQ(ShadowNames(rig), std::set<std::string>{"f9"});
  // The server itself can take away what was renamed. What another table has under the name stays.
  const std::filesystem::path other =
      *rig.server().data_path() / "shadow/f9/store/abc/abc-of-another-table";
  ASSERT_TRUE(MakeDirectories(other).ok());
  ASSERT_TRUE(UnfreezeTable(rig.ctx(), rig.server(), rig.source, "f9").ok());
  EXPECT_TRUE(FrozenParts(rig, "f9").empty());
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST(FreezeTable, AHalfMadeFreezeOfAKilledRunIsMadeAgain) {
  JobRig rig;
  MakeSource(rig);
  testing::FailNth faults(1, "clickhouse.table_frozen", Code::kUnknownOutcome);
  const Context cut{rig.ctx().clock,   rig.ctx().random, faults,        rig.ctx().log,
                    rig.ctx().metrics, rig.ctx().memory, rig.ctx().stop};
  EXPECT_FALSE(FreezeTable(cut, rig.server(), rig.source, "f9").ok());
  const std::set<std::string> left = ShadowNames(rig);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_TRUE(left.begin()->starts_with("pftmp_")) << *left.begin();
  // As if it had been killed in the middle.
  const std::set<std::string> parts = FrozenParts(rig, *left.begin());
  ASSERT_EQ(parts.size(), 3u);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           *rig.server().data_path() / "shadow" / *left.begin())) {
    if (entry.path().filename() != *parts.begin()) continue;
    std::filesystem::remove_all(entry.path());
    break;
  }
  const auto frozen = FreezeTable(rig.ctx(), rig.server(), rig.source, "f9");
  ASSERT_TRUE(frozen.ok()) << frozen.status().ToString();
  EXPECT_EQ(*frozen, FreezeEnd::kMade);
  EXPECT_EQ(FrozenParts(rig, "f9"), parts);
  EXPECT_EQ(ShadowNames(rig), std::set<std::string>{"f9"});
}

TEST(FreezeTable, OneProcessAtATimeFreezesATable) {
  JobRig rig;
  MakeSource(rig);
  const std::string folder = rig.Ask(
      "SELECT data_paths[1] FROM system.tables WHERE database = 'shop' AND name = 'orders'");
  {
    const auto held = FileLock::TryTakeDirectory(folder);
    ASSERT_TRUE(held.ok()) << held.status().ToString();
    const auto second = FreezeTable(rig.ctx(), rig.server(), rig.source, "f9");
    EXPECT_EQ(second.status().code(), Code::kConflict);
    EXPECT_EQ(second.status().explanation().pf_number, 6007);
  }
  EXPECT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "f9").ok());
}

TEST(FreezeTable, AFreezeOfOthersThatIsIncompleteIsNeverTouched) {
  JobRig rig;
  MakeSource(rig);
  rig.Run({"ALTER TABLE shop.orders FREEZE PARTITION ID '202401' WITH NAME 'f9'"});
  const std::set<std::string> parts = FrozenParts(rig, "f9");
  const auto frozen = FreezeTable(rig.ctx(), rig.server(), rig.source, "f9");
  EXPECT_EQ(frozen.status().code(), Code::kRefused);
  EXPECT_EQ(frozen.status().explanation().pf_number, 2127);
  EXPECT_EQ(FrozenParts(rig, "f9"), parts);
  // Another table under the same name is no obstacle, and stays.
  rig.Run({"ALTER TABLE shop2.orders_v2 FREEZE WITH NAME 'both'",
           "INSERT INTO shop2.orders_v2 SELECT toDate('2024-01-01'), 1, 'x'",
           "ALTER TABLE shop2.orders_v2 FREEZE WITH NAME 'both'"});
  const auto both = FreezeTable(rig.ctx(), rig.server(), rig.source, "both");
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  EXPECT_EQ(FrozenParts(rig, "both").size(), 4u);
}

void MakePatchedSource(JobRig& rig) {
  rig.Run(
      {"CREATE DATABASE shop",
       "CREATE TABLE shop.orders (id UInt64, amount UInt32) ENGINE = MergeTree ORDER BY id "
       "SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1",
       "INSERT INTO shop.orders SELECT number, number FROM numbers(100)",
       "UPDATE shop.orders SET amount = 7 WHERE id < 10 SETTINGS allow_experimental_lightweight_"
       "update = 1"});
}

TEST(SourceChecks, PatchPartsAreRefusedOrApplied) {
  JobRig rig;
  MakePatchedSource(rig);
  const Status refused = CheckSourceTable(rig.ctx(), rig.server(), rig.source, {});
  EXPECT_EQ(refused.explanation().pf_number, 2107) << refused.ToString();
  const Status applied =
      CheckSourceTable(rig.ctx(), rig.server(), rig.source, {.applies_patches = true});
  EXPECT_TRUE(applied.ok()) << applied.ToString();
  EXPECT_EQ(rig.Ask("SELECT count() FROM shop.orders WHERE amount = 7"), "10");
}

TEST(SourceChecks, WhatIsForeseenHidesNothingAfterIt) {
  JobRig rig;
  MakePatchedSource(rig);
  rig.Run({"SYSTEM STOP MERGES shop.orders",
           "ALTER TABLE shop.orders UPDATE amount = 9 WHERE id = 50 SETTINGS mutations_sync = 0"});
  std::vector<std::string> foreseen;
  const auto check = [&](bool applies_patches, int64_t wait_mutations_ms) {
    foreseen.clear();
    return CheckSourceTable(rig.ctx(), rig.server(), rig.source,
                            {.applies_patches = applies_patches,
                             .wait_mutations_ms = wait_mutations_ms,
                             .foreseen = &foreseen});
  };
  EXPECT_EQ(check(false, 0).explanation().pf_number, 2107);
  EXPECT_EQ(check(true, 0).explanation().pf_number, 2108);
  const Status told = check(true, 1);
  EXPECT_TRUE(told.ok()) << told.ToString();
  EXPECT_EQ(foreseen.size(), 2u);
  EXPECT_EQ(check(false, 0).explanation().pf_number, 2107) << "something was applied";
}

TEST(UploadFreeze, ASelectThatDoesNotFitTheDestinationIsRefusedBeforeTheUpload) {
  JobRig rig;
  MakeSource(rig);
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "f1").ok());
  auto local = rig.slots().Get(rig.ctx(), 0, rig.dir() / "engine");
  ASSERT_TRUE(local.ok());
  const auto plan = [&](const std::string& select) {
    return PlanUpload(rig.ctx(), rig.server(), **local,
                      rig.UploadRequest(kDestination, "INSERT INTO shop2.orders_v2 " + select));
  };
  for (const char* select : {"SELECT event_date, id FROM shop.orders",
                             "SELECT event_date, id, toString(amount), 1 FROM shop.orders",
                             "SELECT [event_date], id, toString(amount) FROM shop.orders"}) {
    const Status status = plan(select).status();
    EXPECT_EQ(status.code(), Code::kRefused) << select << status.ToString();
    EXPECT_EQ(status.explanation().pf_number, 2105) << select;
  }
  // What depends on values is not judged by an empty table.
  EXPECT_TRUE(plan("SELECT event_date, id, toString(amount) FROM shop.orders WHERE "
                   "throwIf(amount > 5) = 0")
                  .ok());
}

TEST(UploadFreeze, AFreezeOlderThanARenameIsRefused) {
  JobRig rig;
  rig.Run(
      {"CREATE DATABASE shop", "CREATE DATABASE shop2",
       "CREATE TABLE shop.orders (id UInt64, v String, w String) ENGINE = MergeTree ORDER BY id",
       "INSERT INTO shop.orders SELECT number, 'v', 'w' FROM numbers(10)"});
  const std::string destination =
      "CREATE TABLE shop2.orders_v2 (id UInt64, v String) ENGINE = MergeTree ORDER BY id";
  auto local = rig.slots().Get(rig.ctx(), 0, rig.dir() / "engine");
  ASSERT_TRUE(local.ok());
  const auto plan = [&](const std::string& freeze) {
    UploadFreezeRequest request =
        rig.UploadRequest(destination, "INSERT INTO shop2.orders_v2 SELECT id, v FROM shop.orders");
    request.freezes = {freeze};
    return PlanUpload(rig.ctx(), rig.server(), **local, request);
  };
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "before").ok());
  EXPECT_TRUE(plan("before").ok());
  // Names and types are as before; what they stand for is not.
  for (const char* renaming : {"v TO x", "w TO v", "x TO w"}) {
    rig.Run({fmt::format("ALTER TABLE shop.orders RENAME COLUMN {} SETTINGS mutations_sync = 1",
                         renaming)});
  }
  const Status swapped = plan("before").status();
  EXPECT_EQ(swapped.code(), Code::kRefused) << swapped.ToString();
  EXPECT_EQ(swapped.explanation().pf_number, 2147);
  EXPECT_THAT(swapped.message(), HasSubstr("RENAME COLUMN"));
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "after").ok());
  const auto good = plan("after");
  EXPECT_TRUE(good.ok()) << good.status().ToString();
  rig.Run({"INSERT INTO shop.orders VALUES (11, 'v', 'w')"});
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "later").ok());
  EXPECT_TRUE(plan("later").ok()) << "parts that came after it are not older";
}

TEST(UploadFreeze, AFrozenColumnOfAnotherTypeIsRefusedWithItsName) {
  JobRig rig;
  MakeSource(rig);
  ASSERT_TRUE(FreezeTable(rig.ctx(), rig.server(), rig.source, "f1").ok());
  rig.Run({"SYSTEM START MERGES shop.orders",
           "ALTER TABLE shop.orders MODIFY COLUMN amount UInt64 SETTINGS mutations_sync = 1"});
  auto local = rig.slots().Get(rig.ctx(), 0, rig.dir() / "engine");
  ASSERT_TRUE(local.ok());
  const Status status =
      PlanUpload(rig.ctx(), rig.server(), **local, rig.UploadRequest(kDestination, kInsert))
          .status();
  EXPECT_EQ(status.code(), Code::kRefused) << status.ToString();
  EXPECT_EQ(status.explanation().pf_number, 2147);
  EXPECT_THAT(status.message(), HasSubstr("amount is UInt32 in the part and in the table UInt64"));
}

}  // namespace
}  // namespace partforge::clickhouse
