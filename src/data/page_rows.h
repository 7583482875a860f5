#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/bitmap.h"
#include "data/parquet_footer.h"
#include "store/object_store.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace partforge::data {

// Reading chosen rows of one row group without decoding the pages between them.

// The pages of one column chunk that hold any of the rows, as a Parquet file of one column.
struct PageSelection {
  std::string file;
  std::vector<RowRun> rows;  // of the row group, that the pages hold
};
// The ranges of the object that SelectPages will read; none when the chunk has no offset index or
// the column is not one flat or repeated leaf directly below the root.
Result<std::optional<std::vector<FileRange>>> PageRanges(const Context& ctx, ByteSource& source,
                                                         const ParquetFooter& footer, int row_group,
                                                         int leaf, const std::vector<RowRun>& rows,
                                                         std::string_view file_name);
// Requires that PageRanges found some.
Result<PageSelection> SelectPages(const Context& ctx, ByteSource& source,
                                  const ParquetFooter& footer, int row_group, int leaf,
                                  const std::vector<RowRun>& rows, std::string_view file_name);

// Hands out rows of one top-level field, ascending, skipping those between. One thread at a time.
class FieldCursor {
 public:
  virtual ~FieldCursor() = default;
  // Rows [begin, begin + count) of the row group; they must lie in the selection.
  virtual Result<std::shared_ptr<arrow::Array>> Take(int64_t begin, int64_t count) = 0;
};
// kInvalidArgument when the pages alone decode to another type than the whole file says (a schema
// of Arrow in its footer): the field must be read whole then.
Result<std::unique_ptr<FieldCursor>> OpenPages(const Context& ctx, PageSelection pages,
                                               const std::shared_ptr<arrow::DataType>& type,
                                               ArrowMemory& memory);

}  // namespace partforge::data
