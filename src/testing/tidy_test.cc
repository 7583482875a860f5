#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "testing/source_tree.h"
#include "testing/tidy_rules.h"

namespace partforge::testing {
namespace {

namespace fs = std::filesystem;

fs::path FromEnvironment(const char* name, const fs::path& fallback) {
  const char* const value = std::getenv(name);
  return value != nullptr ? fs::path(value) : fallback;
}

fs::path Project() {
  return FromEnvironment("PARTFORGE_SOURCE_DIR", fs::current_path());
}
fs::path Build() {
  return FromEnvironment("PARTFORGE_BINARY_DIR", Project() / "build" / "dev");
}

std::string Slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Lines(const Violations& violations) {
  std::string text;
  for (const std::string& violation : violations) text += "\n  " + violation;
  return text;
}

// True when `name` stands in a CMake list, and not only as the end of a longer name.
bool IsListed(const std::string& list, const std::string& name) {
  for (size_t at = list.find(name); at != std::string::npos; at = list.find(name, at + 1)) {
    if (at == 0 || std::string_view(" \t\n(/\"").find(list[at - 1]) != std::string_view::npos)
      return true;
  }
  return false;
}

// The tree under test, read once for all laws.
class Tidy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = LoadSources(Project());
    rooms_ = ParseRooms(Slurp(Build() / "rooms.txt"));
    ASSERT_FALSE(files_.empty()) << "no sources below " << Project();
    ASSERT_FALSE(rooms_.empty()) << "no rooms in " << Build() / "rooms.txt: run cmake";
  }

  template <class Rule>
  static void ExpectNone(const Rule& rule) {
    Violations all;
    for (const SourceFile& file : files_) {
      for (std::string& violation : rule(file)) all.push_back(std::move(violation));
    }
    EXPECT_TRUE(all.empty()) << all.size() << " places:" << Lines(all);
  }

  static std::vector<SourceFile> files_;
  static RoomGraph rooms_;
};

std::vector<SourceFile> Tidy::files_;
RoomGraph Tidy::rooms_;

TEST_F(Tidy, IncludesFollowTheGraphOfRooms) {
  std::set<std::string> generated;
  const fs::path folder = Build() / "generated";
  if (fs::exists(folder)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      generated.insert(entry.path().lexically_relative(folder).generic_string());
    }
  }
  ExpectNone([&](const SourceFile& file) { return CheckIncludes(file, rooms_, generated); });
}

TEST_F(Tidy, RoomsFormNoCircle) {
  // Rooms are taken away as soon as all they know is gone; a circle stays.
  RoomGraph left = rooms_;
  for (bool is_moving = true; is_moving;) {
    is_moving = false;
    for (auto it = left.begin(); it != left.end();) {
      bool is_free = true;
      for (const std::string& below : it->second) is_free = is_free && left.count(below) == 0;
      it = is_free ? left.erase(it) : std::next(it);
      is_moving = is_moving || is_free;
    }
  }
  std::string circle;
  for (const auto& [room, below] : left) circle += room + " ";
  EXPECT_TRUE(left.empty()) << "these rooms know each other: " << circle;
}

TEST_F(Tidy, FormatsDoNotKnowEachOther) {
  const std::set<std::string> formats = {"clickhouse", "iceberg", "paimon"};
  for (const auto& [room, below] : rooms_) {
    if (formats.count(room) == 0) continue;
    for (const std::string& other : below) {
      EXPECT_EQ(formats.count(other), 0u)
          << room << " knows " << other << ": what both need goes down to data, job or base";
    }
  }
}

TEST_F(Tidy, BannedWordsStandNowhere) {
  ExpectNone(CheckWords);
}
TEST_F(Tidy, NothingGlobalCanChange) {
  ExpectNone(CheckGlobals);
}
TEST_F(Tidy, FilesAndTypesAreNamedAfterTheirConcept) {
  ExpectNone(CheckNames);
}
TEST_F(Tidy, HeadersStartWithPragmaOnce) {
  ExpectNone(CheckHeaderGuard);
}

TEST_F(Tidy, FaultPointsAreUnique) {
  const Violations violations = CheckFaultPoints(files_);
  EXPECT_TRUE(violations.empty()) << Lines(violations);
}

TEST_F(Tidy, EveryRoomHasAReadme) {
  std::set<std::string> rooms;
  for (const SourceFile& file : files_) {
    if (!file.room.empty()) rooms.insert(file.room);
  }
  Violations missing;
  for (const std::string& room : rooms) {
    if (!fs::exists(Project() / "src" / room / "README.md"))
      missing.push_back("src/" + room + "/README.md");
  }
  EXPECT_TRUE(missing.empty())
      << "one page each: what the room is for, its types, its invariants, what a "
         "crash leaves behind:"
      << Lines(missing);
}

