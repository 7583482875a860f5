#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/ids.h"
#include "clickhouse/job_rig.h"
#include "clickhouse/leftovers.h"
#include "job/failure.h"

// Tier T5b: many source parts in one insert, on a real engine.
namespace partforge::clickhouse {
namespace {

using ::testing::HasSubstr;

const char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date, tags "
    "Array(LowCardinality(String)), props Map(LowCardinality(String), String)) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY id";
const char kDestination[] =
    "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String, tags "
    "Array(LowCardinality(String)), props Map(LowCardinality(String), String)) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY (event_date, id)";
const char kInsert[] =
    "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(amount), tags, props FROM "
    "shop.orders\n";
const char kOracle[] = "SELECT event_date, id, toString(amount), tags, props FROM shop.orders";

// `parts` source parts of 100 rows, every third in the second of two partitions, which workers take
// together.
void MakeParts(JobRig& rig, int64_t parts) {
  rig.gathering = GatherRules{.memory_cap_bytes = int64_t{2} << 30};
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, kDestination,
           "SYSTEM STOP MERGES shop.orders", "SYSTEM STOP MERGES shop2.orders_v2"});
  for (int64_t i = 0; i < parts; ++i) {
    rig.Run({fmt::format(
        "INSERT INTO shop.orders SELECT number + {}, number * 7 % 1000, toDate('{}') + number % "
        "20, [toString(number % 5)], map('k', toString(number)) FROM numbers(100)",
        i * 100, i % 3 == 0 ? "2024-02-01" : "2024-01-01")});
  }
}

void ExpectLeftovers(JobRig& rig, int64_t count) {
  const auto left = FindLeftovers(rig.ctx(), rig.state(), rig.store(), rig.job_id, INT64_MAX);
  ASSERT_TRUE(left.ok()) << left.status().ToString();
  EXPECT_EQ(std::ssize(*left), count) << left->front().key;
}

// What another worker takes, part by part.
std::vector<Lease> ClaimAsStranger(JobRig& rig, int64_t tasks_max) {
  ClaimRequest request;
  request.worker = "stranger";
  request.kinds = {std::string(kRewriteKind)};
  request.tasks_max = tasks_max;
  const auto leases = rig.state().Claim(rig.ctx(), request);
  EXPECT_TRUE(leases.ok() && std::ssize(*leases) == tasks_max);
  return leases.ok() ? *leases : std::vector<Lease>();
}

