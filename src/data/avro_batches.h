#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "data/avro_arrow_schema.h"
#include "data/avro_file.h"

namespace arrow {
class MemoryPool;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

// Data files in Avro, straight between blocks and Arrow builders.

// Reads the columns chosen as batches. One thread at a time.
class AvroBatchReader {
  struct Key {};  // only Open may construct

 public:
  AvroBatchReader(Key, std::unique_ptr<AvroFileReader> file, arrow::MemoryPool& pool);
  ~AvroBatchReader();
  // The source and the pool must outlive the reader. Failures as of AvroFileReader and
  // ArrowSchemaOf.
  static Result<std::unique_ptr<AvroBatchReader>> Open(const Context& ctx, ByteSource& source,
                                                       std::string file_name,
                                                       AvroTimestamps timestamps,
                                                       arrow::MemoryPool& pool);

  const AvroHeader& header() const { return file_->header(); }
  int64_t next_offset() const { return file_->next_offset(); }  // of the next block
  const std::shared_ptr<arrow::Schema>& file_schema() const { return file_schema_; }

  // Chooses the leaf columns to decode, ascending, counted depth first as Parquet counts them (a
  // map's key and value are two). Structs keep the fields that have a chosen leaf; a map is taken
  // whole. None: all columns. Must be called before the first Next. An empty list reads no column:
  // only rows are counted.
  Status Select(const std::optional<std::vector<int>>& leaves);
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }  // of the batches

  // At most `rows_max` rows, and no more rows once about `bytes_max` bytes of the file's encoding
  // were read; null at the end, never empty. kCorruption with file and block.
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx, int64_t rows_max,
                                                   int64_t bytes_max);

 private:
  struct Plan;

  std::unique_ptr<AvroFileReader> file_;
  arrow::MemoryPool& pool_;
  std::shared_ptr<arrow::Schema> file_schema_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<Plan> plan_;
  std::optional<AvroBlock> block_;
  std::optional<AvroCursor> cursor_;
  int64_t records_left_ = 0;  // of the block
};

// Writes batches as records. One thread at a time; nothing is visible before the caller closes the
// sink.
class AvroBatchWriter {
  struct Key {};  // only Open may construct

 public:
  AvroBatchWriter(Key, std::unique_ptr<AvroFileWriter> file);
  ~AvroBatchWriter();
  // `options.schema` must be a record whose fields are those of `schema` in order, as AvroSchemaOf
  // makes it.
  static Result<std::unique_ptr<AvroBatchWriter>> Open(const Context& ctx,
                                                       const std::shared_ptr<arrow::Schema>& schema,
                                                       AvroWriteOptions options, ByteSink& sink);

  // kInvalidArgument for a null where the schema has none, or another type. Dictionaries and views
  // are not taken.
  Status Append(const Context& ctx, const arrow::RecordBatch& batch);
  Status Flush(const Context& ctx) { return file_->Flush(ctx); }
  int64_t record_count() const { return file_->record_count(); }
  int64_t bytes_estimated() const { return file_->bytes_estimated(); }

 private:
  struct Node;

  std::unique_ptr<AvroFileWriter> file_;
  std::vector<Node> columns_;
};

}  // namespace partforge::data
