#include "clickhouse/part_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace partforge::clickhouse {
namespace {

constexpr size_t kPartNameBytesMax = 255;  // it is one file name
// Levels that ClickHouse gives to the result of DROP/REPLACE RANGE; they cover everything of their
// range (MergeTreePartInfo::MAX_LEVEL and its older form).
constexpr uint32_t kLevelCoversAll = 999'999'999;
constexpr uint32_t kLevelCoversAllOld = UINT32_MAX;

bool IsPartitionIdByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

template <class T>
bool ReadNumber(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> SplitAtUnderscores(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t at = text.find('_');
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

}  // namespace

std::string PartName::ToString() const {
  std::string text = fmt::format("{}_{}_{}_{}", partition_id, min_block, max_block, level);
  if (mutation) text += fmt::format("_{}", *mutation);
  return text;
}

bool PartName::IsPatch() const {
  return partition_id.starts_with("patch-");
}

Result<PartName> ParsePartName(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return Status(Code::kInvalidArgument,
                  fmt::format("not the name of a part, {}: {}", why, text.substr(0, 300)));
  };
  if (text.size() > kPartNameBytesMax) return wrong("too long");
  const std::vector<std::string_view> pieces = SplitAtUnderscores(text);
  if (pieces.size() != 4 && pieces.size() != 5) return wrong("not four or five pieces");

  PartName name;
  name.partition_id = pieces[0];
  if (name.partition_id.empty() ||
      !std::all_of(name.partition_id.begin(), name.partition_id.end(), IsPartitionIdByte)) {
    return wrong("odd partition id");
  }
  if (!ReadNumber(pieces[1], name.min_block) || !ReadNumber(pieces[2], name.max_block)) {
    return wrong("block number");
  }
  if (name.min_block < 0 || name.min_block > name.max_block) return wrong("block range");
  if (!ReadNumber(pieces[3], name.level)) return wrong("level");
  if (pieces.size() == 5) {
    int64_t mutation = 0;
    if (!ReadNumber(pieces[4], mutation) || mutation < 0) return wrong("mutation");
    name.mutation = mutation;
  }
  // ClickHouse writes numbers without leading zeros; another spelling would be another directory.
  if (name.ToString() != text) return wrong("number with leading zeros");
  return name;
}

bool Covers(const PartName& outer, const PartName& inner) {
  if (outer.partition_id != inner.partition_id) return false;
  if (outer.min_block > inner.min_block || outer.max_block < inner.max_block) return false;
  if (outer.level < inner.level) return false;
  if (outer.mutation.value_or(0) < inner.mutation.value_or(0)) return false;
  const bool is_same_range =
      outer.min_block == inner.min_block && outer.max_block == inner.max_block;
  return is_same_range || outer.level > inner.level || outer.level == kLevelCoversAll ||
         outer.level == kLevelCoversAllOld;
}

bool Overlaps(const PartName& a, const PartName& b) {
  return a.partition_id == b.partition_id && a.min_block <= b.max_block &&
         b.min_block <= a.max_block;
}

}  // namespace partforge::clickhouse
