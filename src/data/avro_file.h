#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "data/avro_cursor.h"
#include "data/avro_record.h"
#include "data/avro_schema.h"
#include "data/block_codec.h"
#include "store/object_store.h"

namespace partforge::data {

// Avro object container files (Avro 1.11 specification, "Object Container Files").

inline constexpr int64_t kAvroMetadataBytesMax = int64_t{16} << 20;
using AvroMetadata = std::vector<std::pair<std::string, std::string>>;  // in file order
using AvroSync = std::array<char, 16>;

struct AvroHeader {
  AvroSchema schema;
  AvroMetadata metadata;  // everything, avro.schema and avro.codec included
  BlockCodec codec = BlockCodec::kNone;
  AvroSync sync{};
  int64_t size_bytes = 0;  // the first block begins here

  // The value of a metadata key, or null.
  const std::string* Find(std::string_view key) const;
};

struct AvroBlock {
  int64_t record_count = 0;
  int64_t offset = 0;                // of the block in the file
  std::span<const std::byte> bytes;  // plain; until the next NextBlock
};

// Reads a container block by block. One thread at a time. The source must outlive it.
class AvroFileReader {
  struct Key {};  // only Open may construct

 public:
  AvroFileReader(Key, ByteSource& source, std::string file_name, MemoryBudget& memory)
      : source_(source), file_name_(std::move(file_name)), items_(memory) {}
  // kCorruption with the file's name and offset for what is no Avro file, kRefused for a codec we
  // do not have.
  static Result<std::unique_ptr<AvroFileReader>> Open(const Context& ctx, ByteSource& source,
                                                      std::string file_name);

  const AvroHeader& header() const { return header_; }
  const std::string& file_name() const { return file_name_; }
  // Of the next block; nothing before is read again.
  int64_t next_offset() const { return offset_; }
  // The next block, decompressed; none at the end of the file.
  Result<std::optional<AvroBlock>> NextBlock(const Context& ctx);
  // Cursor over a block of this reader, sharing the file's allowance of data without bytes.
  AvroCursor CursorOf(const AvroBlock& block) { return {block.bytes, empty_items_left_}; }
  // The same for who keeps what is in a record: its items are paid for by the budget. Each record
  // begins with BeginRecord.
  AvroCursor KeepingCursorOf(const AvroBlock& block) {
    return {block.bytes, empty_items_left_, &items_};
  }
  void BeginRecord() { items_.BeginRecord(); }
  // To be asked after the last record of a block: the cursor's failure, or kCorruption when bytes
  // are left.
  Status CheckBlockEnd(const AvroBlock& block, const AvroCursor& cursor) const;

 private:
  Status Corrupt(std::string_view found, int64_t offset) const;
  Status ReadHeader(const Context& ctx);
  // Makes [offset, offset + length) of the file stand in window_, and gives it.
  Result<std::span<const std::byte>> Window(const Context& ctx, int64_t offset, int64_t length);
  // Takes what the buffers will hold, before they grow.
  Status ChargeBuffers(const Context& ctx, int64_t held_bytes);
  Status Decompress(const Context& ctx, std::span<const std::byte> stored);

  ByteSource& source_;
  const std::string file_name_;
  AvroHeader header_;
  int64_t offset_ = 0;  // of the next block
  int64_t empty_items_left_ = kAvroEmptyItemsMax;
  std::string window_;
  int64_t window_offset_ = 0;
  std::string raw_;
  BlockDecompressor decompressor_;
  MemoryGrant grant_;  // what window_ and raw_ hold
  AvroItemBudget items_;
};

struct AvroWriteOptions {
  std::string schema;          // JSON, written as it is
  AvroMetadata metadata = {};  // beside avro.schema and avro.codec
  BlockCodec codec = BlockCodec::kDeflate;
  int level = 6;
  int64_t block_raw_bytes = 64'000;
};

// Writes a container. Nothing is visible before the caller closes the sink. One thread at a time.
class AvroFileWriter {
  struct Key {};  // only Open may construct

 public:
  AvroFileWriter(Key, AvroSchema schema, AvroWriteOptions options, ByteSink& sink)
      : schema_(std::move(schema)), options_(std::move(options)), sink_(sink) {}
  // Writes the header with a random sync marker. kInvalidArgument for a schema that does not parse.
  static Result<std::unique_ptr<AvroFileWriter>> Open(const Context& ctx, AvroWriteOptions options,
                                                      ByteSink& sink);

  const AvroSchema& schema() const { return schema_; }
  int64_t record_count() const { return record_count_; }
  // Written plus buffered plain bytes: what decides when to roll.
  int64_t bytes_estimated() const { return bytes_written_ + static_cast<int64_t>(raw_.size()); }

