#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/failure_class.h"

namespace partforge {

struct ClickHouseFailure {
  Code code = Code::kInternal;
  FailureClass failure_class = FailureClass::kInternal;
};

// Classifies an error by its number first, and by its text where one number has several meanings
// (252, 159, 75, 36, 76) or none (1000–1002). Unknown numbers: kInvalidArgument, sql — the engine
// refused the statement.
ClickHouseFailure ClassifyClickHouse(int number, std::string_view text);

// The number of "Code: N." at the beginning of `text` or anywhere in it (a status collects
// prefixes); 0 when there is none.
int ClickHouseNumber(std::string_view text);
int ClickHouseNumber(const Status& status);

// The Status of an engine's error text. `number` from X-ClickHouse-Exception-Code, or 0 to read it
// from the text. The message is "Code: N. …" without a trailing stack or version.
Status FromClickHouseCode(int number, std::string_view text);

// The class of any Status that came out of an Engine, also of those without an engine's number (a
// dead child, a timeout).
FailureClass FailureClassOf(const Status& status);

}  // namespace partforge
