#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/files.h"
#include "clickhouse/job_rig.h"
#include "clickhouse/piece_evidence.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"
#include "store/object_store.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

const char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY id";
const char kInsert[] =
    "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(amount) FROM shop.orders\n";

std::string Destination(const std::string& engine = "MergeTree", const std::string& tail = "") {
  return fmt::format(
      "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = {} "
      "PARTITION BY toYYYYMM(event_date) ORDER BY (event_date, id) {}",
      engine, tail);
}

// A job whose parts are rewritten and wait for the import.
class ImportOutcome : public ::testing::Test {
 protected:
  // One source part a list of values; `destination` is the live table.
  void Finish(const std::vector<std::string>& parts, const std::string& schema = Destination(),
              const std::string& destination = "", const std::string& insert = kInsert) {
    rig_.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource,
              destination.empty() ? schema : destination, "SYSTEM STOP MERGES shop.orders",
              "SYSTEM STOP MERGES shop2.orders_v2"});
    for (const std::string& values : parts) rig_.Run({"INSERT INTO shop.orders VALUES " + values});
    const auto uploaded = rig_.Upload(rig_.UploadRequest(schema, insert));
    ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
    rig_.Work(rig_.Settings());
    ASSERT_EQ(rig_.Count(TaskState::kFinished), std::ssize(parts));
  }
  // One source part of two rows, which become two parts of the destination.
  void FinishOfTwoPieces() {
    const std::string schema =
        "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = "
        "MergeTree PARTITION BY id ORDER BY (event_date, id)";
    Finish({"(1, 10, '2024-01-05'), (2, 20, '2024-01-06')"}, schema);
  }
  Result<ImportSummary> Import(const ImportRequest& request) {
    return RunImport(rig_.ctx(), rig_.state(), rig_.server(), request);
  }
  ImportRequest Serial() const {
    ImportRequest request = rig_.MakeImport();
    request.artifacts_in_parallel = 1;
    request.lease_ms = 2'000;
    return request;
  }
  static int Number(const Result<ImportSummary>& imported) {
    return imported.ok() ? 0 : imported.status().explanation().pf_number;
  }
  fs::path Detached() {
    return fs::path(rig_.Ask("SELECT data_paths[1] FROM system.tables WHERE database = 'shop2' AND "
                             "name = 'orders_v2'")) /
           "detached";
  }
  // Names in detached/, sorted.
  std::vector<std::string> Litter() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(Detached()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Rows() { return rig_.Ask("SELECT count() FROM shop2.orders_v2"); }

  JobRig rig_;
};

const std::vector<std::string> kTwoParts = {"(1, 10, '2024-01-05')", "(2, 20, '2024-02-06')"};

TEST_F(ImportOutcome, AReceiptOfAnotherStateStoreStopsASecondImport) {
  Finish({"(1, 10, '2024-01-05')"});
  const Task task = rig_.Tasks(TaskState::kFinished).at(0);
  const std::string uuid =
      rig_.Ask("SELECT uuid FROM system.tables WHERE database = 'shop2' AND name = 'orders_v2'");
  const auto spec = RewriteJobSpec::FromJson(rig_.state().View(rig_.ctx(), "job-1")->job.spec);
  ASSERT_TRUE(spec.ok());
  const auto keys = JobKeys::Make(spec->prefix, "job-1");
  ASSERT_TRUE(keys.ok());
  const std::string key = keys->ReceiptKey(task.id).value();
  const auto write = [&](const std::string& table_uuid, const std::string& receipt_state) {
    const std::string receipt = fmt::format(
        R"({{"version":1,"state":"{}","commit_id":"cmt-other","table_uuid":"{}","table":"shop2.orders_v2"}})",
        receipt_state, table_uuid);
    ASSERT_TRUE(WriteObject(rig_.ctx(), rig_.store(), key, receipt).ok());
  };
  ImportRequest request = Serial();
  request.requires_empty = false;
  for (const char* receipt_state : {"placed", "attaching"}) {
    write(uuid, receipt_state);
    const auto refused = Import(request);
    ASSERT_TRUE(refused.ok()) << refused.status().ToString();
    ASSERT_EQ(refused->failed.size(), 1u);
    EXPECT_EQ(StatusOf(*refused).explanation().pf_number, 2134) << receipt_state;
    EXPECT_EQ(Rows(), "0");
  }
  write("11111111-2222-3333-4444-555555555555", "placed");  // into another table: not our business
  const auto imported = Import(request);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 1);
  EXPECT_EQ(Rows(), "1");
}

