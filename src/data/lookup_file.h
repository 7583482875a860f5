#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/batch_source.h"
#include "data/block_codec.h"
#include "data/sort_key.h"
#include "store/object_store.h"

namespace partforge::data {

// Rows of one data file in key order, in a private local file in which one of them is found by its
// key (data-room §13): blocks, an index of their first keys, a footer. Disposable: never read by
// another version, made anew when anything about it is unlike.

// What a file was made of and how. Two equal ones have the same rows.
struct LookupIdentity {
  std::string data_file = {};
  int64_t size_bytes = 0;  // of the data file
  int64_t schema_id = 0;
  BlockCodec codec = BlockCodec::kLz4;
  bool has_positions = false;  // a column of physical row numbers is among the rows'
  std::string ToText() const;
};

// What one reader or builder may hold at once: the index and a block, or a batch of the input.
struct LookupLimits {
  int64_t memory_bytes_max = int64_t{256} << 20;
  std::string option = "the lookup memory limit";  // to name in errors
};

// Writes all rows of the source, which come in ascending order of their keys, each key once
// (kInvalidArgument otherwise). Returns how many. The caller closes the sink.
Result<int64_t> WriteLookupFile(const Context& ctx, BatchSource& rows, const KeyEncoder& keys,
                                const LookupIdentity& identity, const LookupLimits& limits,
                                ByteSink& out, ArrowMemory& memory);

// An opened file: its index. Immutable.
class LookupFile {
  struct Key {};  // only Open may construct

 public:
  explicit LookupFile(Key) {}
  // kNotFound when it is another version's or was made of something else; kCorruption when it is
  // damaged; kExhausted when the index is above the limit. `schema` is that of the rows it was made
  // of.
  static Result<std::shared_ptr<const LookupFile>> Open(const Context& ctx,
                                                        std::unique_ptr<ByteSource> file,
                                                        const LookupIdentity& identity,
                                                        std::shared_ptr<arrow::Schema> schema,
                                                        const LookupLimits& limits);
  int64_t row_count() const { return row_count_; }
  size_t block_count() const { return blocks_.size(); }
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }

 private:
  friend class LookupCursor;
  struct Block {
    std::string first_key;
    int64_t offset = 0;
    uint32_t stored_bytes = 0, raw_bytes = 0, row_count = 0;
  };
  Status ParseIndex(std::span<const std::byte> bytes, int64_t index_offset,
                    const LookupIdentity& identity);

  std::unique_ptr<ByteSource> file_;
  std::shared_ptr<arrow::Schema> schema_;
  BlockCodec codec_ = BlockCodec::kNone;
  LookupLimits limits_;
  std::vector<Block> blocks_;
  int64_t row_count_ = 0;
  int64_t index_bytes_ = 0;
  MemoryGrant grant_;
};

struct FoundRow {
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t row = 0;
};

// Finds rows; keeps the last block, so that ascending keys read each block once. One thread at a
// time.
class LookupCursor {
 public:
  // `keys` is what the file was made with; it and `memory` outlive the cursor and what it found.
  LookupCursor(std::shared_ptr<const LookupFile> file, const KeyEncoder& keys, ArrowMemory& memory)
      : file_(std::move(file)), keys_(&keys), memory_(&memory) {}
  // None when no row has the key. kCorruption when its block is damaged: never "none" then.
  Result<std::optional<FoundRow>> Find(const Context& ctx, std::string_view key);
  int64_t blocks_read() const { return blocks_read_; }

 private:
  Status Load(const Context& ctx, size_t block);

  std::shared_ptr<const LookupFile> file_;
  const KeyEncoder* keys_;
  ArrowMemory* memory_;
  std::optional<size_t> block_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  EncodedKeys batch_keys_;
  int64_t blocks_read_ = 0;
};

}  // namespace partforge::data
