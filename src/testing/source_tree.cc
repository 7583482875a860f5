#include "testing/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace partforge::testing {
namespace {

namespace fs = std::filesystem;

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Blanks [from, to) but keeps the lines.
void Blank(std::string* text, size_t from, size_t to) {
  for (size_t i = from; i < std::min(to, text->size()); ++i) {
    if ((*text)[i] != '\n') (*text)[i] = ' ';
  }
}

// The end of a literal that starts with the quote at `at`: one past its closing quote.
size_t EndOfQuoted(std::string_view text, size_t at) {
  const char quote = text[at];
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

// The end of R"delimiter( … )delimiter" whose quote is at `at`.
size_t EndOfRaw(std::string_view text, size_t at) {
  const size_t open = text.find('(', at);
  if (open == std::string_view::npos) return text.size();
  const std::string close = ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"";
  const size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

// True when the quote at `at` ends a word that is R, u8R, LR …
bool IsRaw(std::string_view text, size_t at) {
  size_t first = at;
  while (first > 0 && IsWordChar(text[first - 1])) --first;
  const std::string_view prefix = text.substr(first, at - first);
  return prefix == "R" || prefix == "u8R" || prefix == "uR" || prefix == "UR" || prefix == "LR";
}

std::string Slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

SourceFile MakeSourceFile(std::string path, std::string_view text) {
  SourceFile file;
  if (path.starts_with("src/")) {
    const size_t slash = path.find('/', 4);
    if (slash != std::string::npos) file.room = path.substr(4, slash - 4);
  }
  file.path = std::move(path);
  file.literal = text;
  file.code = text;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      const size_t end = std::min(text.find('\n', i), text.size());
      Blank(&file.literal, i, end);
      Blank(&file.code, i, end);
      i = end;
    } else if (text.substr(i, 2) == "/*") {
      const size_t close = text.find("*/", i + 2);
      const size_t end = close == std::string_view::npos ? text.size() : close + 2;
      Blank(&file.literal, i, end);
      Blank(&file.code, i, end);
      i = end;
    } else if (text[i] == '"') {
      const size_t end = IsRaw(text, i) ? EndOfRaw(text, i) : EndOfQuoted(text, i);
      Blank(&file.code, i + 1, end - 1);
      i = end;
    } else if (text[i] == '\'' && (i == 0 || !IsWordChar(text[i - 1]))) {
      // Behind a word character it separates digits: 1'000.
      const size_t end = EndOfQuoted(text, i);
      Blank(&file.code, i + 1, end - 1);
      i = end;
    } else {
      ++i;
    }
  }
  return file;
}

std::vector<SourceFile> LoadSources(const fs::path& project) {
  std::vector<std::string> paths;
  for (const char* folder : {"src", "tests", "bench"}) {
    if (!fs::exists(project / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(project / folder)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".cc" && path.extension() != ".h") continue;
      paths.push_back(path.lexically_relative(project).generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths)
    files.push_back(MakeSourceFile(path, Slurp(project / path)));
  return files;
}

std::map<std::string, std::set<std::string>> ParseRooms(std::string_view text) {
  std::map<std::string, std::set<std::string>> rooms;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    auto& allowed = rooms[std::string(line.substr(0, colon))];
    for (const Word& word : Words(line.substr(colon + 1))) allowed.emplace(word.text);
  }
  return rooms;
}

std::vector<Word> Words(std::string_view code) {
  std::vector<Word> words;
  for (size_t i = 0; i < code.size();) {
    if (!IsWordChar(code[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < code.size() && IsWordChar(code[end])) ++end;
    if (code[i] < '0' || code[i] > '9') words.push_back({code.substr(i, end - i), i});
    i = end;
  }
  return words;
}

int LineOf(std::string_view text, size_t at) {
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace partforge::testing
