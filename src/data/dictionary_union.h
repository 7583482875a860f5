#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace partforge::data {

// The distinct entries of several dictionaries, in the order they were first added: a table with
// open addressing over copies of their bytes, which lie close together since most time goes into
// reaching them. One thread at a time.
class DictionaryUnion {
 public:
  struct Limits {
    int64_t entries_max = 0;
    int64_t bytes_max = 0;  // at most 2 GiB
  };
  explicit DictionaryUnion(const Limits& limits);

  // The index of the entry in the union; none when it is new and beyond a limit.
  std::optional<uint32_t> Add(std::string_view entry);

  int64_t entry_count() const { return static_cast<int64_t>(ends_.size()); }
  // All entries, one behind the other: the body of a dictionary page in PLAIN encoding.
  std::string TakeBytes() { return std::move(bytes_); }

 private:
  struct Slot {
    uint32_t index = kFree;
    uint32_t hash = 0;  // most comparisons end here
  };
  static constexpr uint32_t kFree = UINT32_MAX;
  std::string_view Entry(uint32_t index) const {
    const uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    return {bytes_.data() + begin, ends_[index] - begin};
  }
  void Grow();

  const Limits limits_;
  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::string bytes_;
  std::vector<uint32_t> ends_;  // of entries in `bytes_`
};

}  // namespace partforge::data