  // Adds one record's encoding; writes a block when enough have come together.
  Status Append(const Context& ctx, std::string_view datum);
  // The same, for a record that the caller encodes into the buffer itself: encode into buffer(),
  // then commit.
  std::string& buffer() { return raw_; }
  Status CommitRecord(const Context& ctx);
  // Writes what is buffered. Must be called before the sink is closed; may be called more than
  // once.
  Status Flush(const Context& ctx);

 private:
  Status WriteHeader(const Context& ctx);
  Status Put(const Context& ctx, std::string_view bytes);

  const AvroSchema schema_;
  const AvroWriteOptions options_;
  ByteSink& sink_;
  AvroSync sync_{};
  std::string raw_;
  std::string stored_;
  int64_t buffered_records_ = 0;
  int64_t record_count_ = 0;
  int64_t bytes_written_ = 0;
};

// Reads records of a bound struct one by one.
template <class T>
class AvroRecordReader {
 public:
  // The file's root may be the record or a union of null and the record.
  static Result<AvroRecordReader> Open(const Context& ctx, ByteSource& source,
                                       std::string file_name, const AvroBinding<T>& binding) {
    PF_ASSIGN(auto file, AvroFileReader::Open(ctx, source, std::move(file_name)));
    const AvroType* record = file->header().schema.RootRecord();
    if (record == nullptr) {
      return Status(Code::kCorruption, "read Avro: the root is no record: " + file->file_name());
    }
    PF_ASSIGN(AvroDecoder decoder,
              AvroDecoder::Compile(*record, binding.slots(), file->file_name()));
    return AvroRecordReader(std::move(file), std::move(decoder));
  }

  const AvroHeader& header() const { return file_->header(); }

  // Fills the next record; false at the end. `record` keeps its buffers from call to call; it must
  // be a fresh one or one that this reader filled. A null datum of a root union is passed over.
  Result<bool> Next(const Context& ctx, T& record) {
    while (true) {
      while (records_left_ == 0) {
        if (block_) PF_TRY(file_->CheckBlockEnd(*block_, *cursor_));
        PF_ASSIGN(block_, file_->NextBlock(ctx));
        if (!block_) return false;
        records_left_ = block_->record_count;
        cursor_.emplace(file_->KeepingCursorOf(*block_));
      }
      --records_left_;
      file_->BeginRecord();
      if (!SkipsNull()) {
        decoder_.Decode(*cursor_, &record);
        if (cursor_->ok()) return true;
      }
      if (!cursor_->ok()) return file_->CheckBlockEnd(*block_, *cursor_);
    }
  }

 private:
  AvroRecordReader(std::unique_ptr<AvroFileReader> file, AvroDecoder decoder)
      : file_(std::move(file)), decoder_(std::move(decoder)) {}

  // With a root union: reads the branch; true when it is the null one.
  bool SkipsNull() {
    const AvroType& root = file_->header().schema.root();
    if (root.kind != AvroKind::kUnion) return false;
    return static_cast<int>(cursor_->Index(2)) == root.NullBranch();
  }

  std::unique_ptr<AvroFileReader> file_;
  AvroDecoder decoder_;
  std::optional<AvroBlock> block_;
  std::optional<AvroCursor> cursor_;
  int64_t records_left_ = 0;
};

// Writes records of a bound struct.
template <class T>
class AvroRecordWriter {
 public:
  static Result<AvroRecordWriter> Open(const Context& ctx, AvroWriteOptions options, ByteSink& sink,
                                       const AvroBinding<T>& binding) {
    PF_ASSIGN(auto file, AvroFileWriter::Open(ctx, std::move(options), sink));
    PF_ASSIGN(AvroEncoder encoder, AvroEncoder::Compile(file->schema().root(), binding.slots()));
    return AvroRecordWriter(std::move(file), std::move(encoder));
  }

  Status Append(const Context& ctx, const T& record) {
    PF_TRY(encoder_.Encode(&record, file_->buffer()));
    return file_->CommitRecord(ctx);
  }
  Status Flush(const Context& ctx) { return file_->Flush(ctx); }
  int64_t record_count() const { return file_->record_count(); }
  int64_t bytes_estimated() const { return file_->bytes_estimated(); }

 private:
  AvroRecordWriter(std::unique_ptr<AvroFileWriter> file, AvroEncoder encoder)
      : file_(std::move(file)), encoder_(std::move(encoder)) {}
  std::unique_ptr<AvroFileWriter> file_;
  AvroEncoder encoder_;
};

}  // namespace partforge::data
