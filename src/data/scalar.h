#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"

namespace partforge::data {

// What a value is, apart from its meaning: dates are kInt32, times and timestamps kInt64 in the
// column's unit.
enum class ScalarType : uint8_t {
  kBoolean,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat,
  kDouble,
  kDecimal,  // unscaled; the scale belongs to the column
  kString,   // UTF-8
  kBytes,    // also fixed, and uuid as 16 big-endian bytes
};

// 128-bit two's complement integer. Plain __int128 is no ISO C++, so it is hidden behind two words.
struct Int128 {
  int64_t high = 0;
  uint64_t low = 0;
  static Int128 Of(int64_t value) { return {value < 0 ? -1 : 0, static_cast<uint64_t>(value)}; }
  std::strong_ordering operator<=>(const Int128&) const = default;
};
// Two's complement big-endian, fewest bytes (at least one), as java.math.BigInteger.toByteArray.
std::string ToBigEndian(Int128 value);
// 1 to 16 bytes; kCorruption otherwise.
Result<Int128> FromBigEndian(std::span<const std::byte> bytes, std::string_view what);

// One value that is not null. Integers of all widths are held as int64.
class Scalar {
 public:
  static Scalar Boolean(bool value) { return {ScalarType::kBoolean, int64_t{value}}; }
  static Scalar Int8(int8_t value) { return {ScalarType::kInt8, int64_t{value}}; }
  static Scalar Int16(int16_t value) { return {ScalarType::kInt16, int64_t{value}}; }
  static Scalar Int32(int32_t value) { return {ScalarType::kInt32, int64_t{value}}; }
  static Scalar Int64(int64_t value) { return {ScalarType::kInt64, value}; }
  static Scalar Float(float value) { return {ScalarType::kFloat, double{value}}; }
  static Scalar Double(double value) { return {ScalarType::kDouble, value}; }
  static Scalar Decimal(Int128 unscaled) { return {ScalarType::kDecimal, unscaled}; }
  static Scalar String(std::string text) { return {ScalarType::kString, std::move(text)}; }
  static Scalar Bytes(std::string bytes) { return {ScalarType::kBytes, std::move(bytes)}; }

  ScalarType type() const { return type_; }
  // Reading as another kind aborts.
  bool AsBoolean() const { return AsInt() != 0; }
  int64_t AsInt() const { return std::get<int64_t>(value_); }   // boolean and integers
  double AsDouble() const { return std::get<double>(value_); }  // float and double
  Int128 AsDecimal() const { return std::get<Int128>(value_); }
  const std::string& AsBytes() const { return std::get<std::string>(value_); }  // string and bytes

  // The type's order: numbers by value with -0.0 below +0.0 and NaN above all, strings and bytes by
  // unsigned bytes. Both must have one type.
  std::strong_ordering operator<=>(const Scalar& other) const;
  bool operator==(const Scalar& other) const { return std::is_eq(*this <=> other); }

 private:
  using Value = std::variant<int64_t, double, Int128, std::string>;
  Scalar(ScalarType type, Value value) : type_(type), value_(std::move(value)) {}

  ScalarType type_;
  Value value_;
};

// Bounds cut short (Iceberg "truncate" metrics, Paimon's stats mode): the first `length_max` code
// points of a string, bytes of a byte value; other types come back as they are.
Scalar TruncateLower(const Scalar& value, size_t length_max);
// The same, then raised so that it is above every value with that beginning: the last code point
// (surrogates are jumped over) or byte that can be raised is, and what follows is dropped. None
// when nothing can be raised.
std::optional<Scalar> TruncateUpper(const Scalar& value, size_t length_max);

// Single-value bytes (Iceberg, "Appendix D: single-value serialization", binary form): numbers
// little-endian, decimals big-endian in the fewest bytes, strings and bytes as they are. Int8 and
// Int16 as Int32.
std::string EncodeSingleValue(const Scalar& value);
// Accepts what was written before the column was promoted: 4 bytes for kInt64 (an int,
// sign-extended; under a timestamp they were days, which the caller converts) and for kDouble (a
// float). kCorruption for any other length.
Result<Scalar> DecodeSingleValue(ScalarType type, std::span<const std::byte> bytes,
                                 std::string_view what);

}  // namespace partforge::data
