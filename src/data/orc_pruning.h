#pragma once

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/column_range.h"
#include "data/orc_tail.h"
#include "data/schema_mapping.h"

namespace partforge::data {

// Says, out of statistics alone, which stripes of an ORC file cannot have a row in all the ranges.
// When in doubt a stripe is kept. Immutable.
class OrcPruner {
 public:
  // `file_schema` has all columns of the file, `mapping` tells which of them stands for which
  // wanted one; null: the file's own columns. Ranges over columns that the file lacks, that are
  // nested or were converted are left out; times are compared in the unit wanted. The tail must
  // outlive the pruner.
  OrcPruner(const OrcTail& tail, const arrow::Schema& file_schema, const SchemaMapping* mapping,
            const std::vector<ColumnRange>& ranges);

  bool has_ranges() const { return !bound_.empty(); }
  bool MayMatch(size_t stripe) const;

 private:
  // A range whose column is in the file.
  struct BoundRange {
    ColumnRange range;
    uint32_t column = 0;                         // type of the file
    std::optional<int64_t> units_a_second = {};  // of a timestamp wanted
  };
  const OrcTail& tail_;
  std::vector<BoundRange> bound_;
};

}  // namespace partforge::data
