#include "testing/tidy_rules.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace partforge::testing {
namespace {

enum class Where {
  kNowhere,         // banned in the product and in tests
  kTests,           // allowed in tests only
  kBase,            // allowed in base and in testing/
  kBaseAndTests,    // allowed in base and in tests
  kBaseAppAndTests  // allowed in base, app and in tests
};

enum class Form {
  kAlone,      // the word wherever it stands
  kCall,       // word( — not as a member
  kQualified,  // after `before`, e.g. std:: or _clock::
};

struct Ban {
  std::string_view word;
  Form form = Form::kAlone;
  std::string_view before;  // for kQualified: the text just before the word
  Where allowed = Where::kNowhere;
  std::string_view instead;
};

constexpr std::string_view kResults = "results go through app's output, events through ctx.log";
constexpr std::string_view kSleeps = "wait with ctx.clock.SleepMs(ms, ctx.stop) or on a condition";
constexpr std::string_view kTimes = "ask ctx.clock.NowMs(), for durations MonotonicMs()";
constexpr std::string_view kChance = "draw from ctx.random, in tests from SeededRandom";
constexpr std::string_view kFails = "return a Status or a Result";

constexpr Ban kBans[] = {
    {"throw", Form::kAlone, "", Where::kTests, kFails},
    {"assert", Form::kCall, "", Where::kNowhere,
     "PF_CHECK for our own bugs, a Status for all else"},
    {"cout", Form::kQualified, "std::", Where::kNowhere, kResults},
    {"cerr", Form::kQualified, "std::", Where::kTests, kResults},
    {"printf", Form::kCall, "", Where::kTests, kResults},
    {"vprintf", Form::kCall, "", Where::kTests, kResults},
    {"puts", Form::kCall, "", Where::kTests, kResults},
    {"putchar", Form::kCall, "", Where::kTests, kResults},
    {"sleep_for", Form::kAlone, "", Where::kBase, kSleeps},
    {"sleep_until", Form::kAlone, "", Where::kBase, kSleeps},
    {"sleep", Form::kCall, "", Where::kBase, kSleeps},
    {"usleep", Form::kCall, "", Where::kBase, kSleeps},
    {"nanosleep", Form::kCall, "", Where::kBase, kSleeps},
    {"now", Form::kQualified, "_clock::", Where::kBaseAndTests, kTimes},
    {"gettimeofday", Form::kCall, "", Where::kBaseAndTests, kTimes},
    {"clock_gettime", Form::kCall, "", Where::kBaseAndTests, kTimes},
    {"rand", Form::kCall, "", Where::kNowhere, kChance},
    {"srand", Form::kCall, "", Where::kNowhere, kChance},
    {"random_device", Form::kAlone, "", Where::kNowhere, kChance},
    {"mt19937", Form::kAlone, "", Where::kTests, kChance},
    {"mt19937_64", Form::kAlone, "", Where::kTests, kChance},
    {"getenv", Form::kCall, "", Where::kBaseAppAndTests,
     "take the value as an option; app reads the environment"},
    {"secure_getenv", Form::kCall, "", Where::kBaseAppAndTests,
     "take the value as an option; app reads the environment"},
};

// The room engine prints its ready line, app prints results: both by these calls.
bool MayPrint(const SourceFile& file) {
  return file.room == "app" || file.room == "engine";
}

bool IsAllowed(const SourceFile& file, const Ban& ban) {
  const bool is_base = file.room == "base";
  switch (ban.allowed) {
    case Where::kNowhere:
      return ban.instead == kResults && MayPrint(file);
    case Where::kTests:
      return file.is_test() || (ban.instead == kResults && MayPrint(file));
    case Where::kBase:
      return is_base || file.room == "testing";
    case Where::kBaseAndTests:
      return is_base || file.is_test();
    case Where::kBaseAppAndTests:
      return is_base || file.room == "app" || file.is_test();
  }
  return false;
}

// The code before `at`, without blanks at its end.
std::string_view Before(std::string_view code, size_t at) {
  std::string_view text = code.substr(0, at);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return text;
}

char NextChar(std::string_view code, size_t at) {
  while (at < code.size() && std::isspace(static_cast<unsigned char>(code[at])) != 0) ++at;
  return at < code.size() ? code[at] : '\0';
}

bool Matches(const Ban& ban, std::string_view code, const Word& word) {
  if (word.text != ban.word) return false;
  const std::string_view before = Before(code, word.at);
  switch (ban.form) {
    case Form::kAlone:
      return true;
    case Form::kQualified:
      return before.ends_with(ban.before);
    case Form::kCall: {
      if (NextChar(code, word.at + word.text.size()) != '(') return false;
      const bool is_member = before.ends_with('.') || before.ends_with("->");
      const bool is_elsewhere =
          before.ends_with("::") && !before.ends_with("std::") && before.size() > 2 &&
          (std::isalnum(static_cast<unsigned char>(before[before.size() - 3])) != 0);
      return !is_member && !is_elsewhere;
    }
  }
  return false;
}

// True in a line such as `#include <new>`.
bool IsInInclude(std::string_view code, size_t at) {
  const size_t newline = code.rfind('\n', at);
  return code.substr(newline == std::string_view::npos ? 0 : newline + 1).starts_with("#include");
}

std::string Place(const SourceFile& file, size_t at) {
  return file.path + ":" + std::to_string(LineOf(file.code, at));
}

std::string Say(const SourceFile& file, size_t at, std::string_view what,
                std::string_view instead) {
  return Place(file, at) + ": " + std::string(what) + ": " + std::string(instead);
}

// `new T(…)` is allowed as the argument of a unique_ptr's constructor: a private constructor leaves
// no other way.
bool IsOwnedNew(std::string_view before) {
  if (!before.ends_with('(')) return false;
  const size_t line = before.rfind("unique_ptr<");
  return line != std::string_view::npos && before.size() - line < 200 &&
         before.substr(line).find_first_of(";{}") == std::string_view::npos;
}

// The exceptions, each with its reason.
struct KnownGlobal {
  std::string_view path, name, reason;
};
constexpr KnownGlobal kKnownGlobals[] = {
    {"src/base/process.cc", "spawner",
     "the thread that forks must outlive every object that starts a child"},
};

bool IsKnownGlobal(const SourceFile& file, std::string_view name) {
  return std::any_of(
      std::begin(kKnownGlobals), std::end(kKnownGlobals), [&](const KnownGlobal& known) {
        return known.path == file.path && known.name == name && !known.reason.empty();
      });
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

constexpr std::array<std::string_view, 5> kEmptyNames = {"util", "helper", "common", "misc",
                                                         "manager"};

struct Include {
  std::string name;
  bool is_quoted = false;
  size_t at = 0;
};

std::vector<Include> Includes(const SourceFile& file) {
  std::vector<Include> includes;
  const std::string& text = file.literal;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.starts_with("#include")) {
      const size_t open = line.find_first_of("\"<");
      const size_t close =
          open == std::string_view::npos ? open : line.find_first_of("\">", open + 1);
      if (close != std::string_view::npos) {
        includes.push_back(
            {std::string(line.substr(open + 1, close - open - 1)), line[open] == '"', at});
      }
    }
    at = end + 1;
  }
  return includes;
}

