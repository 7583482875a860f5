#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace partforge {

// "Wed, 21 Oct 2015 07:28:00 GMT" (RFC 9110 §5.6.7, IMF-fixdate only) in Unix milliseconds; empty
// when it is not one.
std::optional<int64_t> ParseHttpDate(std::string_view text);
std::string FormatHttpDate(int64_t time_ms);

}  // namespace partforge
