#include "app/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace partforge::app {
namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;

std::string TextOf(const JsonDoc& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

void Flatten(const std::string& prefix, const JsonDoc& object, Cells& cells) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    if (value.is_object() && !value.empty()) {
      Flatten(name, value, cells);
    } else {
      cells.emplace_back(name, TextOf(value));
    }
  }
}

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// What tables show, where a document has several lists; these may be empty.
constexpr std::string_view kTables[] = {"parts", "objects", "jobs", "artifacts", "files", "events"};

bool IsListOfObjects(const JsonDoc& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(),
                                         [](const JsonDoc& item) { return item.is_object(); });
}

template <class Range>
std::string Line(const Range& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != &*cells.begin()) line += ',';
    line += Quoted(cell);
  }
  return line + '\n';
}

}  // namespace

std::string RenderCsv(const JsonDoc& document) {
  // Of what an empty list would hold, nobody can tell.
  auto list = std::find_if(document.begin(), document.end(), [](const JsonDoc& value) {
    return !value.empty() && IsListOfObjects(value);
  });
  for (const std::string_view table : kTables) {
    const auto named = document.find(table);
    if (named == document.end() || !IsListOfObjects(*named)) continue;
    list = named;
    break;
  }
  std::vector<Cells> rows;
  if (list == document.end()) {
    Flatten("", document, rows.emplace_back());
  } else {
    for (const JsonDoc& item : *list) Flatten("", item, rows.emplace_back());
  }
  std::vector<std::string> columns;
  std::map<std::string, size_t, std::less<>> places;
  for (const Cells& row : rows) {
    for (const auto& [name, text] : row) {
      if (places.emplace(name, columns.size()).second) columns.push_back(name);
    }
  }
  if (columns.empty()) return "";
  std::string csv = Line(columns);
  for (const Cells& row : rows) {
    std::vector<std::string> cells(columns.size());
    for (const auto& [name, text] : row) cells[places.find(name)->second] = text;
    csv += Line(cells);
  }
  return csv;
}

}  // namespace partforge::app
