#include "base/log_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "testing/test_world.h"

namespace partforge {
namespace {

TEST(LogFile, ARotatedFileIsLeftAlone) {
  const testing::TempDir folder;
  const std::string path = folder / "log", rotated = folder / "log.1";
  const auto log = LogFile::Open(path);
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  (*log)->Write("one\n");
  std::filesystem::rename(path, rotated);
  (*log)->Write("two\n");
  ASSERT_TRUE((*log)->Reopen().ok());
  (*log)->Write("three\n");
  EXPECT_EQ(*ReadFile(rotated), "one\ntwo\n");
  EXPECT_EQ(*ReadFile(path), "three\n");
}

TEST(LogFile, AppendsAndIsNobodyElses) {
  const testing::TempDir folder;
  const std::string path = folder / "log";
  for (int i = 0; i < 2; ++i) (*LogFile::Open(path))->Write("line\n");
  EXPECT_EQ(*ReadFile(path), "line\nline\n");
  struct stat found {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0007u, 0u);
}

TEST(LogFile, WhatCannotBeOpenedAgainStaysInUse) {
  const testing::TempDir folder;
  const std::string inner = folder / "a";
  std::filesystem::create_directory(inner);
  const auto log = LogFile::Open(inner + "/log");
  ASSERT_TRUE(log.ok());
  const std::string moved = folder / "b";
  std::filesystem::rename(inner, moved);
  EXPECT_FALSE((*log)->Reopen().ok());
  (*log)->Write("still here\n");
  EXPECT_EQ(*ReadFile(moved + "/log"), "still here\n");
  EXPECT_FALSE(LogFile::Open(inner + "/log").ok());
}

}  // namespace
}  // namespace partforge
