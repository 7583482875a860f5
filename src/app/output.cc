#include "app/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/csv.h"
#include "app/exit_code.h"
#include "base/error_ids.h"
#include "base/files.h"
#include "base/units.h"

namespace partforge::app {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[31;1m";
constexpr std::string_view kPlain = "\x1b[0m";

// Length in bytes of the well-formed UTF-8 sequence at the start of `text`; 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  size_t length = 0;
  if (first < 0x80) {
    length = 1;
  } else if (first >= 0xC2 && first < 0xE0) {
    length = 2;
  } else if (first >= 0xE0 && first < 0xF0) {
    length = 3;
  } else if (first >= 0xF0 && first < 0xF5) {
    length = 4;
  }
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// The text's characters first … first + count - 1.
std::string_view Characters(std::string_view text, size_t first, size_t count) {
  size_t begin = 0, seen = 0;
  while (begin < text.size() && seen < first) {
    begin += std::max<size_t>(1, SequenceLength(text.substr(begin)));
    ++seen;
  }
  size_t end = begin;
  for (size_t taken = 0; end < text.size() && taken < count; ++taken) {
    end += std::max<size_t>(1, SequenceLength(text.substr(end)));
  }
  return text.substr(begin, end - begin);
}

std::string CutMiddle(const std::string& text, size_t width, bool is_utf8) {
  const size_t length = DisplayWidth(text);
  if (length <= width || width < 5) return text;
  const std::string_view gap = is_utf8 ? "…" : "..";
  const size_t room = width - DisplayWidth(gap);
  const size_t head = (room + 1) / 2;
  return std::string(Characters(text, 0, head)) + std::string(gap) +
         std::string(Characters(text, length - (room - head), room - head));
}

// What stands for the glyphs that our own texts have.
constexpr std::pair<std::string_view, std::string_view> kGlyphs[] = {
    {"✓", "ok"}, {"✗", "FAIL"}, {"→", "->"}, {"·", "|"},
    {"×", "x"},  {"…", ".."},   {"−", "-"},  {"─", "-"}};

std::string Ascii(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(1, SequenceLength(text.substr(i)));
    const std::string_view character = text.substr(i, length);
    const auto* const glyph = std::find_if(std::begin(kGlyphs), std::end(kGlyphs),
                                           [&](const auto& one) { return one.first == character; });
    if (length == 1) {
      out += character;
    } else {
      out += glyph == std::end(kGlyphs) ? std::string_view("?") : glyph->second;
    }
    i += length;
  }
  return out;
}

std::string Capital(std::string_view name, std::string_view text) {
  std::string out;
  std::string indent = fmt::format("  {:<8}", name);
  size_t at = 0;
  while (true) {
    const size_t end = text.find('\n', at);
    out += indent + std::string(text.substr(at, end == std::string_view::npos ? end : end - at)) +
           "\n";
    if (end == std::string_view::npos) return out;
    at = end + 1;
    indent = std::string(10, ' ');
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1_control =
        length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (length == 0 || byte < 0x20 || byte == 0x7F || is_c1_control) {
      out += fmt::format("\\x{:02x}", byte);
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

std::string InGlyphsOf(const OutputStyle& style, std::string_view text) {
  return style.is_utf8 ? std::string(text) : Ascii(text);
}

std::string RenderTable(const Table& table, const OutputStyle& style) {
  const size_t count = table.columns.size();
  std::vector<std::vector<std::string>> cells;
  std::vector<size_t> widths(count);
  for (size_t c = 0; c < count; ++c) widths[c] = DisplayWidth(table.columns[c].title);
  for (const auto& row : table.rows) {
    auto& line = cells.emplace_back();
    for (size_t c = 0; c < count; ++c) {
      std::string cell = c < row.size() ? Printable(row[c]) : std::string();
      cell = InGlyphsOf(style, cell);
      widths[c] = std::max(widths[c], DisplayWidth(cell));
      line.push_back(std::move(cell));
    }
  }
  size_t total = count == 0 ? 0 : 2 * (count - 1);
  for (const size_t width : widths) total += width;
  if (style.is_stdout_tty) {
    for (size_t c = 0; c < count && total > static_cast<size_t>(style.width); ++c) {
      if (!table.columns[c].may_be_cut) continue;
      const size_t excess = total - static_cast<size_t>(style.width);
      const size_t cut = std::min(excess, widths[c] > 12 ? widths[c] - 12 : 0);
      widths[c] -= cut;
      total -= cut;
    }
  }
  const auto render_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t c = 0; c < count; ++c) {
      const std::string cell = CutMiddle(row[c], widths[c], style.is_utf8);
      const std::string padding(widths[c] - std::min(widths[c], DisplayWidth(cell)), ' ');
      const bool is_last = c + 1 == count;
      if (table.columns[c].is_right_aligned) {
        line += padding + cell;
      } else {
        line += cell + (is_last ? std::string() : padding);
      }
      if (!is_last) line += "  ";
    }
    return line;
  };
  std::vector<std::string> titles;
  for (const TableColumn& column : table.columns) titles.push_back(column.title);
  std::string text = style.has_color ? fmt::format("{}{}{}\n", kBold, render_row(titles), kPlain)
                                     : render_row(titles) + "\n";
  for (const auto& row : cells) text += render_row(row) + "\n";
  return text;
}

std::string WhenText(const OutputStyle& style, int64_t at_ms, int64_t now_ms) {
  if (at_ms == 0) return "";
  return style.has_ages ? FormatAge(at_ms, now_ms) : FormatTime(at_ms);
}

Output::Output(OutputStyle style, Redact redact) : style_(style), redact_(std::move(redact)) {}

void Output::Write(int fd, std::string_view unredacted) {
  const std::string redacted = redact_ ? redact_(unredacted) : std::string(unredacted);
  std::string_view text = redacted;
  const std::lock_guard lock(mutex_);
  while (!text.empty() && !(fd == STDOUT_FILENO && (is_pipe_broken_ || !failure_.ok()))) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (fd != STDOUT_FILENO) return;
      is_pipe_broken_ = written == 0 || errno == EPIPE;
      if (!is_pipe_broken_) {
        failure_ =
            ErrnoStatus(errno, "write the result")
                .Explain(7015, "stdout", "what the command did stands; only its report is cut");
      }
      return;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void Output::Text(std::string_view text) {
  if (style_.is_json || style_.is_ndjson || style_.is_quiet) return;
  Write(STDOUT_FILENO, InGlyphsOf(style_, text));
}

void Output::Line(std::string_view line) {
  Text(std::string(line) + "\n");
}

void Output::Document(std::string_view command, const JsonDoc& doc) {
  if (!style_.is_json && !style_.is_ndjson) return;
  if (style_.is_csv) {
    Write(STDOUT_FILENO, RenderCsv(doc));
    return;
  }
  JsonDoc whole{{"schema", fmt::format("partforge.{}/1", command)}};
  for (const auto& [key, value] : doc.items()) whole[key] = value;
  Write(STDOUT_FILENO, (style_.is_ndjson ? DumpJson(whole) : DumpJsonPretty(whole)) + "\n");
}

void Output::Object(const JsonDoc& object) {
  if (!style_.is_json && !style_.is_ndjson) return;
  Write(STDOUT_FILENO, DumpJson(object) + "\n");
}

void Output::Answer(std::string_view line) {
  if (style_.is_json || style_.is_ndjson || !style_.is_quiet) return;
  Write(STDOUT_FILENO, std::string(line) + "\n");
}

void Output::Raw(std::string_view text) {
  Write(STDOUT_FILENO, InGlyphsOf(style_, text));
}

void Output::Note(std::string_view line) {
  if (style_.is_quiet || style_.is_json || style_.is_ndjson) return;
  Write(STDERR_FILENO, InGlyphsOf(style_, line) + "\n");
}

int NumberOf(const Status& status) {
  if (const int number = status.explanation().pf_number; number != 0) return number;
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kRefused:
      return 1020;
    case Code::kNotFound:
      return 1019;
    case Code::kAlreadyExists:
    case Code::kConflict:
      return 6009;
    case Code::kLeaseLost:
      return 6005;
    case Code::kUnavailable:
      return 7016;
    case Code::kExhausted:
      return 7017;
    case Code::kCorruption:
      return 8007;
    case Code::kUnknownOutcome:
      return 6010;
    case Code::kCancelled:
      return 1018;
    case Code::kInternal:
      return 9001;
  }
  return 9001;
}

JsonDoc ErrorDocument(const Status& status) {
  const Explanation& explanation = status.explanation();
  const int number = NumberOf(status);
  const ErrorId* id = FindErrorId(number);
  const bool is_retryable =
      status.code() == Code::kUnavailable || status.code() == Code::kConflict ||
      status.code() == Code::kUnknownOutcome || status.code() == Code::kLeaseLost;
  JsonDoc remedies = JsonDoc::array();
  const std::string advice = explanation.what_to_do.empty()
                                 ? fmt::format("partforge explain PF{}", number)
                                 : explanation.what_to_do;
  std::string_view rest = advice;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    remedies.push_back(std::string(rest.substr(0, end)));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return JsonDoc{{"type", "error"},
                 {"code", ErrorIdText(number)},
                 {"kind", std::string(CodeName(status.code()))},
                 {"message", id == nullptr ? std::string("error") : std::string(id->title)},
                 {"where", Printable(explanation.where)},
                 {"why", Printable(status.message())},
                 {"do", remedies},
                 {"retryable", is_retryable},
                 {"exit", ExitCode(status)}};
}

std::string RenderError(const Status& status, const OutputStyle& style) {
  if ((style.is_json || style.is_ndjson) && !style.is_csv)
    return DumpJson(ErrorDocument(status)) + "\n";
  const Explanation& explanation = status.explanation();
  const int number = NumberOf(status);
  const ErrorId* id = FindErrorId(number);
  const std::string_view title = id == nullptr ? std::string_view("error") : id->title;
  const bool has_color = style.has_color && style.is_stderr_tty;
  std::string text = has_color ? fmt::format("{}error[PF{}]{}: {}\n", kRed, number, kPlain, title)
                               : fmt::format("error[PF{}]: {}\n", number, title);
  text += Capital("where", explanation.where.empty() ? "partforge" : Printable(explanation.where));
  text += Capital("why", Printable(status.message()));
  text +=
      Capital("do", explanation.what_to_do.empty() ? fmt::format("partforge explain PF{}", number)
                                                   : explanation.what_to_do);
  text += Capital("more", fmt::format("partforge explain PF{}", number));
  return InGlyphsOf(style, text);
}

}  // namespace partforge::app
