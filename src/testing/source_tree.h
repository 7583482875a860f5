#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace partforge::testing {

// One C++ file of the tree, for the rules of tidy_rules.h.
struct SourceFile {
  std::string path;     // relative to the project, e.g. "src/base/error.cc"
  std::string room;     // folder below src, "" elsewhere
  std::string literal;  // comments blanked, strings kept; same length and lines as the file
  std::string code;     // comments, strings and characters blanked

  bool is_header() const { return path.ends_with(".h"); }
  // Files that are never linked into the product.
  bool is_test() const {
    if (room == "testing" || room.empty()) return true;
    // x_test and x_rig (what several tests of a room share) are never linked into the product.
    for (const std::string_view end :
         {"_test.cc", "_test.h", "_rig.cc", "_rig.h", "_fixture.cc", "_fixture.h"}) {
      if (path.ends_with(end)) return true;
    }
    return false;
  }
};

// Cuts a file's text into the forms above.
SourceFile MakeSourceFile(std::string path, std::string_view text);

// The C++ files below `project`/src, tests and bench, by path. Throws when a file cannot be read.
std::vector<SourceFile> LoadSources(const std::filesystem::path& project);

// Rooms and what each may include, of the text of <build>/rooms.txt: "job: base" a line.
std::map<std::string, std::set<std::string>> ParseRooms(std::string_view text);

// A word of the code: [A-Za-z_][A-Za-z0-9_]*, with its place.
struct Word {
  std::string_view text;
  size_t at = 0;
};
std::vector<Word> Words(std::string_view code);

// Line of the byte `at`, from 1.
int LineOf(std::string_view text, size_t at);

}  // namespace partforge::testing
