#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/context.h"
#include "data/batch_source.h"
#include "data/loser_tree.h"
#include "data/sort_key.h"
#include "data/spill.h"

namespace partforge::data {

// A row of an input.
struct RowAt {
  size_t source = 0;
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t row = 0;
};

// What takes the place of a group of rows of one key.
struct Reduced {
  enum class Kind : uint8_t {
    kNothing,  // the key disappears
    kRow,      // `at`: one of the rows as it is, or a row made for it (batch of the same schema)
  };
  Kind kind = Kind::kNothing;
  RowAt at;
};

// Turns the rows of one key into at most one. One thread at a time.
class MergeFunction {
 public:
  virtual ~MergeFunction() = default;
  // Rows in the order of the merge: at least two, or one where sees_single_rows().
  virtual Result<Reduced> Reduce(const Context& ctx, std::span<const RowAt> rows) = 0;
  // False: a row whose key is its own goes through untouched.
  virtual bool sees_single_rows() const = 0;
};

struct MergeOptions {
  TieOrder ties = TieOrder::kFirstSourceFirst;
  Galloping galloping = Galloping::kOn;
  int64_t batch_rows_max = 65'536;
  int64_t batch_bytes_max = int64_t{8} << 20;
};

// Merges sorted sources of one schema into one sorted source. `function` may be null: all rows come
// out. A batch that is alone in its range of keys passes through without a copy. All references
// must outlive the result; at most LoserTree::kSourcesMax sources.
Result<std::unique_ptr<BatchSource>> MergeSorted(const Context& ctx,
                                                 std::vector<std::unique_ptr<BatchSource>> sources,
                                                 const KeyEncoder& keys, MergeFunction* function,
                                                 const MergeOptions& options, ArrowMemory& memory);

struct SortOptions {
  int64_t run_bytes = int64_t{64} << 20;  // of batches and keys that are sorted in memory at once
  size_t fan_in_max = 64;
  MergeOptions merge = {};
};

// Sorts by key; rows of equal keys keep the order of the input. Reads all of the input before the
// first batch comes out; what is above `run_bytes` goes to `space`. All references must outlive the
// result. kRefused when the indices of a dictionary column have no room for the distinct values
// that come together in a batch.
Result<std::unique_ptr<BatchSource>> Sort(const Context& ctx, BatchSource& input,
                                          const KeyEncoder& keys, const SortOptions& options,
                                          SpillSpace& space, ArrowMemory& memory);

}  // namespace partforge::data
