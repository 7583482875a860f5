#include "app/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/progress_line.h"
#include "base/error_ids.h"

namespace partforge::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Table SmallTable() {
  return Table{{{.title = "NAME", .is_right_aligned = false, .may_be_cut = true},
                {.title = "ROWS", .is_right_aligned = true}},
               {{"events_of_the_whole_year_2026_by_day", "12 345"}, {"käse", "7"}}};
}

OutputStyle Terminal(int width) {
  OutputStyle style;
  style.is_stdout_tty = style.is_stderr_tty = true;
  style.width = width;
  return style;
}

// check: UX-6
TEST(RenderTable, IsReadableOnEveryTerminal) {
  EXPECT_EQ(RenderTable(SmallTable(), Terminal(80)),
            "NAME                                    ROWS\n"
            "events_of_the_whole_year_2026_by_day  12 345\n"
            "käse                                       7\n");
  EXPECT_EQ(RenderTable(SmallTable(), Terminal(40)),
            "NAME                                ROWS\n"
            "events_of_the_wh…ear_2026_by_day  12 345\n"
            "käse                                   7\n")
      << "forty columns cut in the middle, never the number";
  OutputStyle pipe;
  pipe.width = 40;
  EXPECT_EQ(RenderTable(SmallTable(), pipe), RenderTable(SmallTable(), Terminal(80)))
      << "what goes into a pipe is not cut";
  OutputStyle ascii = Terminal(40);
  ascii.is_utf8 = false;
  EXPECT_EQ(RenderTable(SmallTable(), ascii),
            "NAME                                ROWS\n"
            "events_of_the_w..ear_2026_by_day  12 345\n"
            "k?se                                   7\n");
  OutputStyle colored = Terminal(80);
  colored.has_color = true;
  const std::string text = RenderTable(SmallTable(), colored);
  EXPECT_TRUE(text.starts_with("\x1b[1mNAME"));
  EXPECT_THAT(RenderTable(SmallTable(), Terminal(80)), Not(HasSubstr("\x1b")));
}

TEST(RenderTable, ShowsNamesFromOutsideHarmlessly) {
  const Table table{{{.title = "NAME"}}, {{"a\x1b[2Jb\nc\td"}, {"\xff\xfe"}, {"日本"}}};
  EXPECT_EQ(RenderTable(table, Terminal(80)), "NAME\na\\x1b[2Jb\\x0ac\\x09d\n\\xff\\xfe\n日本\n");
}

// check: UX-6
TEST(InGlyphsOf, ATerminalWithoutUtf8HasOurSignsInAscii) {
  OutputStyle ascii;
  ascii.is_utf8 = false;
  EXPECT_EQ(InGlyphsOf(ascii, "rows 3 in = 3 out ✓ · T5 ×2 · a → b … käse ✗ 1 − 1"),
            "rows 3 in = 3 out ok | T5 x2 | a -> b .. k?se FAIL 1 - 1");
  EXPECT_EQ(InGlyphsOf(OutputStyle{}, "✓ ·"), "✓ ·");
}

TEST(WhenText, IsAnAgeOnlyWhereItIsReadAtOnce) {
  OutputStyle style;
  EXPECT_EQ(WhenText(style, 60'000, 180'000), "1970-01-01T00:01:00.000Z");
  style.has_ages = true;
  EXPECT_EQ(WhenText(style, 60'000, 180'000), "2 min ago");
  EXPECT_EQ(WhenText(style, 0, 180'000), "") << "never";
}

TEST(Printable, KeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(Printable("grün ✓"), "grün ✓");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\x7f"), "\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b") << "a control character of eight bits";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half a surrogate";
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf") << "an overlong slash";
}

Status Example() {
  return Status(Code::kRefused, "3 patch parts are not applied")
      .Explain(2107, "src_db.events", "apply them\nor run partforge freeze --apply-patches");
}

TEST(RenderError, HasTheFormOfTheBook) {
  EXPECT_EQ(RenderError(Example(), OutputStyle{}),
            "error[PF2107]: frozen part lacks updates that queries see\n"
            "  where   src_db.events\n"
            "  why     3 patch parts are not applied\n"
            "  do      apply them\n"
            "          or run partforge freeze --apply-patches\n"
            "  more    partforge explain PF2107\n");
  OutputStyle colored = Terminal(80);
  colored.has_color = true;
  EXPECT_THAT(RenderError(Example(), colored), HasSubstr("\x1b[31;1merror[PF2107]\x1b[0m: "));
  OutputStyle ascii;
  ascii.is_utf8 = false;
  const std::string text =
      RenderError(Status(Code::kNotFound, "no such job: ü").Explain(2130, "x", "y"), ascii);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c > 0; })) << text;
}

TEST(RenderError, HasTheSameFactsAsJson) {
  OutputStyle json;
  json.is_json = true;
  const auto doc = ParseJson(RenderError(Example(), json));
  ASSERT_TRUE(doc.ok());
  EXPECT_EQ((*doc)["type"], "error");
  EXPECT_EQ((*doc)["code"], "PF2107");
  EXPECT_EQ((*doc)["message"], "frozen part lacks updates that queries see");
  EXPECT_EQ((*doc)["where"], "src_db.events");
  EXPECT_EQ((*doc)["why"], "3 patch parts are not applied");
  EXPECT_EQ((*doc)["do"].size(), 2u);
  EXPECT_EQ((*doc)["retryable"], false);
  EXPECT_EQ((*doc)["exit"], 3);
}

