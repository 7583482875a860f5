#include "app/later_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "app/command.h"

namespace partforge::app {
namespace {

// One that is there now is taken out of the list.
TEST(LaterCommands, AreNotThereAndNameOnlyWhatIs) {
  std::set<std::string> present;
  for (const CommandSpec& spec : CommandSpecs()) present.emplace(spec.name);
  present.insert("help");
  for (const LaterCommand& later : LaterCommands()) {
    EXPECT_FALSE(present.contains(std::string(later.name))) << later.name;
    const std::string text(later.meanwhile);
    static const std::regex kCommand("partforge ([a-z-]+)");
    for (std::sregex_iterator it(text.begin(), text.end(), kCommand), end; it != end; ++it)
      EXPECT_TRUE(present.contains((*it)[1])) << later.name << ": " << text;
  }
  ASSERT_NE(FindLaterCommand("reset-job"), nullptr);
  EXPECT_EQ(FindLaterCommand("worker"), nullptr);
  EXPECT_EQ(FindLaterCommand("reset"), nullptr);
}

}  // namespace
}  // namespace partforge::app
