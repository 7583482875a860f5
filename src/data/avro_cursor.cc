#include "data/avro_cursor.h"

#include <fmt/format.h>

#include <cstring>

namespace partforge::data {

bool AvroItemBudget::Take(int64_t count) {
  constexpr int64_t kItemsFree = 16'384;
  constexpr int64_t kItemBytes = 128;  // of the largest, and of the growth of what holds them
  items_ += count;
  if (items_ <= kItemsFree) return true;
  const int64_t bytes = items_ * kItemBytes;
  if (bytes <= held_bytes_) return true;
  // At least as much again, so that this is done seldom.
  auto more = memory_.TryReserve(std::max(bytes, 2 * held_bytes_) - held_bytes_);
  if (!more.ok()) more = memory_.TryReserve(bytes - held_bytes_);
  if (!more.ok()) return false;
  grants_.push_back(std::move(more).value());
  held_bytes_ += grants_.back().size_bytes();
  return true;
}

Status AvroCursor::Failure(std::string_view what) const {
  PF_CHECK(failure_ != nullptr, "the failure of a cursor that did not fail");
  return Status(is_exhausted_ ? Code::kExhausted : Code::kCorruption,
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
  if (purpose == Purpose::kKeep && items_ != nullptr && !items_->Take(block.count)) {
    is_exhausted_ = true;
    Fail("a record of more items than the memory has room for (more memory: --memory)");
    return {};
  }
  return block;
}

// Every byte without the high bit ends one integer, so eight bytes are looked at together.
void AvroCursor::SkipVarints(int64_t count) {
  while (count >= 8 && end_ - at_ >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at_, sizeof word);
    // Sums the eight bits in the top byte; a popcount is a call on the baseline CPU.
    const uint64_t stops = (~word & 0x8080808080808080u) >> 7;
    count -= static_cast<int64_t>(stops * 0x0101010101010101u >> 56);
    at_ += sizeof word;
  }
  for (; count > 0; --count) {
    while (at_ < end_ && *at_ >= 0x80) ++at_;
    if (at_ == end_) return Fail("end of the block");
    ++at_;
  }
}

void AvroCursor::SkipItems(const AvroType& item, bool is_map, int64_t count) {
  // No product overflows: the count was held against the bytes that are left.
  if (!is_map && item.varint_count >= 0) return SkipVarints(count * item.varint_count);
  if (!is_map && item.exact_bytes >= 0) {
    Fixed(static_cast<uint64_t>(count * item.exact_bytes));
    return;
  }
  for (int64_t i = 0; i < count && ok(); ++i) {
    if (is_map) Bytes();
    Skip(item);
  }
}

void AvroCursor::Skip(const AvroType& type) {
  if (type.varint_count >= 0) return SkipVarints(type.varint_count);
  if (type.exact_bytes >= 0) {
    Fixed(static_cast<uint64_t>(type.exact_bytes));
    return;
  }
  switch (type.kind) {
    case AvroKind::kBytes:
    case AvroKind::kString:
      Bytes();
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
      while (true) {
        const ItemBlock block = NextItems(*type.element, item_bytes_min, Purpose::kSkip);
        if (block.count == 0) return;
        if (block.size_bytes >= 0) {
          Fixed(static_cast<uint64_t>(block.size_bytes));
        } else {
          SkipItems(*type.element, is_map, block.count);
        }
      }
    }
    default:
      return;  // the others were passed over at once
  }
}

}  // namespace partforge::data
