#include "data/proto_wire.h"

#include <bit>
#include <cstring>

namespace partforge::data {

bool ProtoReader::Fail() {
  is_ok_ = false;
  left_ = {};
  bytes_ = {};
  value_ = 0;
  return false;
}

bool ProtoReader::TakeVarint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (from.empty()) return false;
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool ProtoReader::Next() {
  if (left_.empty()) return false;
  uint64_t key = 0;
  if (!TakeVarint(left_, key)) return Fail();
  number_ = key >> 3;
  is_taken_ = false;
  bytes_ = {};
  value_ = 0;
  wire_ = static_cast<Wire>(key & 7);
  uint64_t length = 0;
  switch (wire_) {
    case Wire::kVarint:
      return TakeVarint(left_, value_) || Fail();
    case Wire::kFixed64:
    case Wire::kFixed32:
      length = wire_ == Wire::kFixed64 ? sizeof(uint64_t) : sizeof(uint32_t);
      if (left_.size() < length) return Fail();
      std::memcpy(&value_, left_.data(), length);
      left_.remove_prefix(length);
      return true;
    case Wire::kBytes:
      if (!TakeVarint(left_, length) || length > left_.size()) return Fail();
      bytes_ = left_.substr(0, length);
      left_.remove_prefix(length);
      return true;
  }
  return Fail();
}

bool ProtoReader::Is(Wire wire) {
  return (is_ok_ && wire_ == wire) || Fail();
}

uint64_t ProtoReader::Unsigned() {
  return Is(Wire::kVarint) ? value_ : 0;
}

int64_t ProtoReader::Signed() {
  const uint64_t value = Unsigned();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

double ProtoReader::Double() {
  return Is(Wire::kFixed64) ? std::bit_cast<double>(value_) : 0;
}

std::string_view ProtoReader::Bytes() {
  return Is(Wire::kBytes) ? bytes_ : std::string_view();
}

bool ProtoReader::NextUnsigned(uint64_t& value) {
  if (!is_ok_) return false;
  if (wire_ == Wire::kVarint) {
    if (is_taken_) return false;
    is_taken_ = true;
    value = value_;
    return true;
  }
  if (!Is(Wire::kBytes) || bytes_.empty()) return false;
  return TakeVarint(bytes_, value) || Fail();
}

}  // namespace partforge::data