TEST(RenderError, NeverLetsAForeignTextBreakTheLine) {
  const Status status =
      Status(Code::kCorruption, "digest of \x1b]0;x\x07").Explain(8005, "a\nb", "c");
  EXPECT_THAT(RenderError(status, OutputStyle{}), HasSubstr("\\x1b]0;x\\x07"));
  EXPECT_THAT(RenderError(status, OutputStyle{}), HasSubstr("where   a\\x0ab\n"));
}

TEST(RenderError, GivesANumberToEveryFailure) {
  const std::vector<std::pair<Code, int>> numbers = {
      {Code::kInvalidArgument, 1020}, {Code::kNotFound, 1019},  {Code::kAlreadyExists, 6009},
      {Code::kRefused, 1020},         {Code::kConflict, 6009},  {Code::kLeaseLost, 6005},
      {Code::kUnavailable, 7016},     {Code::kExhausted, 7017}, {Code::kCorruption, 8007},
      {Code::kUnknownOutcome, 6010},  {Code::kCancelled, 1018}, {Code::kInternal, 9001}};
  for (const auto& [code, number] : numbers) {
    const Status status(code, "why");
    EXPECT_EQ(NumberOf(status), number) << CodeName(code);
    ASSERT_NE(FindErrorId(number), nullptr) << CodeName(code);
    EXPECT_EQ(ErrorDocument(status)["code"], ErrorIdText(number));
    EXPECT_FALSE(ErrorDocument(status)["do"].empty()) << CodeName(code);
  }
  EXPECT_EQ(NumberOf(Status(Code::kInternal, "x").Explain(2144, "", "")), 2144);
}

TEST(ProgressText, FitsTheWidthAndTellsTheEtaLate) {
  const std::string early = ProgressText("rewriting", 0.5, "chunk 10/20", 4'000, 100, true);
  EXPECT_EQ(early, "rewriting  ━━━━━━━━━━━╸──────────   50%  chunk 10/20");
  EXPECT_EQ(ProgressText("rewriting", 0.5, "chunk 10/20", 60'000, 100, true),
            early + " · ETA 1m00s");
  EXPECT_EQ(ProgressText("rewriting", 0.01, "x", 60'000, 100, false),
            "rewriting  >---------------------    1%  x");
  EXPECT_EQ(ProgressText("rewriting", 1.0, "", 60'000, 100, false),
            "rewriting  ======================  100%  ");
  EXPECT_LT(ProgressText("rewriting", 0.5, std::string(200, 'x'), 60'000, 40, false).size(), 40u);
}

// user-experience §4.2: rates over the last ten seconds.
TEST(RateWindow, LooksAtTheLastTenSecondsOnly) {
  RateWindow window;
  EXPECT_EQ(window.Add(0, {.rows = 0, .bytes = 0}).rows, 0);
  const Rates first = window.Add(1'000, {.rows = 500, .bytes = 2'000'000});
  EXPECT_EQ(first.rows, 500);
  EXPECT_EQ(RateText(first), " · 500 rows/s · 2.0 MB/s");
  window.Add(20'000, {.rows = 500, .bytes = 2'000'000});
  const Rates idle = window.Add(30'000, {.rows = 500, .bytes = 2'000'000});
  EXPECT_EQ(idle.rows, 0);
  EXPECT_EQ(RateText(idle), "");
  EXPECT_EQ(window.Add(35'000, {.rows = 1'500, .bytes = 0}).bytes, 0) << "never negative";
}

TEST(Output, AnAnswerIsAllThatQuietLeaves) {
  const auto shown = [](const OutputStyle& style) {
    ::testing::internal::CaptureStdout();
    Output out(style);
    out.Line("two jobs");
    out.Answer("job-1");
    out.Document("list-jobs", JsonDoc{{"jobs", 1}});
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(shown({}), "two jobs\n");
  EXPECT_EQ(shown({.is_quiet = true}), "job-1\n");
  EXPECT_THAT(shown({.is_json = true, .is_quiet = true}), ::testing::StartsWith("{"));
}

TEST(Output, AFullDiskIsAFailureAndABrokenPipeIsNot) {
  const auto write_to = [](int descriptor) {
    const int kept = dup(STDOUT_FILENO);
    dup2(descriptor, STDOUT_FILENO);
    auto out = std::make_unique<Output>(OutputStyle{});
    out->Raw("text");
    dup2(kept, STDOUT_FILENO);
    close(kept);
    return out;
  };
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const auto on_full = write_to(full);
  close(full);
  EXPECT_FALSE(on_full->is_pipe_broken());
  EXPECT_EQ(on_full->failure().explanation().pf_number, 7015) << on_full->failure().ToString();
  EXPECT_THAT(on_full->failure().message(), HasSubstr("No space left"));

  const auto ignored = std::signal(SIGPIPE, SIG_IGN);
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto on_pipe = write_to(ends[1]);
  close(ends[1]);
  std::signal(SIGPIPE, ignored);
  EXPECT_TRUE(on_pipe->is_pipe_broken());
  EXPECT_TRUE(on_pipe->failure().ok());
}

}  // namespace
}  // namespace partforge::app
