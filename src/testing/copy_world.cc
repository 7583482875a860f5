#include "testing/copy_world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace partforge::testing {

CopyWorld::CopyWorld() {
  world.UseClock(clock);
  kind.name = "testing.copy";
  kind.planner = &planner;
  kind.executor = &executor;
  kind.batch_executor = &batch_executor;
  kind.committer = &committer;
  kind.read_failure = &ReadCopyFailure;
}

void CopyWorld::Register() {
  ASSERT_TRUE(kinds.Add(kind).ok());
}

void CopyWorld::MakeJob(int64_t lines, const CopyRequest& request, PublishMode publish) {
  lines_ = lines;
  CopyRequest wish = request;
  wish.source = "source";
  wish.target = "table";
  std::string text;
  for (const std::string& line : SourceLines()) text += line + "\n";
  ASSERT_TRUE(WriteObject(ctx(), store, wish.source, text).ok());
  JobSpec spec = MakeCopyJob(kJob, kind.name, wish);
  spec.publish = publish;
  const auto plan = planner.MakePlan(ctx(), spec);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_TRUE(jobs.CreateJob(ctx(), *plan).ok());
  ASSERT_TRUE(jobs.Seal(ctx(), kJob, std::ssize(plan->tasks)).ok());
}

std::vector<std::string> CopyWorld::SourceLines() const {
  std::vector<std::string> lines;
  for (int64_t i = 0; i < lines_; ++i) lines.push_back(fmt::format("line {:06}", i));
  return lines;
}

std::vector<std::string> CopyWorld::TableLines() {
  TestWorld quiet;  // without the faults of the test
  auto lines = ReadCopyTable(quiet.context(), store, "table");
  EXPECT_TRUE(lines.ok()) << lines.status().ToString();
  if (!lines.ok()) return {};
  std::sort(lines->begin(), lines->end());
  return *lines;
}

std::vector<Task> CopyWorld::Tasks(TaskState state) {
  std::vector<Task> tasks;
  jobs.ForEachTask([&](const Task& task) {
    if (task.state == state) tasks.push_back(task);
  });
  return tasks;
}

std::vector<Commit> CopyWorld::Commits() {
  std::vector<Commit> commits;
  jobs.ForEachCommit([&](const Commit& commit) { commits.push_back(commit); });
  return commits;
}

}  // namespace partforge::testing