// Whoever has lost the state store between the attach and the end of the import must not import the
// artifact a second time.
TEST_F(ImportOutcome, TheReceiptIsThereBeforeTheFirstPartIsPlaced) {
  Finish({"(1, 10, '2024-01-05')"});
  const Task task = rig_.Tasks(TaskState::kFinished).at(0);
  const auto spec = RewriteJobSpec::FromJson(rig_.state().View(rig_.ctx(), "job-1")->job.spec);
  ASSERT_TRUE(spec.ok());
  const std::string key = JobKeys::Make(spec->prefix, "job-1")->ReceiptKey(task.id).value();
  const auto receipt = [&] {
    const auto text = ReadObject(rig_.ctx(), rig_.store(), key, 1 << 20);
    return text.ok() ? *text : text.status().ToString();
  };
  std::string at_first_rename, at_attach;
  rig_.faults().Set("clickhouse.piece_placed", [&](int64_t) {
    at_first_rename = receipt();
    return Status();
  });
  rig_.faults().Set("clickhouse.piece_attached", [&](int64_t) {
    at_attach = receipt();
    return Status();
  });
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_NE(at_first_rename.find("\"attaching\""), std::string::npos) << at_first_rename;
  EXPECT_NE(at_attach.find("\"attaching\""), std::string::npos) << at_attach;
  EXPECT_NE(receipt().find("\"placed\""), std::string::npos) << receipt();
}

TEST_F(ImportOutcome, TheRefusalOfATableWithRowsNeverAdvisesToImportAnyway) {
  Finish(kTwoParts);
  rig_.Run({"INSERT INTO shop2.orders_v2 VALUES ('2024-01-05', 7, 'x')"});
  const auto refused = Import(Serial());
  EXPECT_EQ(Number(refused), 2123);
  EXPECT_EQ(refused.status().ToString().find("require-empty"), std::string::npos)
      << refused.status().ToString();
}

TEST_F(ImportOutcome, AnOrderSensitiveEngineTakesNoPartBeforeAnEarlierOne) {
  Finish({"(1, 10, '2024-01-05')", "(1, 20, '2024-01-05')"}, Destination("ReplacingMergeTree"));
  ImportRequest request = Serial();
  for (const Task& task : rig_.Tasks(TaskState::kFinished)) {
    const auto spec = RewriteTaskSpec::FromJson(task.payload);
    ASSERT_TRUE(spec.ok());
    if (spec->part_name.find("_2_2_") != std::string::npos) request.part_id = task.id;
  }
  EXPECT_EQ(Number(Import(request)), 2112);
  request.allows_reorder = true;
  const auto reordered = Import(request);
  ASSERT_TRUE(reordered.ok()) << reordered.status().ToString();
  EXPECT_EQ(reordered->imported, 1);
}

// The destination has no partitions: an old partition's late row must not come before a newer
// partition's early one.
TEST_F(ImportOutcome, PartsComeInTheOrderOfTheSourcesBlocksWhateverTheirPartition) {
  Finish({"(1, 10, '2024-02-05')", "(1, 20, '2024-01-05')"},
         "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = "
         "ReplacingMergeTree ORDER BY id");
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 2);
  EXPECT_EQ(rig_.Ask("SELECT amount FROM shop2.orders_v2 FINAL"), "20");
}

