#include "app/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "app/command.h"

namespace partforge::app {
namespace {

using ::testing::HasSubstr;

size_t Columns(std::string_view line) {
  size_t columns = 0;
  for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(HelpText, StandsInTheOrderOfTheBook) {
  for (const CommandSpec& spec : CommandSpecs()) {
    SCOPED_TRACE(std::string(spec.name));
    const std::string help = CommandHelp(spec, 80);
    size_t last = 0;
    for (const char* part : {"usage: partforge ", "\nexamples:\n", "\nOutput:\n", "\nexits: 0 "}) {
      const size_t at = help.find(part);
      ASSERT_NE(at, std::string::npos) << part;
      EXPECT_GT(at, last) << part;
      last = at;
    }
    EXPECT_TRUE(help.starts_with(spec.purpose.substr(0, 20)));
    if (!spec.related.empty()) {
      EXPECT_GT(help.find("\nrelated: "), last);
    }
    for (const OptionSpec& option : AllOptions(spec))
      EXPECT_THAT(help, HasSubstr("--" + std::string(option.name)));
  }
}

TEST(HelpText, IsNeverWiderThanAHundredColumns) {
  for (const int width : {80, 100, 300}) {
    for (const CommandSpec& spec : CommandSpecs()) {
      for (const std::string& line : Lines(CommandHelp(spec, width)))
        EXPECT_LE(Columns(line), 100u) << spec.name << " at " << width << ": " << line;
    }
  }
  for (const std::string& line : Lines(OverviewText())) EXPECT_LE(Columns(line), 100u) << line;
  for (const std::string& line : Lines(CommandList(CommandSpecs())))
    EXPECT_LE(Columns(line), 100u) << line;
}

TEST(HelpText, HasTwoExamplesThatTheCommandUnderstands) {
  const std::vector<CommandSpec> specs = CommandSpecs();
  for (const CommandSpec& spec : specs) {
    int commands = 0;
    for (const std::string_view example : spec.examples) {
      if (example.find("partforge") != std::string_view::npos) ++commands;
      // Each flag that an example names is one of the command's.
      std::istringstream words{std::string(example)};
      for (std::string word; words >> word;) {
        if (!word.starts_with("--") || word.size() == 2) continue;
        const std::string name = word.substr(2, word.find('=') - 2);
        bool is_known = false;
        for (const OptionSpec& option : AllOptions(spec)) is_known |= option.name == name;
        EXPECT_TRUE(is_known) << spec.name << ": " << word;
      }
    }
    EXPECT_GE(commands, 2) << spec.name;
  }
}

TEST(HelpText, RelatesOnlyCommandsThatExist) {
  const std::vector<CommandSpec> specs = CommandSpecs();
  for (const CommandSpec& spec : specs) {
    for (const std::string_view related : spec.related) {
      bool is_known = false;
      for (const CommandSpec& other : specs) is_known |= other.name == related;
      EXPECT_TRUE(is_known) << spec.name << " → " << related;
    }
  }
}

TEST(GroupList, HasTheCommandsOfAGroupAndNoOther) {
  const std::string text = GroupList("file", CommandSpecs());
  EXPECT_THAT(text, HasSubstr("  file inspect "));
  EXPECT_THAT(text, HasSubstr("  file concat "));
  EXPECT_EQ(text.find("worker"), std::string::npos);
  EXPECT_EQ(GroupList("fil", CommandSpecs()), "");
  EXPECT_EQ(GroupList("worker", CommandSpecs()), "");
}

TEST(Overview, FitsAScreenAndNamesTheDemo) {
  const auto lines = Lines(OverviewText());
  EXPECT_LE(lines.size(), 30u);
  EXPECT_THAT(OverviewText(), HasSubstr("partforge demo"));
}

TEST(Completions, KnowEveryCommandAndFlag) {
  const std::vector<CommandSpec> specs = CommandSpecs();
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(shell, specs);
    for (const CommandSpec& spec : specs) {
      std::istringstream words{std::string(spec.name)};
      for (std::string word; words >> word;) EXPECT_THAT(script, HasSubstr(word)) << spec.name;
    }
    EXPECT_THAT(script, HasSubstr("insert-chunk-min-rows"));
  }
  EXPECT_EQ(CompletionScript("tcsh", specs), "");
}

}  // namespace
}  // namespace partforge::app
