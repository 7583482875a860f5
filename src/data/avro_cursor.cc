#include "data/avro_cursor.h"

#include <fmt/format.h>

namespace partforge::data {

Status AvroCursor::Failure(std::string_view what) const {
  PF_CHECK(failure_ != nullptr, "the failure of a cursor that did not fail");
  return Status(Code::kCorruption,
                fmt::format("decode {}: {} at byte {} of the block", what, failure_, position()));
}

uint64_t AvroCursor::LongVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) return Fail("end of the block"), 0;
    const uint8_t byte = *at_++;
    if (shift == 63 && byte > 1) break;
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return Fail("an integer above 64 bits"), 0;
}

bool AvroCursor::SpendEmpty(int64_t count, const AvroType& item) {
  // An item without bytes still costs a step for each of its parts.
  if (count > empty_items_left_ / item.step_count) {
    Fail("more items without bytes than allowed");
    return false;
  }
  empty_items_left_ -= count * item.step_count;
  return true;
}

namespace {
constexpr int64_t kKeptItemFactor = 16;
}  // namespace

AvroCursor::ItemBlock AvroCursor::NextItems(const AvroType& item, int64_t item_bytes_min,
                                            Purpose purpose) {
  ItemBlock block;
  block.count = Long();
  if (block.count == 0) return block;
  if (block.count < 0) {
    // A negative count is followed by the size of the items in bytes.
    block.count = block.count == INT64_MIN ? INT64_MAX : -block.count;
    block.size_bytes = Long();
    if (block.size_bytes < 0 || static_cast<uint64_t>(block.size_bytes) > remaining()) {
      Fail("a size of items beyond the end of the block");
      return {};
    }
  }
  if (item_bytes_min == 0) {
    // Bounded first, so that the product stays far from overflow.
    const int64_t factor = purpose == Purpose::kKeep ? kKeptItemFactor : 1;
    if (block.count > kAvroEmptyItemsMax) Fail("more items without bytes than allowed");
    if (!ok() || !SpendEmpty(block.count * factor, item)) return {};
  } else if (block.count > static_cast<int64_t>(remaining()) / item_bytes_min) {
    Fail("more items than the block has bytes for");
    return {};
  }
  return block;
}

void AvroCursor::Skip(const AvroType& type) {
  switch (type.kind) {
    case AvroKind::kNull:
      return;
    case AvroKind::kBoolean:
      Boolean();
      return;
    case AvroKind::kInt:
    case AvroKind::kLong:
    case AvroKind::kEnum:
      Varint();
      return;
    case AvroKind::kFloat:
      Fixed(4);
      return;
    case AvroKind::kDouble:
      Fixed(8);
      return;
    case AvroKind::kBytes:
    case AvroKind::kString:
      Bytes();
      return;
    case AvroKind::kFixed:
      Fixed(static_cast<uint64_t>(type.fixed_size_bytes));
      return;
    case AvroKind::kRecord:
      for (const AvroField& field : type.fields) Skip(*field.type);
      return;
    case AvroKind::kUnion: {
      const size_t branch = Index(type.branches.size());
      if (ok()) Skip(*type.branches[branch]);
      return;
    }
    case AvroKind::kArray:
    case AvroKind::kMap: {
      const bool is_map = type.kind == AvroKind::kMap;
      const int64_t item_bytes_min = type.element->size_bytes_min + (is_map ? 1 : 0);
      for (ItemBlock block = NextItems(*type.element, item_bytes_min, Purpose::kSkip);
           block.count > 0; block = NextItems(*type.element, item_bytes_min, Purpose::kSkip)) {
        if (block.size_bytes >= 0) {
          Fixed(static_cast<uint64_t>(block.size_bytes));
          continue;
        }
        for (int64_t i = 0; i < block.count && ok(); ++i) {
          if (is_map) Bytes();
          Skip(*type.element);
        }
      }
      return;
    }
  }
}

}  // namespace partforge::data