TEST_F(Tidy, EverySourceIsBuilt) {
  std::map<std::string, std::string> lists;
  Violations missing;
  for (const SourceFile& file : files_) {
    if (file.is_header() || file.room.empty()) continue;
    auto [it, is_new] = lists.emplace(file.room, "");
    if (is_new) {
      for (const fs::directory_entry& entry :
           fs::recursive_directory_iterator(Project() / "src" / file.room)) {
        if (entry.path().filename() == "CMakeLists.txt") it->second += " " + Slurp(entry.path());
      }
    }
    const std::string name = fs::path(file.path).filename().string();
    if (!IsListed(it->second, name)) missing.push_back(file.path);
  }
  EXPECT_TRUE(missing.empty()) << "no CMakeLists.txt of their room lists:" << Lines(missing);
}

// The laws of the rules themselves, on small texts.

Violations WordsIn(std::string path, std::string_view text) {
  return CheckWords(MakeSourceFile(std::move(path), text));
}

TEST(TidyRules, CommentsAndStringsAreNoCode) {
  const SourceFile file = MakeSourceFile(
      "src/job/a.cc",
      "// throw\n/* throw\n throw */ int a = 1'000; const char* t = \"throw \\\" throw\";\n"
      "auto r = R\"x(throw \" )\" throw)x\"; char c = '\"'; // \"\nint z;");
  EXPECT_EQ(file.room, "job");
  EXPECT_EQ(file.code.find("throw"), std::string::npos) << file.code;
  EXPECT_NE(file.code.find("int z"), std::string::npos) << file.code;
  EXPECT_NE(file.code.find("char c"), std::string::npos) << file.code;
  EXPECT_EQ(LineOf(file.code, file.code.find("int z")), 5);
  EXPECT_NE(file.literal.find("throw \\\""), std::string::npos);
}

TEST(TidyRules, EachBannedWordIsFoundWithItsPlace) {
  for (const char* text : {"throw 1;",
                           "assert(a);",
                           "std::cout << a;",
                           "std::printf(a);",
                           "puts(a);",
                           "printf (a);",
                           "std::this_thread::sleep_for(a);",
                           "usleep(1);",
                           "::sleep(1);",
                           "std::chrono::system_clock::now();",
                           "std::chrono::steady_clock::now();",
                           "rand();",
                           "std::random_device d;",
                           "std::getenv(a);",
                           "::getenv(a);",
                           "using namespace std;",
                           "fmt::print(a);",
                           "T* t = new T();",
                           "delete t;",
                           "delete[] t;",
                           "std::unique_ptr<T> t; T* u = f(new T);"}) {
    const Violations found = WordsIn("src/job/a.cc", std::string("\n") + text);
    ASSERT_EQ(found.size(), 1u) << text;
    EXPECT_TRUE(found[0].starts_with("src/job/a.cc:2: ")) << found[0];
  }
}

TEST(TidyRules, WhatOnlyLooksBannedIsFree) {
  for (const char* text :
       {"static_assert(a);", "fprintf(stderr, a);", "snprintf(a, 1, b);", "clock.sleep(1);",
        "a->rand();", "X(const X&) = delete;", "#include <new>\n", "std::unique_ptr<T>(new T());",
        "return std::unique_ptr<T>(\n    new T(a));", "using namespace std::chrono_literals;",
        "fmt::print(stderr, a);", "int throwing = 1;", "Sql::puts(a);", "int now = 1;",
        "ctx.clock.NowMs();"}) {
    EXPECT_EQ(Lines(WordsIn("src/job/a.cc", text)), "") << text;
  }
}

TEST(TidyRules, WordsAreAllowedWhereTheyBelong) {
  EXPECT_EQ(Lines(WordsIn("src/base/clock.cc", "system_clock::now(); sleep_for(a); getenv(b);")),
            "");
  EXPECT_EQ(Lines(WordsIn("src/app/main.cc", "std::cout << 1; printf(a); std::getenv(b);")), "");
  EXPECT_EQ(Lines(WordsIn("src/engine/engine_server.cc", "std::printf(a);")), "");
  EXPECT_EQ(Lines(WordsIn("src/testing/a.cc", "throw 1; sleep_for(a); getenv(b);")), "");
  EXPECT_EQ(Lines(WordsIn("src/job/a_test.cc", "throw 1; getenv(b); steady_clock::now();")), "");
  EXPECT_EQ(WordsIn("src/job/a_test.cc", "sleep_for(a);").size(), 1u);
  EXPECT_EQ(WordsIn("src/app/main.cc", "throw 1;").size(), 1u);
}

