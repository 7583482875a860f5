#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/scalar.h"

namespace partforge::data {

// Paimon's BinaryRow (paimon-format.md §5): partitions, keys and statistics in manifests, and the
// bytes that bucket hashes are made of. Two equal rows have equal bytes.

// What a slot holds. Dates and times of day are kInt32.
struct BinaryRowType {
  enum class Kind : uint8_t {
    kBoolean,
    kInt8,
    kInt16,
    kInt32,
    kInt64,
    kFloat,
    kDouble,
    kDecimal,
    kTimestamp,
    kBytes,   // strings and bytes
    kOpaque,  // arrays, maps, rows, variants: their own bytes, always in the variable part
  };
  Kind kind = Kind::kInt32;
  int32_t precision = 0;  // digits of a decimal, fractional digits of a timestamp
  bool operator==(const BinaryRowType&) const = default;
};

struct RowTimestamp {
  int64_t millis = 0;         // since the epoch, rounded down
  int32_t nano_of_milli = 0;  // 0 to 999,999
  bool operator==(const RowTimestamp&) const = default;
};

// Fills the fields of one row, in order. One thread at a time. Each Set moves on to the next field;
// setting more than the arity, or a field as another kind than its type, is a bug (PF_CHECK).
class BinaryRowWriter {
 public:
  explicit BinaryRowWriter(std::span<const BinaryRowType> types);

  void SetNull();
  void SetBoolean(bool value);
  void SetInt(int64_t value);  // any width; the type's width is kept
  void SetFloat(float value);
  void SetDouble(double value);
  void SetDecimal(Int128 unscaled);
  void SetTimestamp(RowTimestamp value);  // nanoseconds are dropped up to precision 3
  void SetBytes(std::string_view bytes);

  // The row's bytes: a multiple of 8. Requires that every field was set. Starts the next row.
  std::string Finish();

 private:
  const BinaryRowType& Take(std::initializer_list<BinaryRowType::Kind> kinds);
  void PutSlot(const void* bytes, size_t size);
  void PutVariable(std::string_view bytes, size_t reserved_bytes);
  size_t SlotAt(size_t field) const;

  std::vector<BinaryRowType> types_;
  size_t fixed_bytes_ = 0;
  size_t next_ = 0;
  std::string row_;
};

// Reads a row. Immutable; refers to the bytes.
class BinaryRow {
 public:
  // Checks the length, and that every variable part lies inside. kCorruption naming `what`. A row
  // shorter than its fields (written before columns were added) is kCorruption too.
  static Result<BinaryRow> Parse(std::span<const std::byte> bytes,
                                 std::span<const BinaryRowType> types, std::string_view what);

  size_t arity() const { return types_.size(); }
  bool IsNull(size_t field) const;
  // Require a field that is not null and of the kind; else abort.
  int64_t Int(size_t field) const;  // booleans and integers
  float Float(size_t field) const;
  double Double(size_t field) const;
  Int128 Decimal(size_t field) const;
  RowTimestamp Timestamp(size_t field) const;
  std::string_view Bytes(size_t field) const;

 private:
  BinaryRow(std::span<const std::byte> bytes, std::vector<BinaryRowType> types)
      : bytes_(bytes), types_(std::move(types)) {}
  uint64_t Slot(size_t field) const;
  Status CheckField(size_t field, std::string_view what) const;

  std::span<const std::byte> bytes_;
  std::vector<BinaryRowType> types_;
};

// As in manifests: arity as 4 bytes big-endian, then the row.
std::string SerializeRow(size_t arity, std::string_view row);
struct SerializedRow {
  size_t arity = 0;
  std::span<const std::byte> row;
};
// kCorruption when there are fewer than 4 bytes or the row is too short for the arity.
Result<SerializedRow> ParseSerializedRow(std::span<const std::byte> bytes, std::string_view what);

// Murmur3 of the row's words, seed 42: hash of keys, buckets and index files. Requires a length
// that is a multiple of 4.
int32_t BinaryRowHash(std::string_view row);

// An array of longs that may be null, as null counts are kept in old manifests.
std::string EncodeBinaryLongs(std::span<const std::optional<int64_t>> values);

}  // namespace partforge::data
