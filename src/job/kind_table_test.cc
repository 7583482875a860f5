#include <gtest/gtest.h>

#include "job/kind.h"

namespace partforge {
namespace {

TEST(KindTable, FindsWhatWasAddedAndRefusesASecond) {
  KindTable kinds;
  JobKind kind;
  kind.name = "testing.copy";
  kind.grouping = CommitGrouping::kTask;
  ASSERT_TRUE(kinds.Add(kind).ok());
  EXPECT_EQ(kinds.Add(kind).code(), Code::kAlreadyExists);
  const auto found = kinds.Find("testing.copy");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->grouping, CommitGrouping::kTask);
  EXPECT_EQ(kinds.Find("other").status().code(), Code::kNotFound);
  EXPECT_EQ(kinds.Names(), (std::vector<std::string>{"testing.copy"}));
}

}  // namespace
}  // namespace partforge