TEST(TidyRules, IncludesAreCheckedAgainstTheGraph) {
  const RoomGraph rooms = ParseRooms("base: \nstore: base\njob: base\n");
  const auto check = [&](std::string path, std::string_view text) {
    return CheckIncludes(MakeSourceFile(std::move(path), text), rooms, {"version.h"}).size();
  };
  EXPECT_EQ(
      check("src/job/a.cc", "#include \"job/a.h\"\n#include \"base/b.h\"\n#include <vector>\n"),
      0u);
  EXPECT_EQ(check("src/job/a.cc", "#include \"store/a.h\"\n"), 1u);
  EXPECT_EQ(check("src/base/a.cc", "#include \"job/a.h\"\n"), 1u);
  EXPECT_EQ(check("src/job/a.cc", "#include \"testing/a.h\"\n"), 1u);
  EXPECT_EQ(check("src/job/a_test.cc", "#include \"testing/a.h\"\n"), 0u);
  EXPECT_EQ(check("src/job/a.cc", "#include \"../base/a.h\"\n#include \"a.h\"\n"), 2u);
  EXPECT_EQ(check("src/job/a.cc", "#include \"version.h\"\n"), 0u);
  EXPECT_EQ(check("src/attic/a.cc", "#include \"base/a.h\"\n"), 1u);
  EXPECT_EQ(check("src/job/a.h", "#include <nlohmann/json.hpp>\n#include <sqlite3.h>\n"), 2u);
  EXPECT_EQ(check("src/job/a.h", "#include <nlohmann/json_fwd.hpp>\n#include <arrow/type_fwd.h>\n"),
            0u);
  EXPECT_EQ(check("src/job/a.cc", "#include <nlohmann/json.hpp>\n"), 0u);
  EXPECT_EQ(check("src/testing/a.cc", "#include \"job/a.h\"\n#include \"store/a.h\"\n"), 0u);
}

TEST(TidyRules, GlobalsAreFoundAndConstantsAreFree) {
  const auto check = [](std::string_view text) {
    return CheckGlobals(MakeSourceFile("src/job/a.cc", text)).size();
  };
  for (const char* text :
       {"int counter = 0;", "std::mutex mutex;", "static std::map<int, int> cache;",
        "thread_local int depth = 0;", "std::atomic<bool> is_on{false};",
        "void F() {\n  static int calls = 0;\n}", "inline std::string name;"}) {
    EXPECT_EQ(check(text), 1u) << text;
  }
  for (const char* text :
       {"constexpr int kA = 1;", "const std::string kName = \"a\";", "using A = B;", "class A;",
        "struct B;", "void F();", "Result<int> F(int a = 1);", "Sha256::~Sha256() = default;",
        "static const int a = 1;", "  static constexpr int b = 2;",
        "  static Result<A> Open(int a);", "  int local = 1;", "enum class E;",
        "namespace fs = std::filesystem;", "extern char** environ;", "}  // namespace",
        "  static int F();"}) {
    EXPECT_EQ(check(text), 0u) << text;
  }
}

TEST(TidyRules, EmptyNamesAreFound) {
  EXPECT_EQ(CheckNames(MakeSourceFile("src/job/job_utils.cc", "")).size(), 1u);
  EXPECT_EQ(CheckNames(MakeSourceFile("src/job/common.h", "")).size(), 1u);
  EXPECT_EQ(CheckNames(MakeSourceFile("src/job/a.cc", "class JobManager {};")).size(), 1u);
  EXPECT_EQ(CheckNames(MakeSourceFile("src/job/a.cc", "namespace helpers {}")).size(), 1u);
  EXPECT_EQ(CheckNames(MakeSourceFile("src/job/worker.cc", "class Worker {};")).size(), 0u);
}

TEST(TidyRules, HeadersWithoutPragmaAreFound) {
  EXPECT_EQ(CheckHeaderGuard(MakeSourceFile("src/job/a.h", "#include <a>\n#pragma once\n")).size(),
            1u);
  EXPECT_EQ(CheckHeaderGuard(MakeSourceFile("src/job/a.h", "// why\n#pragma once\n")).size(), 0u);
  EXPECT_EQ(CheckHeaderGuard(MakeSourceFile("src/job/a.cc", "int a;\n")).size(), 0u);
}

TEST(TidyRules, FaultPointsAreReadAcrossLinesAndOnlyOnce) {
  const std::vector<SourceFile> files = {
      MakeSourceFile("src/job/a.cc",
                     "PF_FAULT(ctx, \"job.one\");\nPF_FAULT(ctx,\n         \"job.two\");\n"
                     "PF_TRY(ctx.faults.Hit(\"job.three\"));  // PF_FAULT(ctx, \"job.one\")\n"
                     "#define PF_FAULT(ctx, point) PF_TRY((ctx).faults.Hit(point))\n"
                     "PF_TRY(faults.Hit(point)); F(\"job.one\");"),
      MakeSourceFile("src/store/b.cc", "PF_FAULT(ctx, \"job.two\");\nPF_FAULT(ctx, \"Nodot\");"),
      MakeSourceFile("src/store/b_test.cc", "PF_FAULT(ctx, \"job.two\");")};
  ASSERT_EQ(FaultPoints(files[0]).size(), 3u);
  EXPECT_EQ(FaultPoints(files[0])[1].name, "job.two");
  EXPECT_EQ(FaultPoints(files[0])[1].place, "src/job/a.cc:2");
  const Violations violations = CheckFaultPoints(files);
  ASSERT_EQ(violations.size(), 2u) << Lines(violations);
  EXPECT_TRUE(
      violations[0].starts_with("src/store/b.cc:1: fault point job.two stands at src/job/a.cc:2"));
}

}  // namespace
}  // namespace partforge::testing
