#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/batch_source.h"
#include "data/gather.h"
#include "data/sort_key.h"

namespace partforge::data {

enum class TieOrder : uint8_t {
  kFirstSourceFirst,
  kLastSourceFirst,
};
// Off only to compare with.
enum class Galloping : uint8_t { kOn, kOff };

// Rows [begin, begin + count) that come next in key order, all from one batch of one source.
struct SortedRun {
  size_t source = 0;
  std::shared_ptr<arrow::RecordBatch> batch;
  std::shared_ptr<const EncodedKeys> keys;  // of the batch
  int64_t begin = 0;
  int64_t count = 0;
};

// Walks over sources that are sorted by key each, in the order of all keys. Ties go by source; rows
// of one source keep their order. One thread at a time. Memory: a batch and its keys for each
// source.
class LoserTree {
 public:
  // Most sources at once: above, merge in several passes.
  static constexpr size_t kSourcesMax = 256;

  // `sources` and `keys` must outlive the tree. At least one source, at most kSourcesMax.
  // kExhausted when the keys of a batch do not fit the memory budget.
  static Result<LoserTree> Make(const Context& ctx,
                                const std::vector<std::unique_ptr<BatchSource>>& sources,
                                const KeyEncoder& keys, TieOrder ties,
                                Galloping galloping = Galloping::kOn);

  // A run that comes next, at most `rows_max` rows; null at the end. It stands until the next call.
  // kCorruption when a source turns out not to be sorted.
  Result<const SortedRun*> Next(const Context& ctx, int64_t rows_max);
  // The first key of any source but the one that is next: up to there that one has keys alone. None
  // when it is the last. Valid until Next.
  std::optional<std::string_view> NextForeignKey() const;

 private:
  // Keys are no Arrow buffers: their memory is charged here, until nobody holds them.
  struct ChargedKeys {
    EncodedKeys keys;
    MemoryGrant grant;
  };
  struct Cursor {
    BatchSource* source = nullptr;
    std::shared_ptr<arrow::RecordBatch> batch;  // null: at the end
    std::shared_ptr<const EncodedKeys> keys;
    size_t row = 0;
    uint64_t prefix = 0;   // of the key at `row`
    std::string last_key;  // of the batch before, to check the order
    SortedRun run;         // handed out last
    std::string_view key() const { return (*keys)[row]; }
    bool is_at_end() const { return batch == nullptr; }
  };
  LoserTree(const KeyEncoder& keys, TieOrder ties, Galloping galloping)
      : keys_(&keys), ties_(ties), galloping_(galloping) {}

  bool Before(size_t a, size_t b) const;
  // Whether row `row` of the cursor's batch comes before the current row of cursor `other`.
  bool RowBefore(size_t source, size_t row, size_t other) const;
  Status Load(const Context& ctx, Cursor& cursor);
  void Replay(size_t source);
  size_t Challenger() const;
  size_t RowsBefore(size_t source, size_t other, size_t limit) const;

  const KeyEncoder* keys_;
  TieOrder ties_;
  Galloping galloping_;
  std::vector<Cursor> cursors_;
  // losers_[1 …) holds the loser of each match; losers_[0] the winner of all.
  std::vector<size_t> losers_;
  size_t leaves_ = 0;
  size_t winner_before_ = SIZE_MAX;  // whose run was handed out last; SIZE_MAX: none yet
};

}  // namespace partforge::data