TEST_F(ImportOutcome, OnlyAFullDiskIsToldAsAFullDisk) {
  Finish({"(1, 10, '2024-01-05')"});
  const std::pair<const char*, int> wants[] = {
      {"write data.bin: No space left on device", 7007},
      {"Code: 243. DB::Exception: Not enough space", 7007},
      {"Code: 241. DB::Exception: Memory limit (total) exceeded", 7017}};
  for (const auto& [message, pf_number] : wants) {
    const std::string words = message;
    rig_.faults().Set("clickhouse.piece_staged",
                      [words](int64_t) { return Status(Code::kExhausted, words); });
    const auto imported = Import(Serial());
    const Status status = imported.ok() ? StatusOf(*imported) : imported.status();
    EXPECT_EQ(status.explanation().pf_number, pf_number) << status.ToString();
    EXPECT_EQ(rig_.Count(TaskState::kFinished), 1);
    rig_.faults().Clear();
  }
}

// Runs that died after they had made a scratch table of staged parts; the next does not make one.
class DeadImport : public ImportOutcome {
 protected:
  void Die() {
    Finish({"(1, 10, '2024-01-05')"});
    rig_.faults().Set("clickhouse.pieces_staged", [&](int64_t) {
      const auto serial = SerialOfStagedName(Litter().at(0));
      rig_.Run({fmt::format("CREATE TABLE shop2.orders_v2__partforge_check_{} AS shop2.orders_v2",
                            serial.value_or(0))});
      return Status(Code::kUnavailable, "died");
    });
    (void)Import(Serial());
    ASSERT_EQ(ScratchTables(), "1");
    rig_.faults().Clear();
    rig_.ShiftStoreClockMs(60'000);
  }
  std::string ScratchTables() {
    return rig_.Ask("SELECT count() FROM system.tables WHERE name LIKE '%__partforge_check_%'");
  }
  ImportRequest Later() const {
    ImportRequest later = Serial();
    later.owner = "later";
    return later;
  }
};

TEST_F(DeadImport, ItsScratchTableIsDroppedByTheNextOne) {
  Die();
  const auto imported = Import(Later());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 1);
  EXPECT_EQ(ScratchTables(), "0");
}

// The signal comes when the rows are published and nothing is cleaned up yet.
TEST_F(DeadImport, ItsScratchTableIsNotForgottenByOneThatIsStopped) {
  Die();
  std::stop_source signal;
  rig_.faults().Set("publish.published", [&](int64_t) -> Status {
    signal.request_stop();
    return {};
  });
  Context ctx = rig_.ctx();
  ctx.stop = signal.get_token();
  (void)RunImport(ctx, rig_.state(), rig_.server(), Later());
  EXPECT_EQ(Rows(), "1");
  const auto imported = Import(Later());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(Rows(), "1");
  EXPECT_EQ(ScratchTables(), "0");
  EXPECT_EQ(Litter(), std::vector<std::string>{});
}

// An importer that sleeps past its lease between two parts: another publishes the artifact and
// cleans up, before the sleeper stages the second part.
class FencedImport : public ImportOutcome, public ::testing::WithParamInterface<const char*> {};

