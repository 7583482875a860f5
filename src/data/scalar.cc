#include "data/scalar.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace partforge::data {

std::string ToBigEndian(Int128 value) {
  std::string bytes(16, '\0');
  for (size_t i = 0; i < 8; ++i) {
    bytes[7 - i] = static_cast<char>(static_cast<uint64_t>(value.high) >> (8 * i));
    bytes[15 - i] = static_cast<char>(value.low >> (8 * i));
  }
  // A leading byte goes when the next one shows the same sign.
  const char fill = value.high < 0 ? '\xff' : '\0';
  size_t skip = 0;
  while (skip < 15 && bytes[skip] == fill && ((bytes[skip + 1] ^ fill) & 0x80) == 0) ++skip;
  return bytes.substr(skip);
}

Result<Int128> FromBigEndian(std::span<const std::byte> bytes, std::string_view what) {
  if (bytes.empty() || bytes.size() > 16) {
    return Status(Code::kCorruption,
                  fmt::format("read {}: a decimal has 1 to 16 bytes: {}", what, bytes.size()));
  }
  const bool is_negative = (bytes[0] & std::byte{0x80}) != std::byte{0};
  uint64_t high = is_negative ? ~uint64_t{0} : 0;
  uint64_t low = high;
  for (const std::byte byte : bytes) {
    high = high << 8 | low >> 56;
    low = low << 8 | std::to_integer<uint64_t>(byte);
  }
  return Int128{.high = static_cast<int64_t>(high), .low = low};
}

std::strong_ordering Scalar::operator<=>(const Scalar& other) const {
  PF_DCHECK(value_.index() == other.value_.index(), "values of two types compared");
  if (const auto* number = std::get_if<double>(&value_)) {
    const double theirs = other.AsDouble();
    if (std::isnan(*number) || std::isnan(theirs)) {
      return std::isnan(*number) <=> std::isnan(theirs);
    }
    if (*number == 0 && theirs == 0) return std::signbit(theirs) <=> std::signbit(*number);
    return *number < theirs   ? std::strong_ordering::less
           : *number > theirs ? std::strong_ordering::greater
                              : std::strong_ordering::equal;
  }
  if (const auto* text = std::get_if<std::string>(&value_)) {
    return text->compare(other.AsBytes()) <=> 0;  // char_traits<char> compares unsigned
  }
  if (const auto* decimal = std::get_if<Int128>(&value_)) return *decimal <=> other.AsDecimal();
  return AsInt() <=> other.AsInt();
}

namespace {

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Bytes of the first `count` code points; the whole length when there are fewer.
size_t PrefixBytes(std::string_view text, size_t count) {
  size_t at = 0;
  for (; count > 0 && at < text.size(); --count) {
    ++at;
    while (at < text.size() && IsContinuation(text[at])) ++at;
  }
  return at;
}

constexpr uint32_t kCodePointMax = 0x10ffff;
constexpr uint32_t kSurrogatesBegin = 0xd800, kSurrogatesEnd = 0xe000;

// Decodes one code point that spans all of `text`; none when it is not well-formed UTF-8.
std::optional<uint32_t> CodePoint(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (length != text.size() || (lead >= 0x80 && lead < 0xc2) || lead > 0xf4) return std::nullopt;
  uint32_t value = length == 1 ? lead : lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  // Longer forms of small numbers stand for other bytes than those of the number.
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= kSurrogatesBegin && value < kSurrogatesEnd;
  if (value < kLeast[length] || value > kCodePointMax || is_surrogate) return std::nullopt;
  return value;
}

void PutCodePoint(uint32_t value, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xc0 | value >> 6);
    put(0x80 | (value & 0x3f));
  } else if (value < 0x10000) {
    put(0xe0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3f));
    put(0x80 | (value & 0x3f));
  } else {
    put(0xf0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3f));
    put(0x80 | (value >> 6 & 0x3f));
    put(0x80 | (value & 0x3f));
  }
}

std::optional<std::string> RaiseString(std::string text) {
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && IsContinuation(text[start])) --start;
    const std::optional<uint32_t> last = CodePoint(std::string_view(text).substr(start));
    text.resize(start);
    if (!last || *last == kCodePointMax) continue;
    const uint32_t next = *last + 1 == kSurrogatesBegin ? kSurrogatesEnd : *last + 1;
    PutCodePoint(next, text);
    return text;
  }
  return std::nullopt;
}

