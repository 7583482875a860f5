#include "data/dictionary_union.h"

#include <algorithm>

#include "base/hash.h"

namespace partforge::data {

DictionaryUnion::DictionaryUnion(const Limits& limits)
    : limits_{.entries_max = std::min<int64_t>(limits.entries_max, int64_t{1} << 30),
              .bytes_max = std::min<int64_t>(limits.bytes_max, int64_t{1} << 31)},
      slots_(1024) {}

std::optional<uint32_t> DictionaryUnion::Add(std::string_view entry) {
  const auto hash = static_cast<uint32_t>(XxHash64(AsBytes(entry)));
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  for (; slots_[slot].index != kFree; slot = (slot + 1) & mask) {
    const Slot& taken = slots_[slot];
    if (taken.hash == hash && Entry(taken.index) == entry) return taken.index;
  }
  if (entry_count() >= limits_.entries_max ||
      static_cast<int64_t>(bytes_.size() + entry.size()) > limits_.bytes_max) {
    return std::nullopt;
  }
  const auto index = static_cast<uint32_t>(ends_.size());
  slots_[slot] = {.index = index, .hash = hash};
  bytes_ += entry;
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  if (ends_.size() * 2 > slots_.size()) Grow();
  return index;
}

void DictionaryUnion::Grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  const size_t mask = larger.size() - 1;
  for (const Slot& moved : slots_) {
    if (moved.index == kFree) continue;
    size_t slot = moved.hash & mask;
    while (larger[slot].index != kFree) slot = (slot + 1) & mask;
    larger[slot] = moved;
  }
  slots_ = std::move(larger);
}

}  // namespace partforge::data