TEST_P(FencedImport, LeavesNothingBehind) {
  FinishOfTwoPieces();
  bool has_slept = false;
  rig_.faults().Set(GetParam(), [&](int64_t) -> Status {
    if (std::exchange(has_slept, true)) return {};
    rig_.ShiftStoreClockMs(60'000);
    PF_ASSIGN(const JobView view, rig_.state().View(rig_.ctx(), rig_.job_id));
    PF_TRY(rig_.state().Fence(rig_.ctx(), view.live_commits.at(0).id, "later", 10'000));
    return {};
  });
  const auto imported = Import(Serial());
  EXPECT_FALSE(imported.ok() && StatusOf(*imported).ok());
  EXPECT_TRUE(has_slept);
  EXPECT_EQ(Litter(), std::vector<std::string>{});
  rig_.ShiftStoreClockMs(60'000);
  ImportRequest request = Serial();
  request.owner = "later";
  const auto later = Import(request);
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  EXPECT_EQ(later->imported, 1);
  EXPECT_EQ(Rows(), "2");
  EXPECT_EQ(Litter(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Points, FencedImport,
                         ::testing::Values("clickhouse.piece_staged", "clickhouse.pieces_staged",
                                           "publish.staged"));

TEST_F(ImportOutcome, RowsOfAnotherTargetExplainNothing) {
  Finish(kTwoParts);
  ASSERT_TRUE(Import(Serial()).ok());
  EXPECT_TRUE(Import(Serial()).ok());  // the table holds exactly what this job has published
  rig_.Run({"CREATE TABLE shop2.orders_v3 AS shop2.orders_v2",
            "INSERT INTO shop2.orders_v3 VALUES ('2024-01-05', 7, 'x'), ('2024-01-05', 8, 'x')"});
  ImportRequest other = Serial();
  other.table.table = "orders_v3";
  EXPECT_EQ(Number(Import(other)), 2134);
  rig_.Run({"INSERT INTO shop2.orders_v2 VALUES ('2024-01-05', 7, 'x')"});
  EXPECT_EQ(Number(Import(Serial())), 2123);
  rig_.Run({"TRUNCATE TABLE shop2.orders_v2"});
  EXPECT_EQ(Number(Import(Serial())), 2137);  // too few is not what was published either
}

TEST_F(ImportOutcome, ATableThatTookNoRowOfTheJobIsNotSaidToHoldThem) {
  Finish(kTwoParts);
  ASSERT_TRUE(Import(Serial()).ok());
  rig_.Run({"CREATE TABLE shop2.orders_v3 AS shop2.orders_v2"});
  ImportRequest other = Serial();
  other.table.table = "orders_v3";
  for (const bool requires_empty : {true, false}) {
    other.requires_empty = requires_empty;
    EXPECT_EQ(Number(Import(other)), 2134);
  }
  // The same name, another table.
  rig_.Run({"DROP TABLE shop2.orders_v2 SYNC", Destination()});
  EXPECT_EQ(Number(Import(Serial())), 2134);
}

TEST_F(ImportOutcome, ASentPieceThatIsGoneNeedsTheServersWord) {
  Finish({"(1, 10, '2024-01-05')"}, Destination("ReplacingMergeTree"));
  rig_.faults().Set("clickhouse.piece_sent",
                    [](int64_t) { return Status(Code::kInternal, "died"); });
  const auto first = Import(Serial());
  EXPECT_FALSE(first.ok() && StatusOf(*first).ok());
  rig_.faults().Clear();
  const std::vector<std::string> left = Litter();
  ASSERT_EQ(left.size(), 1u);
  fs::remove_all(Detached() / left[0]);  // an operator tidies up
  rig_.ShiftStoreClockMs(60'000);
  const auto in_doubt = Import(Serial());
  ASSERT_TRUE(in_doubt.ok()) << in_doubt.status().ToString();
  EXPECT_EQ(StatusOf(*in_doubt).code(), Code::kUnknownOutcome);
  EXPECT_EQ(StatusOf(*in_doubt).explanation().pf_number, 2138);
  EXPECT_EQ(rig_.Count(TaskState::kImporting), 1);
  // Had the attach come to its end, the server's log would say so.
  const CommitId commit = rig_.Tasks(TaskState::kImporting).at(0).commit;
  rig_.Run(
      {fmt::format("INSERT INTO system.query_log (type, event_date, query_id) VALUES "
                   "('QueryFinish', today(), 'pf-{}-0-e1-1.abcd')",
                   commit)});
  rig_.ShiftStoreClockMs(60'000);
  const auto logged = Import(Serial());
  ASSERT_TRUE(logged.ok()) << logged.status().ToString();
  EXPECT_TRUE(StatusOf(*logged).ok()) << StatusOf(*logged).ToString();
}

TEST_F(ImportOutcome, RowsThatDoNotAddUpAfterwardsAreCorruption) {
  Finish(kTwoParts);
  rig_.faults().Set("clickhouse.receipt_written", [&](int64_t hit) -> Status {
    if (hit == 1) rig_.Run({"INSERT INTO shop2.orders_v2 VALUES ('2024-03-05', 7, 'x')"});
    return {};
  });
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->rows_in_table, 3);
  EXPECT_EQ(imported->rows_published, 2);
  EXPECT_EQ(StatusOf(*imported).code(), Code::kCorruption);
  EXPECT_EQ(StatusOf(*imported).explanation().pf_number, 2137);
}

TEST_F(ImportOutcome, PartsWithoutTtlGoIntoATableThatHasOne) {
  Finish({"(1, 10, '2024-01-05')"}, Destination(),
         Destination("MergeTree", "TTL event_date + INTERVAL 100 YEAR"));
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 1);
  EXPECT_EQ(imported->rows_in_table, -1);
}

TEST_F(ImportOutcome, AnArtifactThatTheEngineRefusesMustBeMadeAnew) {
  FinishOfTwoPieces();
  rig_.faults().Set("clickhouse.piece_placed", [&](int64_t) -> Status {
    for (const auto& entry : fs::recursive_directory_iterator(Detached())) {
      if (entry.path().filename() == "data.bin" &&
          entry.path().string().find("pftmp_") == std::string::npos)
        fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
    }
    return {};
  });
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  const Status outcome = StatusOf(*imported);
  EXPECT_EQ(outcome.code(), Code::kCorruption);      // damaged, and nothing published: exit 8
  EXPECT_NE(outcome.explanation().pf_number, 2149);  // so not 4
  const std::vector<Task> failed = rig_.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_EQ(Rows(), "0");
  EXPECT_EQ(Litter(), std::vector<std::string>());
}

// A stalled importer attaches the refused piece after all, while the artifact is taken back: the
// rest follows, also after a crash.
TEST_F(ImportOutcome, ARetractThatIsTurnedBackPublishesTheRest) {
  FinishOfTwoPieces();
  fs::path placed;
  std::string good;
  rig_.faults().Set("clickhouse.piece_placed", [&](int64_t hit) -> Status {
    if (hit != 1) return {};
    for (const auto& entry : fs::recursive_directory_iterator(Detached())) {
      if (entry.path().filename() != "data.bin" ||
          entry.path().string().find("pftmp_") != std::string::npos)
        continue;
      placed = entry.path();
      good = ReadFile(placed).value();
      fs::resize_file(placed, good.size() - 1);
    }
    return {};
  });
  rig_.faults().Set("clickhouse.retract_bound", [&](int64_t) -> Status {
    std::ofstream(placed, std::ios::binary) << good;
    rig_.Run({fmt::format("ALTER TABLE shop2.orders_v2 ATTACH PART {}",
                          QuoteString(placed.parent_path().filename().string()))});
    return {};
  });
  rig_.faults().Set("clickhouse.retract_undone", [&](int64_t hit) -> Status {
    return hit == 1 ? Status(Code::kUnavailable, "crash") : Status();
  });
  const auto cut = Import(Serial());
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.status().code(), Code::kUnavailable);
  EXPECT_EQ(Rows(), "1");
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(imported->imported, 1);
  EXPECT_EQ(Rows(), "2");
  EXPECT_EQ(Litter(), std::vector<std::string>());
}

TEST_F(ImportOutcome, AFullDiskEndsTheImportAndLeavesNothingBehind) {
  Finish(kTwoParts);
  rig_.faults().Set("clickhouse.piece_staged", [](int64_t hit) -> Status {
    return hit == 2 ? Status(Code::kExhausted, "No space left on device") : Status();
  });
  const auto cut = Import(Serial());
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  EXPECT_EQ(cut->imported, 1);
  EXPECT_EQ(StatusOf(*cut).explanation().pf_number, 7007);
  EXPECT_EQ(Litter(), std::vector<std::string>());
  EXPECT_EQ(rig_.Count(TaskState::kFinished), 1);
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(Rows(), "2");
}

TEST_F(ImportOutcome, AStoreThatRefusesEveryReadIsNotAskedForEveryArtifact) {
  std::vector<std::string> parts;
  for (int i = 1; i <= 12; ++i) parts.push_back(fmt::format("({}, 10, '2024-01-05')", i));
  Finish(parts);
  ImportRequest request = Serial();
  int64_t asked = 0;
  request.store_of_bucket = [&](const Context&, const std::string&) -> Result<ObjectStore*> {
    ++asked;
    return Status(Code::kRefused, "HTTP status 403").Explain(7003, "forge", "see to the key");
  };
  EXPECT_EQ(Number(Import(request)), 7003);
  EXPECT_EQ(asked, 9);
  EXPECT_EQ(rig_.Count(TaskState::kFinished), 12);
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(Rows(), "12");
}

TEST_F(ImportOutcome, WhatWasPublishedIsToldWhenTheImportEndsEarly) {
  Finish(kTwoParts);
  rig_.faults().Set("clickhouse.pieces_staged", [](int64_t hit) -> Status {
    return hit == 2 ? Status(Code::kUnavailable, "the store is away") : Status();
  });
  const auto cut = Import(Serial());
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  EXPECT_EQ(cut->imported, 1);
  EXPECT_EQ(cut->rows, 1);
  EXPECT_EQ(StatusOf(*cut).code(), Code::kUnavailable);
}

TEST_F(ImportOutcome, ProgressCountsWhatIsCarriedFromAnEarlierRun) {
  Finish({"(1, 10, '2024-01-05')", "(2, 20, '2024-02-06')", "(3, 30, '2024-03-07')"});
  rig_.faults().Set("clickhouse.pieces_staged", [](int64_t hit) -> Status {
    return hit == 2 ? Status(Code::kUnavailable, "the store is away") : Status();
  });
  ASSERT_TRUE(Import(Serial()).ok());
  rig_.ShiftStoreClockMs(60'000);
  std::vector<std::string> told;
  ImportRequest request = Serial();
  request.on_progress = [&](int64_t done, int64_t total, int64_t, int64_t) {
    told.push_back(fmt::format("{}/{}", done, total));
  };
  ASSERT_TRUE(Import(request).ok());
  EXPECT_EQ(told, std::vector<std::string>{"2/2"});
  EXPECT_EQ(Rows(), "3");
}

TEST_F(ImportOutcome, ASignalLetsThePieceUnderWayComeToItsEnd) {
  FinishOfTwoPieces();
  std::stop_source signal;
  rig_.faults().Set("clickhouse.piece_sent", [&](int64_t) -> Status {
    signal.request_stop();
    return {};
  });
  Context ctx = rig_.ctx();
  ctx.stop = signal.get_token();
  const auto cut = RunImport(ctx, rig_.state(), rig_.server(), Serial());
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.status().code(), Code::kCancelled);
  EXPECT_EQ(Rows(), "1");
  int64_t confirmed = 0;
  const Task task = rig_.Tasks(TaskState::kImporting).at(0);
  const auto pieces = rig_.state().Pieces(rig_.ctx(), task.commit);
  ASSERT_TRUE(pieces.ok());
  for (const Piece& piece : *pieces) confirmed += piece.state == PieceState::kConfirmed ? 1 : 0;
  EXPECT_EQ(confirmed, 1);
  const auto imported = Import(Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(Rows(), "2");
}

TEST_F(ImportOutcome, AFullPartitionStopsNoOther) {
  Finish(kTwoParts);
  rig_.Run({"INSERT INTO shop2.orders_v2 VALUES ('2024-01-05', 7, 'x')"});
  ImportRequest request = Serial();
  request.requires_empty = false;
  request.settings.throttle_parts = 1;
  request.settings.room_wait_ms_max = 0;
  const auto imported = Import(request);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 1);
  ASSERT_EQ(imported->failed.size(), 1u);
  EXPECT_NE(imported->failed[0].message.find("partition 202401 has 1 active parts"),
            std::string::npos)
      << imported->failed[0].message;
  request.settings.throttle_parts = 0;
  ASSERT_TRUE(Import(request).ok());
  EXPECT_EQ(Rows(), "3");
}

// The server, with some of its answers replaced.
class AnsweringEngine final : public Engine {
 public:
  using Answer = std::function<std::optional<Result<QueryOutcome>>(const std::string& sql)>;
  AnsweringEngine(Engine& engine, Answer answer) : engine_(engine), answer_(std::move(answer)) {}
  Result<QueryOutcome> Query(const Context& ctx, std::string_view sql,
                             const QueryOptions& options) override {
    if (auto answer = answer_(std::string(sql))) return *answer;
    return engine_.Query(ctx, sql, options);
  }
  Result<std::unique_ptr<RowStream>> Select(const Context& ctx, std::string_view sql,
                                            std::string_view format,
                                            const QueryOptions& options) override {
    return engine_.Select(ctx, sql, format, options);
  }
  Result<QueryOutcome> Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                              const QueryOptions& options) override {
    return engine_.Insert(ctx, sql, rows, options);
  }
  Status Kill(const Context& ctx, std::string_view query_id) override {
    return engine_.Kill(ctx, query_id);
  }
  std::optional<fs::path> data_path() const override { return engine_.data_path(); }

 private:
  Engine& engine_;
  const Answer answer_;
};

TEST_F(ImportOutcome, AKeeperThatIsAwayIsWaitedFor) {
  Finish({"(1, 10, '2024-01-05')"});
  int attaches = 0;
  AnsweringEngine server(rig_.server(), [&](const std::string& sql) {
    std::optional<Result<QueryOutcome>> answer;
    if (sql.find(" ATTACH PART ") != std::string::npos && ++attaches == 1)
      answer = FromClickHouseCode(999, "Code: 999. Coordination::Exception: Session expired");
    return answer;
  });
  const auto imported = RunImport(rig_.ctx(), rig_.state(), server, Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(attaches, 2);
  EXPECT_EQ(Rows(), "1");
}

TEST_F(ImportOutcome, AReadOnlyReplicaTakesNothing) {
  Finish({"(1, 10, '2024-01-05')"});
  std::string replica = "1\tSession expired\n";
  AnsweringEngine server(rig_.server(), [&](const std::string& sql) {
    std::optional<Result<QueryOutcome>> answer;
    if (sql.starts_with("SELECT toString(serverUUID())")) {
      QueryOutcome target = *rig_.server().Query(rig_.ctx(), sql, {});
      target.text.replace(target.text.find("\tMergeTree"), 10, "\tReplicatedMergeTree");
      answer = target;
    }
    if (sql.find("FROM system.replicas") != std::string::npos)
      answer = QueryOutcome{.text = replica, .read_rows = 0, .written_rows = 0, .written_bytes = 0};
    return answer;
  });
  const auto refused = RunImport(rig_.ctx(), rig_.state(), server, Serial());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kUnavailable);
  EXPECT_EQ(rig_.Count(TaskState::kFinished), 1);
  replica = "0\t\n";
  const auto imported = RunImport(rig_.ctx(), rig_.state(), server, Serial());
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 1);
}

TEST_F(ImportOutcome, StagedPartsAreCheckedInTablesOfTheirOwn) {
  Finish({"(1, 10, '2024-01-05')", "(2, 20, '2024-01-06')", "(3, 30, '2024-01-07')",
          "(4, 40, '2024-01-08')"});
  ImportRequest request = rig_.MakeImport();
  request.settings.checks_table = true;
  const auto imported = Import(request);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(Rows(), "4");
  EXPECT_EQ(rig_.Ask("SELECT count() FROM system.tables WHERE database = 'shop2'"), "1");
}

}  // namespace
}  // namespace partforge::clickhouse
