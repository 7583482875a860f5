#include "app/time_spent.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace partforge::app {
namespace {

TEST(TimeSpent, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ((TimeSpent{.took_ms = 2000,
                       .parts = "plan 0.3, write 1.7",
                       .rows = 5000,
                       .bytes = 4'000'000,
                       .peak_memory_bytes = 1 << 20}
                 .Text()),
            "2.0 s (plan 0.3, write 1.7)   2 500 rows/s · 2.0 MB/s   peak memory 1.00 MiB");
  EXPECT_EQ(TimeSpent{.took_ms = 2000}.Text(), "2.0 s");
  EXPECT_EQ((TimeSpent{.took_ms = 0, .rows = 10, .bytes = 10}.Text()), "0 ms");
}

TEST(TimeParts, OfStagesHaveFiveNames) {
  const TimeParts parts = PartsOfStages({{"prepare_work_dir", 100},
                                         {"prepare_worker_tables", 200},
                                         {"download_source", 3000},
                                         {"attach_source_part", 1100},
                                         {"insert_select", 6000},
                                         {"wait_merges", 900},
                                         {"upload_finished_tarballs", 240},
                                         {"complete_part", 0}});
  EXPECT_EQ(TextOf(parts), "plan 0.3, read 4.1, write 6.9, commit 0.2");
  EXPECT_EQ(DocumentOf(parts),
            (JsonDoc{{"plan", 0.3}, {"read", 4.1}, {"write", 6.9}, {"commit", 0.24}}));
  EXPECT_EQ(TextOf(PartsOfStages({})), "");
}

TEST(PhaseClock, HasItsPhasesInOrderAndNoMoreThanTheWhole) {
  PhaseClock clock;
  EXPECT_TRUE(clock.parts().empty());
  clock.Begin("plan");
  clock.Begin("upload");
  const TimeParts parts = clock.parts();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].first, "plan");
  EXPECT_EQ(parts[1].first, "upload");
  EXPECT_LE(parts[0].second + parts[1].second, clock.took_ms());
}

}  // namespace
}  // namespace partforge::app
