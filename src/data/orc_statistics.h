#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/column_metrics.h"

namespace partforge::data {

struct OrcType;

// Who wrote a file; what its statistics are worth depends on it.
struct OrcWriter {
  uint64_t id = 0;       // Footer.writer: 0 Java, 1 C++, 2 Presto, 3 Scritchley Go, 4 Trino, 5 CUDF
  uint64_t version = 0;  // PostScript.writerVersion
  std::string software;  // Footer.softwareVersion; may be empty
};

// What a file says of the values of one column. Absent = unknown. Bounds hold for every value that
// is neither null nor NaN, as far as the file tells the truth: nothing in an ORC file lets a reader
// find out that it does not.
struct OrcColumnStatistics {
  std::optional<int64_t> value_count = std::nullopt;  // without nulls
  std::optional<bool> has_null = std::nullopt;
  std::optional<int64_t> stored_bytes = std::nullopt;
  // Booleans, integers, floats, text, decimals by the column's scale, dates in days, timestamps in
  // microseconds (of the wall clock where they have no zone).
  std::optional<Bound> lower = std::nullopt, upper = std::nullopt;
};

// Takes a ColumnStatistics message (ORC Specification v1, "Column Statistics"). Bounds that are not
// those of every value are left out:
// - all of Java's writers before HIVE-8732, which mixed up stripes and compared text as UTF-16;
// - floats whose sum is NaN or missing: the bounds of a row group that begins with NaN hide all of
//   its other values when they are merged;
// - Java's decimals before ORC-517, and those of more digits than the column's scale;
// - CHAR, which is padded, and times whose bounds are not in UTC (before ORC-135);
// - dates and times before 15 October 1582, which may be of either calendar.
// None when the bytes are no such message.
std::optional<OrcColumnStatistics> ParseOrcStatistics(std::string_view message, const OrcType& type,
                                                      const OrcWriter& writer);

}  // namespace partforge::data