std::optional<std::string> RaiseBytes(std::string bytes) {
  while (!bytes.empty() && bytes.back() == '\xff') bytes.pop_back();
  if (bytes.empty()) return std::nullopt;
  bytes.back() = static_cast<char>(bytes.back() + 1);
  return bytes;
}

}  // namespace

Scalar TruncateLower(const Scalar& value, size_t length_max) {
  if (value.type() == ScalarType::kString) {
    return Scalar::String(value.AsBytes().substr(0, PrefixBytes(value.AsBytes(), length_max)));
  }
  if (value.type() == ScalarType::kBytes) {
    return Scalar::Bytes(value.AsBytes().substr(0, length_max));
  }
  return value;
}

std::optional<Scalar> TruncateUpper(const Scalar& value, size_t length_max) {
  const bool is_string = value.type() == ScalarType::kString;
  if (!is_string && value.type() != ScalarType::kBytes) return value;
  Scalar cut = TruncateLower(value, length_max);
  if (cut.AsBytes().size() == value.AsBytes().size()) return cut;
  std::optional<std::string> raised =
      is_string ? RaiseString(cut.AsBytes()) : RaiseBytes(cut.AsBytes());
  if (!raised) return std::nullopt;
  return is_string ? Scalar::String(*std::move(raised)) : Scalar::Bytes(*std::move(raised));
}

namespace {

template <class T>
std::string Little(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T FromLittle(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Status WrongLength(std::string_view what, size_t length) {
  return Status(Code::kCorruption,
                fmt::format("read bound of {}: no length of its type: {}", what, length));
}

}  // namespace

std::string EncodeSingleValue(const Scalar& value) {
  switch (value.type()) {
    case ScalarType::kBoolean:
      return std::string(1, value.AsBoolean() ? '\x01' : '\0');
    case ScalarType::kInt8:
    case ScalarType::kInt16:
    case ScalarType::kInt32:
      return Little(static_cast<int32_t>(value.AsInt()));
    case ScalarType::kInt64:
      return Little(value.AsInt());
    case ScalarType::kFloat:
      return Little(static_cast<float>(value.AsDouble()));
    case ScalarType::kDouble:
      return Little(value.AsDouble());
    case ScalarType::kDecimal:
      return ToBigEndian(value.AsDecimal());
    case ScalarType::kString:
    case ScalarType::kBytes:
      return value.AsBytes();
  }
  return "";
}

Result<Scalar> DecodeSingleValue(ScalarType type, std::span<const std::byte> bytes,
                                 std::string_view what) {
  const size_t length = bytes.size();
  switch (type) {
    case ScalarType::kBoolean:
      if (length != 1) return WrongLength(what, length);
      return Scalar::Boolean(bytes[0] != std::byte{0});
    case ScalarType::kInt8:
    case ScalarType::kInt16:
    case ScalarType::kInt32:
      if (length != 4) return WrongLength(what, length);
      return Scalar::Int32(FromLittle<int32_t>(bytes));
    case ScalarType::kInt64:
      if (length == 4) return Scalar::Int64(FromLittle<int32_t>(bytes));
      if (length != 8) return WrongLength(what, length);
      return Scalar::Int64(FromLittle<int64_t>(bytes));
    case ScalarType::kFloat:
      if (length != 4) return WrongLength(what, length);
      return Scalar::Float(FromLittle<float>(bytes));
    case ScalarType::kDouble:
      if (length == 4) return Scalar::Double(FromLittle<float>(bytes));
      if (length != 8) return WrongLength(what, length);
      return Scalar::Double(FromLittle<double>(bytes));
    case ScalarType::kDecimal: {
      PF_ASSIGN(const Int128 unscaled, FromBigEndian(bytes, what));
      return Scalar::Decimal(unscaled);
    }
    case ScalarType::kString:
      return Scalar::String(std::string(reinterpret_cast<const char*>(bytes.data()), length));
    case ScalarType::kBytes:
      return Scalar::Bytes(std::string(reinterpret_cast<const char*>(bytes.data()), length));
  }
  return WrongLength(what, length);
}

}  // namespace partforge::data