// Headers that cost a second of compile time or more (HACKING.md); forward-declaring ones are free.
bool IsHeavy(std::string_view header) {
  if (header.ends_with("_fwd.h") || header.ends_with("_fwd.hpp") || header.ends_with("type_fwd.h"))
    return false;
  static constexpr std::string_view kHeavy[] = {"nlohmann/", "httplib", "CLI/",
                                                "curl/",     "sqlite3", "libpq"};
  return std::any_of(std::begin(kHeavy), std::end(kHeavy),
                     [&](std::string_view prefix) { return header.starts_with(prefix); }) ||
         header == "arrow/api.h" || header == "parquet/arrow/reader.h" ||
         header == "parquet/arrow/writer.h";
}

}  // namespace

Violations CheckIncludes(const SourceFile& file, const RoomGraph& rooms,
                         const std::set<std::string>& generated) {
  Violations violations;
  const auto self = rooms.find(file.room);
  const bool is_room = !file.room.empty() && file.room != "testing";
  if (is_room && self == rooms.end()) {
    if (file.is_header()) return violations;  // a contract whose room comes with its first source
    violations.push_back(Say(file, 0, "the room " + file.room + " has no partforge_room()",
                             "name its rooms in src/" + file.room + "/CMakeLists.txt"));
    return violations;
  }
  for (const Include& include : Includes(file)) {
    if (!include.is_quoted) {
      if (file.is_header() && !file.is_test() && IsHeavy(include.name)) {
        violations.push_back(Say(file, include.at, "<" + include.name + "> in a header",
                                 "include it in the .cc file and forward-declare here"));
      }
      continue;
    }
    const size_t slash = include.name.find('/');
    if (include.name.starts_with(".") || slash == std::string::npos) {
      if (generated.count(include.name) == 0 && !file.room.empty()) {
        violations.push_back(
            Say(file, include.at, "\"" + include.name + "\"", "include \"room/file.h\""));
      }
      continue;
    }
    const std::string room = include.name.substr(0, slash);
    if (!is_room || room == file.room || generated.count(include.name) != 0) continue;
    if (file.is_test() && room == "testing") continue;
    if (self->second.count(room) != 0) continue;
    violations.push_back(Say(file, include.at, file.room + " may not know " + room,
                             "move what both need down, or take it as a function or interface"));
  }
  return violations;
}

