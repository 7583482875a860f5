#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge {

// Units and times as users write and read them (user-experience §2, §4.1). All pure.

// "150GiB", "128MB", "4k", plain bytes. Binary and decimal suffixes: KiB MiB GiB TiB PiB are powers
// of 1024, kB MB GB TB PB powers of 1000, single letters K M G T powers of 1024. kInvalidArgument
// otherwise.
Result<int64_t> ParseSize(std::string_view text);
// "500ms", "1d12h30m", "1h30m5s"; units ns us ms s m h d w y (y = 365 d); a bare "0". Fractions as
// in Go ("1.5h"). Result in milliseconds, rounded down; kInvalidArgument otherwise, also when
// negative or above 292 years.
Result<int64_t> ParseDurationMs(std::string_view text);
// RFC 3339 ("2026-10-11T12:13:14.123Z", with offset) or "YYYY-MM-DD[ HH:MM:SS[.fff]]" in UTC. Unix
// milliseconds.
Result<int64_t> ParseTimeMs(std::string_view text);

// "2026-10-11T12:13:14.123Z".
std::string FormatTime(int64_t unix_ms);
// Binary units to three digits: "0 B", "999 B", "3.21 GiB", "128 MiB".
std::string FormatBytes(int64_t bytes);
// The reference's job-status form: 1024 steps, units B KB MB GB TB PB, no decimals when integral
// else one.
std::string FormatBytesShort(int64_t bytes);
// Digits in groups of three, separated by a thin space substitute: "12 345 678".
std::string FormatCount(int64_t count);
// "412 ms", "8.1 s", "1m12s", "2h03m", "3d04h".
std::string FormatDurationMs(int64_t ms);
// How long before `now_ms` that was, in one unit, rounded down: "now", "12 s ago", "3 min ago",
// "47 h ago", "2 d ago"; "in 3 min" when it is still to come. Unix milliseconds.
std::string FormatAge(int64_t at_ms, int64_t now_ms);

}  // namespace partforge
