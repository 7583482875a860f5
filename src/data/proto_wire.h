#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace partforge::data {

// Walks over the fields of one protobuf message (Protocol Buffers, "Encoding") without copying or
// allocating. What is no message, or a value that is asked for as another type than it has, makes
// ok() false and every further value 0 or empty. Groups, which nobody writes any more, are no part
// of a message here.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : left_(message) {}

  // Steps to the next field; false at the end, or when the bytes are none.
  bool Next();
  uint64_t number() const { return number_; }  // of the field
  bool ok() const { return is_ok_; }

  uint64_t Unsigned();       // a varint: uint32, uint64, bool, enum
  int64_t Signed();          // sint32, sint64
  double Double();           // double
  std::string_view Bytes();  // string, bytes, message; lies in the message
  // The next number of a repeated field that may be packed; false after the last one.
  bool NextUnsigned(uint64_t& value);

 private:
  enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  bool Fail();
  bool Is(Wire wire);
  static bool TakeVarint(std::string_view& from, uint64_t& value);

  std::string_view left_;
  bool is_ok_ = true;
  uint64_t number_ = 0;
  Wire wire_ = Wire::kVarint;
  uint64_t value_ = 0;      // of a varint or fixed field
  bool is_taken_ = false;   // value_, by NextUnsigned
  std::string_view bytes_;  // of a kBytes field; what NextUnsigned has not taken
};

}  // namespace partforge::data
