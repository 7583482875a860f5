#include "job/run_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "testing/test_world.h"

namespace partforge {
namespace {

namespace fs = std::filesystem;

int64_t CountEntries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(RunFolder, AFolderWhoseOwnerLivesIsNotSwept) {
  testing::TestWorld world;
  testing::TempDir work_dir;
  const auto first = RunFolder::Open(world.context(), work_dir.path());
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  const auto second = RunFolder::Open(world.context(), work_dir.path());
  ASSERT_TRUE(second.ok());
  EXPECT_NE((*first)->path(), (*second)->path());
  EXPECT_TRUE(fs::exists((*first)->path()));
  EXPECT_TRUE(RunFolder::Abandoned(world.context(), work_dir.path())->empty());
  EXPECT_EQ(*RunFolder::Sweep(world.context(), work_dir.path()), 0);
}

TEST(RunFolder, AFolderWhoseOwnerIsDeadIsSwept) {
  testing::TestWorld world;
  testing::TempDir work_dir;
  fs::path dead;
  {
    const auto folder = RunFolder::Open(world.context(), work_dir.path());
    ASSERT_TRUE(folder.ok());
    dead = (*folder)->path();
    std::ofstream(dead / "scratch" / "spill") << "rows";
  }
  EXPECT_TRUE(fs::exists(dead)) << "a destructor touches nothing durable";
  fs::create_directories(work_dir / "run-nolock" / "engine-0");
  fs::create_directories(work_dir / "something-else");
  EXPECT_EQ(RunFolder::Abandoned(world.context(), work_dir.path())->size(), 2u);
  EXPECT_TRUE(fs::exists(dead)) << "listing removes nothing";
  EXPECT_EQ(*RunFolder::Sweep(world.context(), work_dir.path()), 2);
  EXPECT_EQ(CountEntries(work_dir.path()), 1);
  EXPECT_TRUE(fs::exists(work_dir / "something-else"));
}

TEST(RunFolder, ScratchIsEmptyEachTimeItIsGiven) {
  testing::TestWorld world;
  testing::TempDir work_dir;
  const auto folder = RunFolder::Open(world.context(), work_dir.path());
  ASSERT_TRUE(folder.ok());
  const auto scratch = (*folder)->MakeScratch("part-1", 2);
  ASSERT_TRUE(scratch.ok());
  std::ofstream(*scratch / "left") << "over";
  const auto again = (*folder)->MakeScratch("part-1", 2);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(fs::is_empty(*again));
  EXPECT_NE(*again, *(*folder)->MakeScratch("part-1", 3));
}

TEST(RunFolder, ATaskIdCannotLeaveTheFolder) {
  testing::TestWorld world;
  testing::TempDir work_dir;
  const auto folder = RunFolder::Open(world.context(), work_dir.path());
  ASSERT_TRUE(folder.ok());
  EXPECT_FALSE((*folder)->MakeScratch("../../evil", 1).ok());
}

TEST(RunFolder, RemovingTakesFolderAndLockAway) {
  testing::TestWorld world;
  testing::TempDir work_dir;
  const auto folder = RunFolder::Open(world.context(), work_dir.path());
  ASSERT_TRUE(folder.ok());
  ASSERT_TRUE((*folder)->MakeSlot(0).ok());
  ASSERT_TRUE((*folder)->Remove(world.context()).ok());
  EXPECT_TRUE(fs::is_empty(work_dir.path()));
}

}  // namespace
}  // namespace partforge
