#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/files.h"
#include "data/arrow_edge.h"
#include "data/batch_source.h"

namespace arrow {
class Buffer;
class Schema;
}  // namespace arrow

namespace partforge::data {

// Where sorts keep what does not fit in memory: private local files that nobody else reads and no
// crash leaves behind, since they have lost their names before the first row is in them.
// Thread-safe.
class SpillSpace {
 public:
  // `directory` exists. At most `bytes_max` bytes at once over all files.
  SpillSpace(std::filesystem::path directory, int64_t bytes_max)
      : directory_(std::move(directory)), bytes_max_(bytes_max) {}
  int64_t used_bytes() const { return used_bytes_.load(); }
  int64_t total_bytes() const { return total_bytes_.load(); }  // ever written

 private:
  friend class SpillFile;
  const std::filesystem::path directory_;
  const int64_t bytes_max_;
  std::atomic<int64_t> used_bytes_ = 0;
  std::atomic<int64_t> total_bytes_ = 0;
};

// A run of batches on disk: magic PFSP, version 1, process id; then for each message its length,
// Arrow IPC bytes (LZ4; a stream of their own where there are dictionaries) and their CRC-32C.
// Written once, then read once. One thread at a time.
class SpillFile {
  struct Key {};  // only Create may construct

 public:
  SpillFile(Key, SpillSpace& space, std::shared_ptr<arrow::Schema> schema, ArrowMemory& memory)
      : space_(space), schema_(std::move(schema)), memory_(memory) {}
  // kExhausted when the disk or the space is full. `space` and `memory` must outlive the file.
  static Result<std::unique_ptr<SpillFile>> Create(const Context& ctx, SpillSpace& space,
                                                   std::shared_ptr<arrow::Schema> schema,
                                                   ArrowMemory& memory);
  ~SpillFile();  // gives the bytes back
  Status Append(const Context& ctx, const arrow::RecordBatch& batch);
  Status AppendAll(const Context& ctx, BatchSource& rows);  // to the end of the source
  int64_t row_count() const { return row_count_; }
  int64_t size_bytes() const { return size_bytes_; }
  // Reads what was written; nothing may be appended from then on. The source takes the file over.
  static Result<std::unique_ptr<BatchSource>> Read(std::unique_ptr<SpillFile> file);

 private:
  class Reader;
  struct Place {
    int64_t offset = 0;
    int64_t length = 0;
  };
  Status Write(std::span<const std::byte> bytes);

  SpillSpace& space_;
  const std::shared_ptr<arrow::Schema> schema_;
  ArrowMemory& memory_;
  UniqueFd fd_;
  std::vector<Place> batches_;
  int64_t row_count_ = 0;
  int64_t size_bytes_ = 0;
};

// Whether there is a dictionary column, at any depth: its batches are no message without its
// values.
bool HasDictionaries(const arrow::Schema& schema);

// One message of a spill file: its bytes and their checksum. kCorruption when they do not fit each
// other or hold no batch of the schema.
Result<std::shared_ptr<arrow::RecordBatch>> ParseSpilledBatch(
    const std::shared_ptr<arrow::Buffer>& bytes, uint32_t crc,
    const std::shared_ptr<arrow::Schema>& schema, ArrowMemory& memory);

}  // namespace partforge::data
