#include "data/lookup_file.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"
#include "data/scan_spec.h"
#include "data/spill.h"

namespace partforge::data {
namespace {

// File: blocks, each compressed bytes and the CRC-32C of them; the index; the footer.
// Footer: index offset, index length, rows, flags (8 bytes each), CRC-32C of the index, version,
// reserved (4 each), magic.
constexpr std::string_view kMagic = "PFLK";
constexpr uint32_t kVersion = 1;
constexpr int64_t kFooterBytes = 48;
constexpr int64_t kCrcBytes = 4;
constexpr int64_t kBlockRawBytes = 64 << 10;
constexpr int kZstdLevel = 1;
constexpr uint64_t kHasPositions = 1;
constexpr int kCodecShift = 8;

template <class T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void PutText(std::string& bytes, std::string_view text) {
  Put(bytes, static_cast<uint32_t>(text.size()));
  bytes.append(text);
}

// Takes numbers and texts off; after a value that is not there all others are 0 and empty.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : left_(bytes) {}
  template <class T>
  T Number() {
    T value{};
    const auto taken = Take(sizeof value);
    if (is_ok_) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  std::string_view Text() {
    const auto taken = Take(Number<uint32_t>());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  bool ok() const { return is_ok_; }
  size_t left() const { return left_.size(); }

 private:
  std::span<const std::byte> Take(size_t count) {
    if (!is_ok_ || count > left_.size()) {
      is_ok_ = false;
      return {};
    }
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  std::span<const std::byte> left_;
  bool is_ok_ = true;
};

uint64_t FlagsOf(const LookupIdentity& identity) {
  return (identity.has_positions ? kHasPositions : 0) |
         (static_cast<uint64_t>(identity.codec) << kCodecShift);
}

Status Damaged(std::string_view what) {
  return Status(Code::kCorruption, fmt::format("read a lookup file: {}", what));
}

Status TooLarge(const LookupLimits& limits, std::string_view what, int64_t bytes) {
  return Status(Code::kExhausted, fmt::format("lookup: {} of {} bytes is above {} = {}", what,
                                              bytes, limits.option, limits.memory_bytes_max));
}

Result<arrow::ipc::IpcWriteOptions> PlainWriteOptions(ArrowMemory& memory) {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.memory_pool = memory.pool();
  options.use_threads = false;
  return options;
}

class Writer {
 public:
  Writer(const LookupIdentity& identity, const LookupLimits& limits, ByteSink& out,
         ArrowMemory& memory)
      : identity_(identity), limits_(limits), out_(out), memory_(memory) {}

  Status Add(const Context& ctx, const arrow::RecordBatch& batch, const EncodedKeys& keys) {
    const int64_t bytes = BatchBytes(batch);
    if (bytes > limits_.memory_bytes_max) return TooLarge(limits_, "a batch", bytes);
    for (size_t i = 0; i < keys.count(); ++i) {
      const std::string_view before = i == 0 ? std::string_view(last_key_) : keys[i - 1];
      if ((i > 0 || row_count_ > 0) && !(before < keys[i])) {
        return Status(Code::kInvalidArgument,
                      fmt::format("write a lookup file: rows are not in the order of their keys, "
                                  "or a key is there twice: row {} of {}",
                                  row_count_ + static_cast<int64_t>(i), identity_.data_file));
      }
    }
    if (keys.count() > 0) last_key_ = keys[keys.count() - 1];
    const double row_bytes = static_cast<double>(std::max<int64_t>(bytes, 1)) /
                             static_cast<double>(std::max<int64_t>(batch.num_rows(), 1));
    const auto step = std::max<int64_t>(
        1, static_cast<int64_t>(static_cast<double>(kBlockRawBytes) * 0.8 / row_bytes));
    for (int64_t begin = 0; begin < batch.num_rows();) {
      int64_t count = std::min(step, batch.num_rows() - begin);
      PF_TRY(AddBlock(ctx, batch, begin, count, keys[static_cast<size_t>(begin)]));
      begin += count;
    }
    row_count_ += batch.num_rows();
    return {};
  }

  Status Finish(const Context& ctx) {
    std::string index;
    PutText(index, identity_.ToText());
    Put(index, block_count_);
    index += entries_;
    std::string footer;
    Put(footer, offset_);
    Put(footer, static_cast<int64_t>(index.size()));
    Put(footer, row_count_);
    Put(footer, FlagsOf(identity_));
    Put(footer, Crc32c(AsBytes(index)));
    Put(footer, kVersion);
    Put(footer, uint32_t{0});
    footer += kMagic;
    PF_CHECK(static_cast<int64_t>(footer.size()) == kFooterBytes, "a footer of another size");
    PF_TRY(out_.Append(ctx, AsBytes(index)));
    return out_.Append(ctx, AsBytes(footer));
  }

  int64_t row_count() const { return row_count_; }

 private:
  // At most `count` rows, fewer when they take more than a block; `count` becomes what was written.
  Status AddBlock(const Context& ctx, const arrow::RecordBatch& batch, int64_t begin,
                  int64_t& count, std::string_view first_key) {
    PF_ASSIGN(const auto options, PlainWriteOptions(memory_));
    std::shared_ptr<arrow::Buffer> raw;
    while (true) {
      PF_ARROW_ASSIGN(raw, arrow::ipc::SerializeRecordBatch(*batch.Slice(begin, count), options));
      if (raw->size() <= kBlockRawBytes || count == 1) break;
      count /= 2;
    }
    if (raw->size() > limits_.memory_bytes_max) return TooLarge(limits_, "a row", raw->size());
    const auto bytes = std::as_bytes(std::span(raw->data(), static_cast<size_t>(raw->size())));
    std::string stored;
    PF_TRY(CompressBlock(identity_.codec, bytes, kZstdLevel, stored));
    PutText(entries_, first_key);
    Put(entries_, offset_);
    Put(entries_, static_cast<uint32_t>(stored.size()));
    Put(entries_, static_cast<uint32_t>(raw->size()));
    Put(entries_, static_cast<uint32_t>(count));
    if (static_cast<int64_t>(entries_.size()) > limits_.memory_bytes_max) {
      return TooLarge(limits_, "an index", static_cast<int64_t>(entries_.size()));
    }
    Put(stored, Crc32c(AsBytes(stored)));
    offset_ += static_cast<int64_t>(stored.size());
    ++block_count_;
    return out_.Append(ctx, AsBytes(stored));
  }

  const LookupIdentity& identity_;
  const LookupLimits& limits_;
  ByteSink& out_;
  ArrowMemory& memory_;
  std::string entries_;
  std::string last_key_;
  uint32_t block_count_ = 0;
  int64_t offset_ = 0;
  int64_t row_count_ = 0;
};

}  // namespace

std::string LookupIdentity::ToText() const {
  return fmt::format("{}\n{} {} {} {}", data_file, size_bytes, schema_id, static_cast<int>(codec),
                     has_positions ? 1 : 0);
}

Result<int64_t> WriteLookupFile(const Context& ctx, BatchSource& rows, const KeyEncoder& keys,
                                const LookupIdentity& identity, const LookupLimits& limits,
                                ByteSink& out, ArrowMemory& memory) {
  if (HasDictionaries(*rows.schema())) {
    return Status(Code::kRefused,
                  fmt::format("write a lookup file: dictionary columns must be read as values: {}",
                              rows.schema()->ToString()));
  }
  Writer writer(identity, limits, out, memory);
  while (true) {
    PF_ASSIGN(const auto batch, rows.Next(ctx));
    if (batch == nullptr) break;
    PF_ASSIGN(const EncodedKeys batch_keys, keys.Encode(*batch));
    PF_TRY(writer.Add(ctx, *batch, batch_keys));
  }
  PF_TRY(writer.Finish(ctx));
  return writer.row_count();
}

Result<std::shared_ptr<const LookupFile>> LookupFile::Open(const Context& ctx,
                                                           std::unique_ptr<ByteSource> file,
                                                           const LookupIdentity& identity,
                                                           std::shared_ptr<arrow::Schema> schema,
                                                           const LookupLimits& limits) {
  const int64_t size = file->size_bytes();
  if (size < kFooterBytes) return Damaged("it is shorter than its footer");
  std::array<std::byte, kFooterBytes> footer_bytes{};
  PF_TRY(file->ReadAt(ctx, size - kFooterBytes, footer_bytes));
  Bytes footer(footer_bytes);
  const auto index_offset = footer.Number<int64_t>();
  const auto index_length = footer.Number<int64_t>();
  const auto row_count = footer.Number<int64_t>();
  const auto flags = footer.Number<uint64_t>();
  const auto crc = footer.Number<uint32_t>();
  const auto version = footer.Number<uint32_t>();
  if (std::memcmp(footer_bytes.data() + kFooterBytes - 4, kMagic.data(), kMagic.size()) != 0) {
    return Damaged("its magic is wrong");
  }
  if (version != kVersion || flags != FlagsOf(identity)) {
    return Status(Code::kNotFound, "lookup file of another version or another kind");
  }
  if (index_offset < 0 || index_length < 0 || index_offset > size - kFooterBytes ||
      index_length != size - kFooterBytes - index_offset) {
    return Damaged("its index is outside of it");
  }
  auto opened = std::make_shared<LookupFile>(Key{});
  // As strings of their own the keys take more than in the file.
  opened->index_bytes_ = 2 * index_length;
  if (opened->index_bytes_ > limits.memory_bytes_max) {
    return TooLarge(limits, "an index", opened->index_bytes_);
  }
  PF_ASSIGN(opened->grant_, ctx.memory.TryReserve(opened->index_bytes_));
  std::string index(static_cast<size_t>(index_length), '\0');
  PF_TRY(file->ReadAt(ctx, index_offset, std::as_writable_bytes(std::span(index))));
  if (Crc32c(AsBytes(index)) != crc) return Damaged("the checksum of its index is wrong");
  opened->row_count_ = row_count;
  opened->codec_ = identity.codec;
  opened->limits_ = limits;
  opened->schema_ = std::move(schema);
  opened->file_ = std::move(file);
  PF_TRY(opened->ParseIndex(AsBytes(index), index_offset, identity));
  return std::shared_ptr<const LookupFile>(std::move(opened));
}

Status LookupFile::ParseIndex(std::span<const std::byte> bytes, int64_t index_offset,
                              const LookupIdentity& identity) {
  Bytes fields(bytes);
  if (fields.Text() != identity.ToText()) {
    return Status(Code::kNotFound, "lookup file of another data file");
  }
  const auto count = fields.Number<uint32_t>();
  int64_t rows = 0, offset = 0;
  for (uint32_t i = 0; i < count && fields.ok(); ++i) {
    Block block;
    block.first_key = fields.Text();
    block.offset = fields.Number<int64_t>();
    block.stored_bytes = fields.Number<uint32_t>();
    block.raw_bytes = fields.Number<uint32_t>();
    block.row_count = fields.Number<uint32_t>();
    if (!fields.ok()) break;
    if (block.offset != offset || block.row_count == 0 ||
        (i > 0 && !(blocks_.back().first_key < block.first_key))) {
      return Damaged(fmt::format("block {} is out of place", i));
    }
    offset += block.stored_bytes + kCrcBytes;
    rows += block.row_count;
    blocks_.push_back(std::move(block));
  }
  if (!fields.ok() || fields.left() > 0 || offset != index_offset || rows != row_count_) {
    return Damaged("its index does not fit its blocks");
  }
  return {};
}

Result<std::optional<FoundRow>> LookupCursor::Find(const Context& ctx, std::string_view key) {
  const auto& blocks = file_->blocks_;
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), key,
                                      [](std::string_view wanted, const LookupFile::Block& block) {
                                        return wanted < block.first_key;
                                      });
  if (after == blocks.begin()) return std::optional<FoundRow>();
  PF_TRY(Load(ctx, static_cast<size_t>(after - blocks.begin() - 1)));
  size_t low = 0, high = batch_keys_.count();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (batch_keys_[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == batch_keys_.count() || batch_keys_[low] != key) return std::optional<FoundRow>();
  return std::optional(FoundRow{.batch = batch_, .row = static_cast<int64_t>(low)});
}

Status LookupCursor::Load(const Context& ctx, size_t index) {
  if (block_ == index) return {};
  block_.reset();
  batch_.reset();
  const LookupFile::Block& block = file_->blocks_[index];
  const int64_t held = file_->index_bytes_ + block.raw_bytes + block.stored_bytes;
  if (held > file_->limits_.memory_bytes_max) {
    return TooLarge(file_->limits_, "an index and a block", held);
  }
  ++blocks_read_;
  PF_ASSIGN(const MemoryGrant grant, ctx.memory.TryReserve(block.stored_bytes + block.raw_bytes));
  std::string stored(block.stored_bytes + static_cast<size_t>(kCrcBytes), '\0');
  PF_TRY(file_->file_->ReadAt(ctx, block.offset, std::as_writable_bytes(std::span(stored))));
  uint32_t crc = 0;
  std::memcpy(&crc, stored.data() + block.stored_bytes, sizeof crc);
  const auto bytes = AsBytes(stored).first(block.stored_bytes);
  if (Crc32c(bytes) != crc) return Damaged(fmt::format("the checksum of block {} is wrong", index));
  std::string raw;
  PF_TRY(DecompressBlock(file_->codec_, bytes,
                         {.stored_bytes_max = block.stored_bytes, .raw_bytes_max = block.raw_bytes},
                         "a lookup block", raw));
  return CatchParquet([&]() -> Status {
    // The batch keeps the bytes it is made of.
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> buffer,
                    arrow::AllocateBuffer(static_cast<int64_t>(raw.size()), memory_->pool()));
    std::memcpy(buffer->mutable_data(), raw.data(), raw.size());
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.memory_pool = memory_->pool();
    options.use_threads = false;
    arrow::io::BufferReader stream(buffer);
    const arrow::ipc::DictionaryMemo memo;
    PF_ARROW_ASSIGN(auto batch,
                    arrow::ipc::ReadRecordBatch(file_->schema_, &memo, options, &stream));
    PF_ARROW_TRY(batch->Validate());
    if (batch->num_rows() != block.row_count) {
      return Damaged(fmt::format("block {} has {} rows, the index says {}", index,
                                 batch->num_rows(), block.row_count));
    }
    PF_ASSIGN(batch_keys_, keys_->Encode(*batch));
    if (batch_keys_[0] != block.first_key) {
      return Damaged(fmt::format("block {} begins with another key than the index says", index));
    }
    batch_ = std::move(batch);
    block_ = index;
    return {};
  });
}

}  // namespace partforge::data
