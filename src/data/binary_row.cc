#include "data/binary_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

namespace partforge::data {

namespace {

using Kind = BinaryRowType::Kind;

constexpr size_t kWordBytes = 8;
constexpr size_t kHeaderBits = 8;  // the row kind's byte stands before the null bits
constexpr size_t kInlineBytesMax = 7;
constexpr size_t kWideDecimalBytes = 16;
constexpr int32_t kCompactDecimalDigits = 18;
constexpr int32_t kCompactTimestampDigits = 3;
constexpr int32_t kNanosOfMilliMax = 999'999;

size_t RoundUp(size_t bytes) {
  return (bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
}
size_t NullBytes(size_t arity) {
  return (arity + 63 + kHeaderBits) / 64 * kWordBytes;
}
size_t FixedBytes(size_t arity) {
  return NullBytes(arity) + arity * kWordBytes;
}

bool IsWideDecimal(const BinaryRowType& type) {
  return type.kind == Kind::kDecimal && type.precision > kCompactDecimalDigits;
}
bool IsWideTimestamp(const BinaryRowType& type) {
  return type.kind == Kind::kTimestamp && type.precision > kCompactTimestampDigits;
}

// Bytes of the variable part that a null takes too.
size_t ReservedBytes(const BinaryRowType& type) {
  if (IsWideDecimal(type)) return kWideDecimalBytes;
  return IsWideTimestamp(type) ? kWordBytes : 0;
}

size_t IntBytes(Kind kind) {
  switch (kind) {
    case Kind::kBoolean:
    case Kind::kInt8:
      return 1;
    case Kind::kInt16:
      return 2;
    case Kind::kInt32:
      return 4;
    default:
      return 8;
  }
}

}  // namespace

BinaryRowWriter::BinaryRowWriter(std::span<const BinaryRowType> types)
    : types_(types.begin(), types.end()),
      fixed_bytes_(FixedBytes(types.size())),
      row_(fixed_bytes_, '\0') {}

size_t BinaryRowWriter::SlotAt(size_t field) const {
  return NullBytes(types_.size()) + field * kWordBytes;
}

const BinaryRowType& BinaryRowWriter::Take(std::initializer_list<Kind> kinds) {
  PF_CHECK(next_ < types_.size(), "more values than the row has fields");
  const BinaryRowType& type = types_[next_++];
  PF_CHECK(std::ranges::count(kinds, type.kind) == 1, "a value of another kind than its field");
  return type;
}

void BinaryRowWriter::PutSlot(const void* bytes, size_t size) {
  std::memcpy(row_.data() + SlotAt(next_ - 1), bytes, size);
}

// Appends to the variable part, padded with zeroes, and points the slot at it.
void BinaryRowWriter::PutVariable(std::string_view bytes, size_t reserved_bytes) {
  const uint64_t slot = uint64_t{row_.size()} << 32 | bytes.size();
  PutSlot(&slot, sizeof slot);
  const size_t begin = row_.size();
  row_ += bytes;
  row_.resize(begin + std::max(RoundUp(bytes.size()), reserved_bytes), '\0');
}

void BinaryRowWriter::SetNull() {
  PF_CHECK(next_ < types_.size(), "more values than the row has fields");
  const BinaryRowType& type = types_[next_++];
  const size_t bit = next_ - 1 + kHeaderBits;
  row_[bit / 8] = static_cast<char>(row_[bit / 8] | 1 << (bit % 8));
  if (ReservedBytes(type) > 0) PutVariable("", ReservedBytes(type));
}

void BinaryRowWriter::SetBoolean(bool value) {
  Take({Kind::kBoolean});
  const char byte = value ? 1 : 0;
  PutSlot(&byte, 1);
}

void BinaryRowWriter::SetInt(int64_t value) {
  const BinaryRowType& type = Take({Kind::kInt8, Kind::kInt16, Kind::kInt32, Kind::kInt64});
  PutSlot(&value, IntBytes(type.kind));  // little-endian: the low bytes come first
}

void BinaryRowWriter::SetFloat(float value) {
  Take({Kind::kFloat});
  PutSlot(&value, sizeof value);
}

void BinaryRowWriter::SetDouble(double value) {
  Take({Kind::kDouble});
  PutSlot(&value, sizeof value);
}

void BinaryRowWriter::SetDecimal(Int128 unscaled) {
  const BinaryRowType& type = Take({Kind::kDecimal});
  if (IsWideDecimal(type)) {
    PutVariable(ToBigEndian(unscaled), kWideDecimalBytes);
    return;
  }
  PutSlot(&unscaled.low, sizeof unscaled.low);
}

void BinaryRowWriter::SetTimestamp(RowTimestamp value) {
  const BinaryRowType& type = Take({Kind::kTimestamp});
  if (!IsWideTimestamp(type)) {
    PutSlot(&value.millis, sizeof value.millis);
    return;
  }
  const std::string_view millis(reinterpret_cast<const char*>(&value.millis), sizeof value.millis);
  PutVariable(millis, kWordBytes);
  // The low half of the slot is not a length here.
  PutSlot(&value.nano_of_milli, sizeof value.nano_of_milli);
}

void BinaryRowWriter::SetBytes(std::string_view bytes) {
  const BinaryRowType& type = Take({Kind::kBytes, Kind::kOpaque});
  if (type.kind == Kind::kOpaque || bytes.size() > kInlineBytesMax) {
    PutVariable(bytes, 0);
    return;
  }
  char slot[kWordBytes] = {};
  std::ranges::copy(bytes, slot);
  slot[kInlineBytesMax] = static_cast<char>(0x80 | bytes.size());
  PutSlot(slot, sizeof slot);
}

std::string BinaryRowWriter::Finish() {
  PF_CHECK(next_ == types_.size(), "fewer values than the row has fields");
  next_ = 0;
  return std::exchange(row_, std::string(fixed_bytes_, '\0'));
}

Result<BinaryRow> BinaryRow::Parse(std::span<const std::byte> bytes,
                                   std::span<const BinaryRowType> types, std::string_view what) {
  if (bytes.size() < FixedBytes(types.size())) {
    return Status(Code::kCorruption, fmt::format("read row of {}: {} fields do not fit {} bytes",
                                                 what, types.size(), bytes.size()));
  }
  BinaryRow row(bytes, {types.begin(), types.end()});
  for (size_t field = 0; field < types.size(); ++field) PF_TRY(row.CheckField(field, what));
  return row;
}

uint64_t BinaryRow::Slot(size_t field) const {
  uint64_t slot = 0;
  std::memcpy(&slot, bytes_.data() + NullBytes(types_.size()) + field * kWordBytes, sizeof slot);
  return slot;
}

bool BinaryRow::IsNull(size_t field) const {
  PF_CHECK(field < types_.size(), "a field beyond the row");
  const size_t bit = field + kHeaderBits;
  return (std::to_integer<int>(bytes_[bit / 8]) >> (bit % 8) & 1) != 0;
}

Status BinaryRow::CheckField(size_t field, std::string_view what) const {
  if (IsNull(field)) return {};
  const BinaryRowType& type = types_[field];
  const uint64_t slot = Slot(field);
  uint64_t length = 0;
  if (type.kind == Kind::kBytes) {
    if (slot >> 63 != 0) {
      // Inline: the length stands in the last byte.
      if ((slot >> 56 & 0x7f) <= kInlineBytesMax) return {};
      return Status(Code::kCorruption,
                    fmt::format("read row of {}: inline length of field {}", what, field));
    }
    length = static_cast<uint32_t>(slot);
  } else if (type.kind == Kind::kOpaque) {
    length = static_cast<uint32_t>(slot);
  } else if (IsWideDecimal(type)) {
    length = static_cast<uint32_t>(slot);
    if (length == 0 || length > kWideDecimalBytes) {
      return Status(Code::kCorruption,
                    fmt::format("read row of {}: a decimal of {} bytes", what, length));
    }
  } else if (IsWideTimestamp(type)) {
    length = kWordBytes;
    if (static_cast<uint32_t>(slot) > static_cast<uint32_t>(kNanosOfMilliMax)) {
      return Status(Code::kCorruption,
                    fmt::format("read row of {}: nanoseconds of field {}", what, field));
    }
  } else {
    return {};
  }
  const uint64_t offset = slot >> 32;
  if (offset > bytes_.size() || length > bytes_.size() - offset) {
    return Status(Code::kCorruption,
                  fmt::format("read row of {}: field {} lies outside of its {} bytes", what, field,
                              bytes_.size()));
  }
  return {};
}

int64_t BinaryRow::Int(size_t field) const {
  const auto slot = static_cast<int64_t>(Slot(field));
  switch (types_[field].kind) {
    case Kind::kBoolean:
      return (slot & 0xff) != 0 ? 1 : 0;
    case Kind::kInt8:
      return static_cast<int8_t>(slot);
    case Kind::kInt16:
      return static_cast<int16_t>(slot);
    case Kind::kInt32:
      return static_cast<int32_t>(slot);
    case Kind::kInt64:
      return slot;
    default:
      break;
  }
  PF_CHECK(false, "a field that is no integer");
  return 0;
}

float BinaryRow::Float(size_t field) const {
  PF_CHECK(types_[field].kind == Kind::kFloat, "a field that is no float");
  return std::bit_cast<float>(static_cast<uint32_t>(Slot(field)));
}

double BinaryRow::Double(size_t field) const {
  PF_CHECK(types_[field].kind == Kind::kDouble, "a field that is no double");
  return std::bit_cast<double>(Slot(field));
}

Int128 BinaryRow::Decimal(size_t field) const {
  PF_CHECK(types_[field].kind == Kind::kDecimal, "a field that is no decimal");
  const uint64_t slot = Slot(field);
  if (!IsWideDecimal(types_[field])) return Int128::Of(static_cast<int64_t>(slot));
  return FromBigEndian(bytes_.subspan(slot >> 32, static_cast<uint32_t>(slot)), "decimal").value();
}

RowTimestamp BinaryRow::Timestamp(size_t field) const {
  PF_CHECK(types_[field].kind == Kind::kTimestamp, "a field that is no timestamp");
  const uint64_t slot = Slot(field);
  if (!IsWideTimestamp(types_[field])) return {.millis = static_cast<int64_t>(slot)};
  RowTimestamp value{.millis = 0, .nano_of_milli = static_cast<int32_t>(slot)};
  std::memcpy(&value.millis, bytes_.data() + (slot >> 32), sizeof value.millis);
  return value;
}

std::string_view BinaryRow::Bytes(size_t field) const {
  const Kind kind = types_[field].kind;
  PF_CHECK(kind == Kind::kBytes || kind == Kind::kOpaque, "a field that is no bytes");
  const uint64_t slot = Slot(field);
  const auto* bytes = reinterpret_cast<const char*>(bytes_.data());
  if (kind == Kind::kBytes && slot >> 63 != 0) {
    return {bytes + NullBytes(types_.size()) + field * kWordBytes, slot >> 56 & 0x7f};
  }
  return {bytes + (slot >> 32), static_cast<uint32_t>(slot)};
}

std::string SerializeRow(size_t arity, std::string_view row) {
  const uint32_t big = __builtin_bswap32(static_cast<uint32_t>(arity));
  std::string out(reinterpret_cast<const char*>(&big), sizeof big);
  out += row;
  return out;
}

Result<SerializedRow> ParseSerializedRow(std::span<const std::byte> bytes, std::string_view what) {
  uint32_t big = 0;
  if (bytes.size() < sizeof big) {
    return Status(Code::kCorruption,
                  fmt::format("read row of {}: {} bytes are no row", what, bytes.size()));
  }
  std::memcpy(&big, bytes.data(), sizeof big);
  const size_t arity = __builtin_bswap32(big);
  const auto row = bytes.subspan(sizeof big);
  if (arity > row.size() / kWordBytes || row.size() < FixedBytes(arity)) {
    return Status(Code::kCorruption, fmt::format("read row of {}: {} fields do not fit {} bytes",
                                                 what, arity, row.size()));
  }
  return SerializedRow{.arity = arity, .row = row};
}

int32_t BinaryRowHash(std::string_view row) {
  PF_CHECK(row.size() % 4 == 0, "a row is made of words");
  uint32_t hash = 42;
  for (size_t at = 0; at < row.size(); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, row.data() + at, sizeof word);
    word = std::rotl(word * 0xcc9e2d51u, 15) * 0x1b873593u;
    hash = std::rotl(hash ^ word, 13) * 5 + 0xe6546b64u;
  }
  hash ^= static_cast<uint32_t>(row.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return static_cast<int32_t>(hash ^ hash >> 16);
}

std::string EncodeBinaryLongs(std::span<const std::optional<int64_t>> values) {
  const size_t head_bytes = 4 + (values.size() + 31) / 32 * 4;
  std::string out(head_bytes + values.size() * kWordBytes, '\0');
  const auto count = static_cast<int32_t>(values.size());
  std::memcpy(out.data(), &count, sizeof count);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]) {
      std::memcpy(out.data() + head_bytes + i * kWordBytes, &*values[i], kWordBytes);
    } else {
      char& byte = out[4 + i / 8];
      byte = static_cast<char>(byte | 1 << (i % 8));
    }
  }
  out.resize(RoundUp(out.size()), '\0');
  return out;
}

}  // namespace partforge::data