Violations CheckWords(const SourceFile& file) {
  Violations violations;
  const std::vector<Word> words = Words(file.code);
  for (size_t i = 0; i < words.size(); ++i) {
    const Word& word = words[i];
    if (IsInInclude(file.code, word.at)) continue;
    for (const Ban& ban : kBans) {
      if (Matches(ban, file.code, word) && !IsAllowed(file, ban)) {
        violations.push_back(Say(file, word.at, ban.word, ban.instead));
      }
    }
    const std::string_view before = Before(file.code, word.at);
    if (word.text == "std" && i >= 2 && words[i - 1].text == "namespace" &&
        words[i - 2].text == "using" && NextChar(file.code, word.at + 3) == ';') {
      violations.push_back(
          Say(file, word.at, "using namespace std", "write std:: where it is used"));
    }
    if (word.text == "print" && before.ends_with("fmt::") && !file.is_test() && !MayPrint(file) &&
        (i + 1 == words.size() || words[i + 1].text != "stderr")) {
      violations.push_back(Say(file, word.at, "fmt::print", kResults));
    }
    if (word.text == "new" && !before.ends_with("operator") && !before.ends_with('#') &&
        !IsOwnedNew(before)) {
      violations.push_back(Say(file, word.at, "new", "std::make_unique, or a value"));
    }
    if (word.text == "delete" && !before.ends_with('=') && !before.ends_with("operator")) {
      violations.push_back(Say(file, word.at, "delete", "std::unique_ptr owns it"));
    }
  }
  return violations;
}

