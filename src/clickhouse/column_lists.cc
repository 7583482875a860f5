#include <fmt/format.h>

#include <charconv>

#include "clickhouse/part_files.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kColumnsMax = 1'000'000;
constexpr int64_t kStreamsMax = 10'000'000;
constexpr std::string_view kColumnsHeader = "columns format version: 1\n";
constexpr std::string_view kSubstreamsHeader = "columns substreams version: 1\n";

// Reads a text file line by line; every failure says at which line.
class Lines {
 public:
  Lines(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  bool at_end() const { return rest_.empty(); }
  Result<std::string_view> Next() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return Wrong("no further line");
    ++line_;
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }
  Status Wrong(std::string_view what) const {
    return Status(Code::kCorruption, fmt::format("{}: {} in line {}", file_, what, line_))
        .Explain(8003, std::string(file_), "the part is damaged: take it from the server again");
  }
  // "<n><suffix>" as the whole of `text`, or its beginning; the rest is answered.
  Result<std::string_view> Count(std::string_view text, std::string_view suffix, int64_t max,
                                 int64_t& count) const {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || count < 0 || count > max) return Wrong("no count");
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.starts_with(suffix)) return Wrong(fmt::format("no \"{}\"", suffix));
    return text.substr(suffix.size());
  }

 private:
  std::string_view rest_;
  const std::string_view file_;
  int64_t line_ = 0;
};

// Takes a back-quoted name off the front of a line.
Result<std::string> TakeName(const Lines& lines, std::string_view& line) {
  if (!line.starts_with('`')) return lines.Wrong("no quoted name");
  size_t end = 1;
  while (end < line.size() && line[end] != '`') end += line[end] == '\\' ? 2 : 1;
  if (end >= line.size()) return lines.Wrong("name without end");
  const SqlToken token{
      .kind = SqlTokenKind::kQuotedName, .text = line.substr(0, end + 1), .offset = 0, .place = {}};
  Result<std::string> name = TokenValue(token);
  if (!name.ok() || name->empty()) return lines.Wrong("broken name");
  line.remove_prefix(end + 1);
  return name;
}

}  // namespace

Result<std::vector<PartColumn>> ParseColumnsTxt(std::string_view text) {
  Lines lines(text.substr(std::min(text.size(), kColumnsHeader.size())), "columns.txt");
  if (!text.starts_with(kColumnsHeader)) return lines.Wrong("no known header");
  PF_ASSIGN(const std::string_view head, lines.Next());
  int64_t count = 0;
  PF_ASSIGN(const std::string_view rest, lines.Count(head, " columns:", kColumnsMax, count));
  if (!rest.empty()) return lines.Wrong("more than a count");
  std::vector<PartColumn> columns;
  for (int64_t i = 0; i < count; ++i) {
    PF_ASSIGN(std::string_view line, lines.Next());
    PartColumn column;
    PF_ASSIGN(column.name, TakeName(lines, line));
    if (line.size() < 2 || line[0] != ' ') return lines.Wrong("no type");
    column.type = line.substr(1);
    columns.push_back(std::move(column));
  }
  if (!lines.at_end()) return lines.Wrong("more lines than columns");
  return columns;
}

Result<std::vector<ColumnSubstreams>> ParseColumnsSubstreams(std::string_view text) {
  Lines lines(text.substr(std::min(text.size(), kSubstreamsHeader.size())),
              "columns_substreams.txt");
  if (!text.starts_with(kSubstreamsHeader)) return lines.Wrong("no known header");
  PF_ASSIGN(const std::string_view head, lines.Next());
  int64_t count = 0;
  PF_ASSIGN(const std::string_view rest, lines.Count(head, " columns:", kColumnsMax, count));
  if (!rest.empty()) return lines.Wrong("more than a count");
  std::vector<ColumnSubstreams> columns;
  int64_t streams_left = kStreamsMax;
  for (int64_t i = 0; i < count; ++i) {
    PF_ASSIGN(std::string_view line, lines.Next());
    int64_t streams = 0;
    PF_ASSIGN(line, lines.Count(line, " substreams for column ", streams_left, streams));
    streams_left -= streams;
    ColumnSubstreams column;
    PF_ASSIGN(column.column, TakeName(lines, line));
    if (line != ":") return lines.Wrong("no colon");
    for (int64_t s = 0; s < streams; ++s) {
      PF_ASSIGN(const std::string_view stream, lines.Next());
      if (stream.size() < 2 || stream[0] != '\t') return lines.Wrong("no stream name");
      column.streams.emplace_back(stream.substr(1));
    }
    columns.push_back(std::move(column));
  }
  if (!lines.at_end()) return lines.Wrong("more lines than columns");
  return columns;
}

}  // namespace partforge::clickhouse
