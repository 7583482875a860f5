#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

// The keys of a batch's rows as byte strings whose order is that of memcmp.
struct EncodedKeys {
  std::string bytes;
  std::vector<uint32_t> ends;  // key i is [ends[i - 1], ends[i])
  size_t count() const { return ends.size(); }
  std::string_view operator[](size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
};

// The first eight bytes as a number of the same order; a shorter key is filled with zeros.
uint64_t KeyPrefix(std::string_view key);

// Makes keys. Immutable. A table format with an order of its own (z-order) implements it.
class KeyEncoder {
 public:
  virtual ~KeyEncoder() = default;
  // kExhausted when the keys of one batch pass 4 GiB.
  virtual Result<EncodedKeys> Encode(const arrow::RecordBatch& batch) const = 0;
};

enum class SortDirection : uint8_t { kAscending, kDescending };
enum class NullOrder : uint8_t { kNullsFirst, kNullsLast };
struct SortColumn {
  std::string name;
  SortDirection direction = SortDirection::kAscending;
  NullOrder nulls = NullOrder::kNullsFirst;  // holds for both directions
};
// Keys of flat columns: booleans, integers, floats in IEEE total order (-0.0 below +0.0, NaN above
// all), decimals, dates, times, timestamps, strings and bytes by unsigned bytes. kInvalidArgument
// for another type or an absent column.
Result<std::unique_ptr<KeyEncoder>> MakeKeyEncoder(const std::shared_ptr<arrow::Schema>& schema,
                                                   const std::vector<SortColumn>& columns);

}  // namespace partforge::data