TEST(Gathered, FiftySmallPartsAreOneInsertAndOneOutput) {
  JobRig rig;
  MakeParts(rig, 50);
  rig.MustUpload(kDestination, kInsert);
  rig.Work(rig.Settings());
  const std::vector<Task> outputs = rig.Tasks(TaskState::kFinished);
  ASSERT_EQ(outputs.size(), 1u);
  const std::vector<Task> inputs = rig.Tasks(TaskState::kSuperseded);
  ASSERT_EQ(inputs.size(), 50u);
  std::vector<std::string> ids;
  int64_t input_bytes = 0;
  for (const Task& input : inputs) {
    ids.push_back(input.id);
    input_bytes += input.size_bytes;
    EXPECT_EQ(input.superseded_by, outputs[0].id);
    const auto events = rig.state().Events(rig.ctx(), rig.job_id, input.id, 0, 100);
    ASSERT_TRUE(events.ok());
    EXPECT_EQ(events->back().event, "superseded");
    EXPECT_EQ(events->back().to_state, "SUPERSEDED");
  }
  EXPECT_EQ(outputs[0].id, MakeCompactId(1, ids));
  EXPECT_EQ(outputs[0].generation, 1);
  EXPECT_EQ(outputs[0].size_bytes, input_bytes);
  const RewriteOutput output = rig.OutputOf(outputs[0]);
  EXPECT_EQ(output.tier, "T5b");
  EXPECT_THAT(output.tier_reason, HasSubstr("50 parts, 5000 rows"));
  EXPECT_EQ(output.source_parts, 50);
  EXPECT_EQ(output.source_rows_visible, 5'000);
  EXPECT_EQ(output.rows_out, 5'000);
  EXPECT_EQ(output.partition_parts, (std::map<std::string, int64_t>{{"202401", 1}, {"202402", 1}}));
  const ArtifactMeta meta = rig.MetaOf(outputs[0]);
  EXPECT_EQ(meta.part_id, outputs[0].id);
  EXPECT_EQ(meta.generation, 1);
  EXPECT_EQ(meta.inputs.size(), 50u);
  EXPECT_EQ(meta.inputs[0].meta_sha256.size(), 64u);
  const auto verified = rig.Verify(VerifyDepth::kRows);
  ASSERT_EQ(verified.size(), 1u);
  EXPECT_EQ(verified[0].verdict, Verdict::kOk) << verified[0].message;
  ExpectLeftovers(rig, 0);
  rig.ExpectImported(kOracle);
  EXPECT_EQ(rig.Count(TaskState::kImported), 1);
  EXPECT_EQ(rig.Count(TaskState::kSuperseded), 50);
  ExpectLeftovers(rig, 0);
}

// performance R10: the same rows in the same order as every part alone, for conversions, defaults,
// masked rows and columns that were added later.
TEST(Gathered, TheResultIsThatOfEveryPartAlone) {
  JobRig rig;
  MakeParts(rig, 6);
  rig.Run(
      {"ALTER TABLE shop.orders ADD COLUMN extra UInt32 DEFAULT id * 2",
       "INSERT INTO shop.orders SELECT number + 900, 1, toDate('2024-01-03'), [], map(), 5 FROM "
       "numbers(50)",
       // The mask is a mutation; some parts may be merged on the way.
       "SYSTEM START MERGES shop.orders",
       "DELETE FROM shop.orders WHERE id % 10 = 3 SETTINGS lightweight_deletes_sync = 2",
       "SYSTEM STOP MERGES shop.orders"});
  const std::string select =
      "SELECT event_date, id + extra, toString(amount), arraySort(tags), props FROM shop.orders "
      "WHERE id % 7 != 2";
  rig.MustUpload(kDestination, "INSERT INTO shop2.orders_v2 " + select);
  RewriteSettings settings = rig.Settings();
  settings.verify = VerifyMode::kContent;
  rig.Work(settings);
  for (const Task& task : rig.Tasks(TaskState::kReady)) ADD_FAILURE() << rig.ErrorOf(task);
  ASSERT_EQ(rig.Count(TaskState::kFinished), 1);
  ASSERT_GE(rig.Count(TaskState::kSuperseded), 2);  // one a partition at least
  const RewriteOutput output = rig.OutputOf(rig.Tasks(TaskState::kFinished).front());
  EXPECT_EQ(output.tier, "T5b");
  EXPECT_LT(output.source_rows_visible, output.source_rows);
  rig.ExpectImported(select);
}

TEST(Gathered, ADamagedPartFailsAloneAndTheOthersGoOn) {
  JobRig rig;
  MakeParts(rig, 8);
  rig.MustUpload(kDestination, kInsert);
  const Task victim = rig.Tasks(TaskState::kReady).at(3);
  const auto spec = RewriteTaskSpec::FromJson(victim.payload);
  ASSERT_TRUE(spec.ok());
  const std::filesystem::path file = rig.dir() / "objects" / spec->source_key / "data.bin";
  ASSERT_TRUE(std::filesystem::exists(file)) << file;
  std::ofstream(file, std::ios::binary | std::ios::in).seekp(30).write("damage", 6);
  rig.Work(rig.Settings());
  const std::vector<Task> failed = rig.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].id, victim.id);
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_THAT(rig.ErrorOf(failed[0]), HasSubstr("PF2133"));
  EXPECT_EQ(rig.Count(TaskState::kSuperseded), 7);
  ASSERT_EQ(rig.Count(TaskState::kFinished), 1);
  EXPECT_EQ(rig.OutputOf(rig.Tasks(TaskState::kFinished).front()).rows_out, 700);
}

TEST(Gathered, ARowThatFailsTheInsertIsFoundByRunningEachPartAlone) {
  JobRig rig;
  MakeParts(rig, 5);
  rig.MustUpload(
      kDestination,
      "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(throwIf(id = 250, 'row "
      "250')), tags, props FROM shop.orders");
  rig.Work(rig.Settings());
  const std::vector<Task> failed = rig.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_code, 395);
  EXPECT_EQ(rig.Count(TaskState::kFinished), 4);
  EXPECT_EQ(rig.Count(TaskState::kSuperseded), 0);
  for (const Task& task : rig.Tasks(TaskState::kFinished)) {
    EXPECT_EQ(rig.OutputOf(task).tier, "T5");
    EXPECT_EQ(task.epoch, 2u);
  }
}