Violations CheckGlobals(const SourceFile& file) {
  Violations violations;
  if (file.is_test()) return violations;
  static constexpr std::string_view kNoVariable[] = {
      "const",    "constexpr", "constinit", "using",   "namespace", "class",     "struct",
      "enum",     "union",     "template",  "typedef", "extern",    "friend",    "static_assert",
      "return",   "goto",      "public",    "private", "protected", "operator",  "concept",
      "requires", "case",      "default",   "break",   "continue",  "co_return", "co_yield",
      "else",     "delete",    "throw",     "import"};
  const std::string& code = file.code;
  for (size_t at = 0; at < code.size();) {
    const size_t end = std::min(code.find('\n', at), code.size());
    const std::string_view line = std::string_view(code).substr(at, end - at);
    const size_t begin = at;
    at = end + 1;
    const std::string_view text = Before(line, line.size());
    if (!text.ends_with(';')) continue;
    // The declaration without its initialiser; a '(' in it is a function's (or a macro's).
    const std::string_view declared = text.substr(0, text.find_first_of("={;"));
    const std::vector<Word> words = Words(declared);
    if (words.size() < 2 || declared.find_first_of("()#+-/|?!") != std::string_view::npos) continue;
    const bool is_outside = words[0].at == 0;
    const bool is_static = words[0].text == "static" || words[0].text == "thread_local";
    if (!is_outside && !is_static) continue;
    const bool is_other = std::any_of(words.begin(), words.end(), [](const Word& word) {
      return std::find(std::begin(kNoVariable), std::end(kNoVariable), word.text) !=
             std::end(kNoVariable);
    });
    if (is_other || IsKnownGlobal(file, words.back().text)) continue;
    violations.push_back(Say(file, begin,
                             "a variable of the whole program: " + std::string(words.back().text),
                             "pass it in, or make it const"));
  }
  return violations;
}

Violations CheckNames(const SourceFile& file) {
  Violations violations;
  const std::string name = Lower(file.path.substr(file.path.rfind('/') + 1));
  for (const std::string_view empty : kEmptyNames) {
    if (name.find(empty) != std::string::npos) {
      violations.push_back(Say(file, 0, "a file called " + std::string(empty), "name the concept"));
    }
  }
  const std::vector<Word> words = Words(file.code);
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string_view kind = words[i].text;
    if (kind != "class" && kind != "struct" && kind != "namespace") continue;
    const Word& type = words[i + 1];
    for (const std::string_view empty : kEmptyNames) {
      const std::string lower = Lower(type.text);
      if (lower.ends_with(empty) || lower.ends_with(std::string(empty) + "s")) {
        violations.push_back(Say(file, type.at, type.text, "name the concept"));
      }
    }
  }
  return violations;
}

Violations CheckHeaderGuard(const SourceFile& file) {
  if (!file.is_header() || file.code.find("#pragma once") == file.code.find('#')) return {};
  return {Say(file, 0, "a header without #pragma once", "make it the first directive")};
}

std::vector<FaultPoint> FaultPoints(const SourceFile& file) {
  std::vector<FaultPoint> points;
  for (const Word& word : Words(file.code)) {
    if (word.text != "PF_FAULT" && word.text != "Hit") continue;
    size_t open = word.at + word.text.size();
    if (NextChar(file.code, open) != '(') continue;
    // The first string of the call, if one stands before the statement ends.
    const size_t quote = file.code.find_first_of("\";{", open);
    if (quote == std::string::npos || file.code[quote] != '"') continue;
    const size_t close = file.literal.find('"', quote + 1);
    points.push_back({file.literal.substr(quote + 1, close - quote - 1), Place(file, word.at)});
  }
  return points;
}

Violations CheckFaultPoints(std::span<const SourceFile> files) {
  Violations violations;
  std::map<std::string, std::string> seen;
  for (const SourceFile& file : files) {
    if (file.is_test()) continue;
    for (const FaultPoint& point : FaultPoints(file)) {
      const auto [it, is_new] = seen.emplace(point.name, point.place);
      if (!is_new) {
        violations.push_back(point.place + ": fault point " + point.name + " stands at " +
                             it->second + " too: give each place a name of its own");
      }
      const bool is_plain = std::all_of(point.name.begin(), point.name.end(), [](unsigned char c) {
        return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == '.';
      });
      const size_t dot = point.name.find('.');
      if (!is_plain || dot == std::string::npos || dot == 0 || dot + 1 == point.name.size()) {
        violations.push_back(point.place + ": fault point " + point.name +
                             ": call it room.done_verb");
      }
    }
  }
  return violations;
}

}  // namespace partforge::testing
