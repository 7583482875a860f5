#include "base/error_ids.h"

#include <gtest/gtest.h>

namespace partforge {
namespace {

TEST(ErrorIds, AscendUniquelyAndReadAsOneSentence) {
  int last = 0;
  for (const ErrorId& id : ErrorIds()) {
    EXPECT_GT(id.number, last);
    last = id.number;
    EXPECT_LE(id.title.size(), 80u) << id.number;
    EXPECT_FALSE(id.title.empty());
    EXPECT_NE(id.title.back(), '.') << id.number;
    EXPECT_GE(id.paragraph.size(), 40u) << id.number;
  }
}

TEST(ErrorIds, FindsByNumber) {
  ASSERT_NE(FindErrorId(2107), nullptr);
  EXPECT_EQ(FindErrorId(2107)->title, "frozen part lacks updates that queries see");
  EXPECT_EQ(FindErrorId(2), nullptr);
  EXPECT_EQ(FindErrorId(99999), nullptr);
  EXPECT_EQ(ErrorIdText(2107), "PF2107");
}

}  // namespace
}  // namespace partforge