TEST(Gathered, AJobWhoseResultDependsOnThePartIsNeverShared) {
  JobRig rig;
  MakeParts(rig, 3);
  UploadFreezeRequest request = rig.UploadRequest(
      kDestination,
      "INSERT INTO shop2.orders_v2 SELECT max(event_date), id % 10, 'x', [], map() FROM "
      "shop.orders GROUP BY id % 10");
  request.allows_whole_parts_only = true;
  const auto uploaded = rig.Upload(request);
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  rig.Work(rig.Settings());
  EXPECT_EQ(rig.Count(TaskState::kFinished), 3);
  EXPECT_EQ(rig.Count(TaskState::kSuperseded), 0);
}

// An attempt that lost one of its inputs loses them all, whatever it has uploaded.
TEST(Gathered, AnAttemptThatLostOneInputPublishesNothing) {
  JobRig rig;
  MakeParts(rig, 4);
  rig.MustUpload(kDestination, kInsert);
  Lease stranger;
  rig.faults().Set("clickhouse.meta_uploaded", [&](int64_t hit) {
    if (hit != 1) return Status();
    rig.ShiftStoreClockMs(600'000);
    EXPECT_EQ(*rig.state().Reap(rig.ctx(), ReapRules{}), 4);
    for (Lease& lease : ClaimAsStranger(rig, 1)) stranger = std::move(lease);
    return Status();
  });
  rig.Work(rig.Settings());
  // The zombie's settlement was refused whole; then the worker took the three that were free, each
  // alone, since they went down together.
  ASSERT_EQ(stranger.tasks.size(), 1u);
  EXPECT_EQ(rig.Count(TaskState::kInProgress), 1);
  for (const Task& task : rig.Tasks(TaskState::kFinished)) {
    EXPECT_NE(task.id, stranger.tasks[0].id);
    EXPECT_EQ(task.epoch, 2u);
    EXPECT_EQ(task.crashes, 0);
  }
  EXPECT_EQ(rig.Count(TaskState::kFinished), 3);
  EXPECT_EQ(rig.Count(TaskState::kSuperseded), 0);
  rig.faults().Clear();
  rig.ShiftStoreClockMs(600'000);
  EXPECT_EQ(*rig.state().Reap(rig.ctx(), ReapRules{}), 1);
  rig.Work(rig.Settings());
  EXPECT_EQ(rig.Count(TaskState::kFinished), 4);
  rig.ExpectImported(kOracle);
  // The zombie's tars (one a partition) and its description, which no row names.
  ExpectLeftovers(rig, 3);
}

// Its inputs are told by the artifact itself, whenever it was settled.
TEST(Gathered, AnOutputThatIsSettledWhileOthersAreVerifiedIsVerifiedToo) {
  JobRig rig;
  MakeParts(rig, 4);
  rig.MustUpload(kDestination, kInsert);
  const std::vector<Lease> held_back = ClaimAsStranger(rig, 2);
  ASSERT_EQ(held_back.size(), 2u);
  rig.Work(rig.Settings());
  ASSERT_EQ(rig.Count(TaskState::kFinished), 1);
  int64_t seen = 0;
  const auto verified = rig.Verify(VerifyDepth::kRows, [&](const VerifiedPart&) {
    if (++seen > 1) return;
    for (const Lease& lease : held_back) {
      const Status released =
          rig.state().Settle(rig.ctx(), lease, ReleasedSettlement(lease, nullptr, 0));
      EXPECT_TRUE(released.ok()) << released.ToString();
    }
    rig.Work(rig.Settings());
    EXPECT_EQ(rig.Count(TaskState::kFinished), 2);
    EXPECT_EQ(rig.Count(TaskState::kSuperseded), 4);
  });
  ASSERT_EQ(verified.size(), 2u);
  for (const VerifiedPart& part : verified) EXPECT_EQ(part.verdict, Verdict::kOk) << part.message;
}

TEST(Gathered, AnEngineThatDiesGoesOnWithTheSameParts) {
  JobRig rig;
  MakeParts(rig, 4);
  rig.MustUpload(kDestination, kInsert);
  rig.faults().Set("clickhouse.source_attached", [&](int64_t hit) {
    if (hit == 1) rig.slots().Kill(0);
    return Status();
  });
  rig.Work(rig.Settings());
  for (const Task& task : rig.Tasks(TaskState::kReady)) ADD_FAILURE() << rig.ErrorOf(task);
  EXPECT_EQ(rig.Count(TaskState::kFinished), 1);
  EXPECT_EQ(rig.Count(TaskState::kSuperseded), 4);
  rig.ExpectImported(kOracle);
}

}  // namespace
}  // namespace partforge::clickhouse
