#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace partforge {

// How an answer of the ClickHouse HTTP interface is read. All pure.

using AnswerHeaders = std::map<std::string, std::string>;  // names in lower case

// OK for a success. `body` is at least the beginning of an error's body.
Status CheckAnswer(int http_status, const AnswerHeaders& headers, std::string_view body);

// Counters of X-ClickHouse-Summary; zeros where it is absent or malformed (it is information, never
// evidence).
QueryOutcome ReadSummary(const AnswerHeaders& headers);

// An error that came after the first rows: behind a line __exception__ at the end of the body. A
// body that ended properly counts as failed only when the header X-ClickHouse-Exception-Tag names
// the tag that stands there, since rows may hold any text; one that broke off counts without.
enum class BodyEnd : uint8_t { kProper, kBrokenOff };
struct LateException {
  size_t offset = 0;  // where the rows end, in `tail`
  Status status;
};
std::optional<LateException> FindLateException(std::string_view tail, const AnswerHeaders& headers,
                                               BodyEnd end);

// True for statements that change nothing, so that a lost answer is no doubt: SELECT, SHOW,
// DESCRIBE, EXPLAIN, EXISTS, CHECK.
bool IsReadStatement(std::string_view sql);

}  // namespace partforge
