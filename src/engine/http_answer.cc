#include "engine/http_answer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

namespace partforge {
namespace {

constexpr std::string_view kMark = "__exception__";
constexpr size_t kShownBytesMax = 2'000;  // of a body that is no engine's

std::string_view HeaderOf(const AnswerHeaders& headers, const char* name) {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

int NumberOf(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

bool IsCredential(int number) {
  return number == 192 || number == 193 || number == 194 || number == 516;
}

int64_t CounterOf(const JsonDoc& summary, const char* name) {
  const auto found = summary.find(name);
  if (found == summary.end() || !found->is_string()) return 0;
  const std::string& text = found->get_ref<const std::string&>();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : 0;
}

// Takes "<tag>\r\n" off the front when it is there.
std::string_view WithoutTag(std::string_view text, std::string_view tag) {
  if (tag.empty() || !text.starts_with(tag)) return text;
  text.remove_prefix(tag.size());
  if (text.starts_with("\r\n")) text.remove_prefix(2);
  // The real server repeats length, tag and mark behind the message.
  const size_t closing = text.rfind(fmt::format(" {}\r\n{}", tag, kMark));
  if (closing == std::string_view::npos) return text;
  text = text.substr(0, closing);
  const size_t line = text.rfind('\n');
  return line == std::string_view::npos ? text : text.substr(0, line);
}

}  // namespace

Status CheckAnswer(int http_status, const AnswerHeaders& headers, std::string_view body) {
  const std::string_view code = HeaderOf(headers, "x-clickhouse-exception-code");
  if (http_status >= 200 && http_status < 300 && code.empty()) return {};
  int number = NumberOf(code);
  if (number == 0) number = ClickHouseNumber(body.substr(0, kShownBytesMax));
  if (number != 0) {
    Status status = FromClickHouseCode(number, body);
    if (!IsCredential(number)) return status;
    return std::move(status).Explain(7009, "ClickHouse", "check user and password of the server");
  }
  // No ClickHouse wrote this: a proxy, another program on that port.
  const std::string text = fmt::format("HTTP status {} without an engine's code: {}", http_status,
                                       body.substr(0, kShownBytesMax));
  if (http_status == 401 || http_status == 403) {
    return Status(Code::kRefused, text)
        .Explain(7009, "ClickHouse", "check user and password of the server");
  }
  const bool may_pass =
      http_status == 429 || http_status == 502 || http_status == 503 || http_status == 504;
  return Status(may_pass ? Code::kUnavailable : Code::kInvalidArgument, text)
      .Explain(7008, "ClickHouse", "the address must be that of ClickHouse's HTTP interface");
}

QueryOutcome ReadSummary(const AnswerHeaders& headers) {
  QueryOutcome outcome;
  const auto summary = ParseJson(HeaderOf(headers, "x-clickhouse-summary"));
  if (!summary.ok() || !summary->is_object()) return outcome;
  outcome.read_rows = CounterOf(*summary, "read_rows");
  outcome.written_rows = CounterOf(*summary, "written_rows");
  outcome.written_bytes = CounterOf(*summary, "written_bytes");
  return outcome;
}

std::optional<LateException> FindLateException(std::string_view tail, const AnswerHeaders& headers,
                                               BodyEnd end) {
  const std::string_view tag = HeaderOf(headers, "x-clickhouse-exception-tag");
  const std::string opening =
      tag.empty() ? fmt::format("{}\r\n", kMark) : fmt::format("{}\r\n{}\r\n", kMark, tag);
  if (tag.empty() && end == BodyEnd::kProper) return std::nullopt;
  size_t at = tag.empty() ? tail.rfind(opening) : tail.find(opening);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view text = WithoutTag(tail.substr(at + kMark.size() + 2), tag);
  if (ClickHouseNumber(text) == 0) return std::nullopt;
  if (at >= 2 && tail.substr(at - 2, 2) == "\r\n") at -= 2;
  return LateException{.offset = at, .status = FromClickHouseCode(0, text)};
}

bool IsReadStatement(std::string_view sql) {
  static constexpr std::array<std::string_view, 7> kWords = {
      "SELECT", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "CHECK"};
  const auto tokens = TokenizeSql(sql);
  if (!tokens.ok() || tokens->empty()) return false;
  for (const std::string_view word : kWords) {
    if (tokens->front().IsWord(word)) return true;
  }
  return false;
}

}  // namespace partforge
