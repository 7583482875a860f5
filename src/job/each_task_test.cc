#include "job/each_task.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "testing/memory_job_store.h"
#include "testing/moving_reader.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

class ForEachTaskTest : public ::testing::Test {
 protected:
  ForEachTaskTest() : ctx_(world_.context()), state_(ctx_.clock) {
    Plan plan;
    plan.job.id = "job-1";
    plan.job.kind = "toy";
    EXPECT_TRUE(state_.CreateJob(ctx_, plan).ok());
    for (const char* id : {"a", "b", "c"}) {
      Task task;
      task.id = id;
      task.job = "job-1";
      task.kind = "toy";
      EXPECT_TRUE(state_.AddTasks(ctx_, "job-1", std::span(&task, 1)).ok());
    }
  }

  testing::TestWorld world_;
  Context ctx_;
  testing::MemoryJobStore state_;
};

// IMPORTING → FINISHED (T14) between the pages of FINISHED and of IMPORTING.
TEST_F(ForEachTaskTest, ATaskThatMovedBackMeanwhileIsSeen) {
  testing::MovingReader moving(state_);
  moving.Hide("b", 9);  // not on any page of the first reading
  std::map<std::string, int> seen;
  const Status status = ForEachTask(ctx_, moving, "job-1", [&seen](const Task& task) -> Status {
    ++seen[task.id];
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(seen, (std::map<std::string, int>{{"a", 1}, {"b", 1}, {"c", 1}}));
}

TEST_F(ForEachTaskTest, TasksThatNeverRestAreAConflictAndAFailureEndsIt) {
  testing::MovingReader moving(state_);
  moving.Hide("b", 1'000'000);
  const auto nothing = [](const Task&) -> Status { return {}; };
  EXPECT_EQ(ForEachTask(ctx_, moving, "job-1", nothing).code(), Code::kConflict);
  const auto failing = [](const Task&) -> Status { return Status(Code::kCorruption, "bad"); };
  EXPECT_EQ(ForEachTask(ctx_, state_, "job-1", failing).code(), Code::kCorruption);
}

}  // namespace
}  // namespace partforge
