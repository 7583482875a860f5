#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge::clickhouse {

// The directory name of a MergeTree part:
// `<partition_id>_<min_block>_<max_block>_<level>[_<mutation>]`.
struct PartName {
  std::string partition_id;  // of a patch part: "patch-<columns hash>-<partition id>"
  int64_t min_block = 0, max_block = 0;
  uint32_t level = 0;
  std::optional<int64_t> mutation;  // data version; absent = 0 for comparisons

  std::string ToString() const;
  // Patch parts hold updates of other parts (ALTER … UPDATE by patch); they cannot be rewritten
  // alone.
  bool IsPatch() const;
  bool operator==(const PartName&) const = default;
};

// kInvalidArgument when `text` is not a part name of format version 1.
Result<PartName> ParsePartName(std::string_view text);

// True when ClickHouse, holding both, would treat `inner` as superseded by `outer`
// (MergeTreePartInfo::contains). A part covers itself.
bool Covers(const PartName& outer, const PartName& inner);
// True when both are of one partition and their block ranges share a block.
bool Overlaps(const PartName& a, const PartName& b);

}  // namespace partforge::clickhouse
