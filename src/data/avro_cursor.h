#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/memory_budget.h"
#include "data/avro_schema.h"

namespace partforge::data {

// How many array items, map values and top-level records that take no byte may be in one file.
// Their number is bounded by nothing else.
inline constexpr int64_t kAvroEmptyItemsMax = int64_t{1} << 20;

// Memory for the items of the record being read: two bytes of a file may become a hundred, so that
// a block within its limits can hold a record beyond all. Few are free; what more take is taken
// from a budget before they are read, for the largest record so far. One thread at a time.
class AvroItemBudget {
 public:
  explicit AvroItemBudget(MemoryBudget& memory) : memory_(memory) {}
  void BeginRecord() { items_ = 0; }
  // False when there is no room for so many items more.
  bool Take(int64_t count);

 private:
  MemoryBudget& memory_;
  std::vector<MemoryGrant> grants_;
  int64_t held_bytes_ = 0;
  int64_t items_ = 0;  // of this record; below the bytes of its block
};

// Reads the binary encoding of one decompressed block (Avro 1.11 specification, "Binary encoding").
// The first violation makes it fail for good: from then on every read returns zero and the end is
// reached, so that hot loops check once per record. One thread at a time.
class AvroCursor {
 public:
  // `empty_items_left` counts down over all blocks of a file; it and the bytes outlive the cursor.
  // `items`, where it is given, pays for what is kept.
  AvroCursor(std::span<const std::byte> bytes, int64_t& empty_items_left,
             AvroItemBudget* items = nullptr)
      : at_(reinterpret_cast<const uint8_t*>(bytes.data())),
        begin_(at_),
        end_(at_ + bytes.size()),
        empty_items_left_(empty_items_left),
        items_(items) {}

  bool ok() const { return failure_ == nullptr; }
  bool AtEnd() const { return at_ == end_; }
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  size_t position() const { return static_cast<size_t>((failed_at_ ? failed_at_ : at_) - begin_); }
  // kCorruption: `what`, what was found, and the offset within the block; kExhausted where the
  // memory for items ran out.
  Status Failure(std::string_view what) const;
  void Fail(const char* found) {
    if (failure_ != nullptr) return;
    failure_ = found;
    failed_at_ = at_;
    at_ = end_;
  }

  uint64_t Varint() {
    if (at_ < end_ && *at_ < 0x80) return *at_++;  // most are short
    if (end_ - at_ < 8) return LongVarint();
    // Up to eight bytes at once: cut behind the first byte without the high bit, then close the
    // gaps.
    uint64_t word = 0;
    std::memcpy(&word, at_, sizeof word);
    const uint64_t stops = ~word & 0x8080808080808080u;
    if (stops == 0) return LongVarint();
    const int bits = std::countr_zero(stops) + 1;  // 8 for each byte taken
    at_ += bits / 8;
    word &= ~uint64_t{0} >> (64 - bits) & 0x7f7f7f7f7f7f7f7fu;
    word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
    word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
    return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
  }
  int64_t Long() {
    const uint64_t raw = Varint();
    return static_cast<int64_t>(raw >> 1) ^ -static_cast<int64_t>(raw & 1);
  }
  int32_t Int() {
    const int64_t value = Long();
    if (value != static_cast<int32_t>(value)) Fail("an int above 32 bits");
    return static_cast<int32_t>(value);
  }
  bool Boolean() {
    if (at_ == end_) return Fail("end of the block"), false;
    if (*at_ > 1) return Fail("a boolean that is neither 0 nor 1"), false;
    return *at_++ != 0;
  }
  float Float() { return Raw<float>(); }
  double Double() { return Raw<double>(); }
  // The bytes of a string or bytes value; they live as long as the block.
  std::string_view Bytes() {
    const int64_t length = Long();
    if (length < 0) return Fail("a negative length"), std::string_view();
    return Fixed(static_cast<uint64_t>(length));
  }
  std::string_view Fixed(uint64_t length) {
    if (length > remaining())
      return Fail("a length beyond the end of the block"), std::string_view();
    const std::string_view bytes(reinterpret_cast<const char*>(at_), length);
    at_ += length;
    return bytes;
  }
  // Index of a union's branch or an enum's symbol, below `count`; 0 after a failure.
  size_t Index(size_t count) {
    const int64_t index = Long();
    if (index < 0 || static_cast<uint64_t>(index) >= count) return Fail("an index out of range"), 0;
    return static_cast<size_t>(index);
  }

  struct ItemBlock {
    int64_t count = 0;  // 0: the array or map ends
    int64_t size_bytes =
        -1;  // of the items together, when the writer said so; never beyond the end
  };
  // What happens to items: those without bytes count sixteenfold against the allowance when each
  // takes memory.
  enum class Purpose : uint8_t { kSkip, kKeep };
  // The head of the next run of items of an array or map whose items take at least `item_bytes_min`
  // bytes.
  ItemBlock NextItems(const AvroType& item, int64_t item_bytes_min, Purpose purpose);
  // Calls `keep` where each item of an array or map begins; it must read the item.
  template <class Keep>
  void ForItems(const AvroType& item, int64_t item_bytes_min, Keep keep) {
    while (true) {
      const ItemBlock block = NextItems(item, item_bytes_min, Purpose::kKeep);
      if (block.count == 0) return;
      for (int64_t i = 0; i < block.count && ok(); ++i) keep();
    }
  }

  // Passes over a datum of the type without allocating.
  void Skip(const AvroType& type);
  // Takes `count` data without bytes off what the file may have.
  bool SpendEmpty(int64_t count, const AvroType& item);

 private:
  template <class T>
  T Raw() {
    T value{};
    if (remaining() < sizeof value) return Fail("end of the block"), value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  uint64_t LongVarint();
  void SkipVarints(int64_t count);
  void SkipItems(const AvroType& item, bool is_map, int64_t count);

  const uint8_t* at_;
  const uint8_t* begin_;
  const uint8_t* end_;
  const uint8_t* failed_at_ = nullptr;
  const char* failure_ = nullptr;
  int64_t& empty_items_left_;
  AvroItemBudget* const items_;
  bool is_exhausted_ = false;
};

}  // namespace partforge::data
