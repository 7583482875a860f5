#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "clickhouse/job_rig.h"

// A job whose artifacts wait to be imported, for the engine tests of this room.
namespace partforge::clickhouse {

inline constexpr char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date) ENGINE = MergeTree "
    "ORDER BY id";
inline constexpr char kDestination[] =
    "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY (event_date, id)";
inline constexpr char kInsert[] =
    "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(amount) FROM shop.orders";
inline constexpr char kOracle[] = "(SELECT event_date, id, toString(amount) FROM shop.orders)";

// Artifacts of `parts` source parts, each with a piece in two partitions; 100 rows a part.
class Finished {
 public:
  explicit Finished(int64_t parts) {
    rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, kDestination,
             "SYSTEM STOP MERGES shop.orders", "SYSTEM STOP MERGES shop2.orders_v2"});
    for (int64_t part = 0; part < parts; ++part) {
      rig.Run(
          {fmt::format("INSERT INTO shop.orders SELECT number + {}, number, "
                       "toDate('2024-01-15') + number % 30 FROM numbers(100)",
                       part * 1000)});
    }
    Rewrite();
  }

  void Rewrite() {
    UploadFreezeRequest request = rig.UploadRequest(kDestination, kInsert);
    request.freezes = {rig.job_id};
    const auto uploaded = rig.Upload(request);
    ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
    rig.Work(rig.Settings());
    ASSERT_EQ(rig.Count(TaskState::kFinished), uploaded->parts);
  }

  // The same source parts again, under another job, into an emptied table.
  void NextJob(int64_t number) {
    rig.faults().Clear();
    rig.job_id = fmt::format("job-{}", number);
    rig.Run({"TRUNCATE TABLE shop2.orders_v2"});
    Rewrite();
  }

  // As another process would run it, after the first one's leases have run out.
  Result<ImportSummary> ImportLater() {
    rig.faults().Clear();
    rig.ShiftStoreClockMs(60'000);
    ImportRequest request = rig.MakeImport();
    request.owner = fmt::format("later-{}", ++imports_);
    return RunImport(rig.ctx(), rig.state(), rig.server(), request);
  }

  void ExpectAllThere() {
    EXPECT_EQ(rig.Sum("shop2.orders_v2"), rig.Sum(kOracle));
    EXPECT_EQ(DetachedNames(), std::set<std::string>());
  }

  std::filesystem::path Detached() {
    const auto target = ReadImportTarget(rig.ctx(), rig.server(), rig.destination);
    EXPECT_TRUE(target.ok()) << target.status().ToString();
    return target->detached();
  }
  std::set<std::string> DetachedNames() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Detached()))
      names.insert(entry.path().filename());
    return names;
  }
  // The only name in detached/ that starts so.
  std::filesystem::path Only(const std::string& prefix) {
    std::filesystem::path found;
    for (const std::string& name : DetachedNames()) {
      if (!name.starts_with(prefix)) continue;
      EXPECT_TRUE(found.empty()) << name;
      found = Detached() / name;
    }
    EXPECT_FALSE(found.empty()) << prefix;
    return found;
  }
  std::vector<Piece> Pieces() {
    const auto view = rig.state().View(rig.ctx(), rig.job_id);
    EXPECT_TRUE(view.ok() && !view->live_commits.empty());
    const auto pieces = rig.state().Pieces(rig.ctx(), view->live_commits.at(0).id);
    EXPECT_TRUE(pieces.ok());
    return *pieces;
  }

  JobRig rig;

 private:
  int64_t imports_ = 0;
};

}  // namespace partforge::clickhouse
