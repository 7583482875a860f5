#include "data/spill.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/extension_type.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"

namespace partforge::data {
namespace {

constexpr std::array<char, 4> kMagic = {'P', 'F', 'S', 'P'};
constexpr uint32_t kVersion = 1;
constexpr int kNameTries = 16;

Result<arrow::ipc::IpcWriteOptions> WriteOptions(ArrowMemory& memory) {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.memory_pool = memory.pool();
  options.use_threads = false;
  // Levels below zero leave more bytes unlooked at: at this one files are a quarter larger than at
  // the usual one, and compressing them takes 0.6 of the time (docs/benchmarks.md).
  constexpr int kSpillLevel = -64;
  PF_ARROW_ASSIGN(options.codec,
                  arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME, kSpillLevel));
  return options;
}

bool IsOrHasDictionary(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) return true;
  if (type.id() == arrow::Type::EXTENSION) {
    return IsOrHasDictionary(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  const auto& fields = type.fields();
  return std::any_of(fields.begin(), fields.end(),
                     [](const auto& field) { return IsOrHasDictionary(*field->type()); });
}

// Dictionaries are messages of their own: a batch that has one is a stream of one batch.
Result<std::shared_ptr<arrow::Buffer>> Serialize(const arrow::RecordBatch& batch,
                                                 const arrow::ipc::IpcWriteOptions& options) {
  if (!HasDictionaries(*batch.schema())) {
    PF_ARROW_ASSIGN(auto message, arrow::ipc::SerializeRecordBatch(batch, options));
    return message;
  }
  constexpr int64_t kFirstBytes = 4096;
  PF_ARROW_ASSIGN(const auto stream,
                  arrow::io::BufferOutputStream::Create(kFirstBytes, options.memory_pool));
  PF_ARROW_ASSIGN(const auto writer, arrow::ipc::MakeStreamWriter(stream, batch.schema(), options));
  PF_ARROW_TRY(writer->WriteRecordBatch(batch));
  PF_ARROW_TRY(writer->Close());
  PF_ARROW_ASSIGN(auto message, stream->Finish());
  return message;
}

// The batch of a stream, which names its own types: extensions that are not registered come back as
// what they are stored as.
Result<std::shared_ptr<arrow::RecordBatch>> ParseStream(
    arrow::io::InputStream& stream, const arrow::ipc::IpcReadOptions& options,
    const std::shared_ptr<arrow::Schema>& schema) {
  PF_ARROW_ASSIGN(const auto reader, arrow::ipc::RecordBatchStreamReader::Open(&stream, options));
  std::shared_ptr<arrow::RecordBatch> batch;
  PF_ARROW_TRY(reader->ReadNext(&batch));
  if (batch == nullptr || batch->num_columns() != schema->num_fields()) {
    return Status(Code::kCorruption, "it is of another schema");
  }
  arrow::ArrayVector columns = batch->columns();
  for (int i = 0; i < schema->num_fields(); ++i) {
    const auto& type = schema->field(i)->type();
    auto& column = columns[static_cast<size_t>(i)];
    if (type->id() == arrow::Type::EXTENSION && column->type_id() != arrow::Type::EXTENSION) {
      const auto& storage = static_cast<const arrow::ExtensionType&>(*type).storage_type();
      if (column->type()->Equals(storage)) column = arrow::ExtensionType::WrapArray(type, column);
    }
    if (!column->type()->Equals(type)) {
      return Status(Code::kCorruption, "it is of another schema");
    }
  }
  return arrow::RecordBatch::Make(schema, batch->num_rows(), std::move(columns));
}

}  // namespace

bool HasDictionaries(const arrow::Schema& schema) {
  const auto& fields = schema.fields();
  return std::any_of(fields.begin(), fields.end(),
                     [](const auto& field) { return IsOrHasDictionary(*field->type()); });
}

Result<std::unique_ptr<SpillFile>> SpillFile::Create(const Context& ctx, SpillSpace& space,
                                                     std::shared_ptr<arrow::Schema> schema,
                                                     ArrowMemory& memory) {
  std::unique_ptr<SpillFile> file(
      std::make_unique<SpillFile>(Key{}, space, std::move(schema), memory));
  // A name that two processes could both draw is refused by O_EXCL, and lost at once.
  for (int attempt = 0; attempt < kNameTries; ++attempt) {
    const auto path = space.directory_ / fmt::format("spill-{:016x}", ctx.random.Next());
    auto fd = OpenFile(path, O_RDWR | O_CREAT | O_EXCL);
    if (!fd.ok() && fd.status().code() == Code::kAlreadyExists) continue;
    if (!fd.ok()) return fd.status();
    file->fd_ = std::move(fd).value();
    PF_TRY(RemoveTree(path));
    break;
  }
  if (!file->fd_.is_open()) {
    return Status(Code::kInternal, "create a spill file: no free name was found");
  }
  std::string header(kMagic.data(), kMagic.size());
  header.append(reinterpret_cast<const char*>(&kVersion), sizeof kVersion);
  const auto pid = static_cast<int64_t>(::getpid());
  header.append(reinterpret_cast<const char*>(&pid), sizeof pid);
  PF_TRY(file->Write(AsBytes(header)));
  return file;
}

SpillFile::~SpillFile() {
  space_.used_bytes_.fetch_sub(size_bytes_);
}

Status SpillFile::Write(std::span<const std::byte> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (space_.used_bytes_.fetch_add(size) + size > space_.bytes_max_) {
    space_.used_bytes_.fetch_sub(size);
    return Status(Code::kExhausted,
                  fmt::format("spill to {}: above {} bytes (raise --work-dir-max-bytes)",
                              space_.directory_.string(), space_.bytes_max_));
  }
  space_.total_bytes_.fetch_add(size);
  size_bytes_ += size;
  return WriteAll(fd_.get(), bytes);
}

Status SpillFile::Append(const Context& ctx, const arrow::RecordBatch& batch) {
  PF_TRY(ctx.CheckStop("spilling"));
  PF_ASSIGN(const auto options, WriteOptions(memory_));
  PF_ASSIGN(const auto message, Serialize(batch, options));
  const auto bytes =
      std::as_bytes(std::span(message->data(), static_cast<size_t>(message->size())));
  const auto length = static_cast<int64_t>(bytes.size());
  const uint32_t crc = Crc32c(bytes);
  PF_TRY(Write(std::as_bytes(std::span(&length, 1))));
  batches_.push_back({.offset = size_bytes_, .length = length});
  PF_TRY(Write(bytes));
  PF_TRY(Write(std::as_bytes(std::span(&crc, 1))));
  row_count_ += batch.num_rows();
  return {};
}

Status SpillFile::AppendAll(const Context& ctx, BatchSource& rows) {
  while (true) {
    PF_ASSIGN(const auto batch, rows.Next(ctx));
    if (batch == nullptr) return {};
    PF_TRY(Append(ctx, *batch));
  }
}

class SpillFile::Reader final : public BatchSource {
 public:
  explicit Reader(std::unique_ptr<SpillFile> file) : file_(std::move(file)) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return file_->schema_; }

  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override {
    PF_TRY(ctx.CheckStop("reading spilled rows"));
    if (next_ == file_->batches_.size()) return std::shared_ptr<arrow::RecordBatch>();
    const Place place = file_->batches_[next_++];
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> buffer,
                    arrow::AllocateBuffer(place.length, file_->memory_.pool()));
    const auto bytes = std::as_writable_bytes(
        std::span(buffer->mutable_data(), static_cast<size_t>(place.length)));
    PF_TRY(ReadAt(file_->fd_.get(), place.offset, bytes));
    uint32_t crc = 0;
    PF_TRY(ReadAt(file_->fd_.get(), place.offset + place.length,
                  std::as_writable_bytes(std::span(&crc, 1))));
    auto batch = ParseSpilledBatch(buffer, crc, file_->schema_, file_->memory_);
    if (batch.ok()) return batch;
    return Status(batch.status()).With(fmt::format("read spilled rows, batch {}", next_ - 1));
  }

 private:
  const std::unique_ptr<SpillFile> file_;
  size_t next_ = 0;
};

Result<std::unique_ptr<BatchSource>> SpillFile::Read(std::unique_ptr<SpillFile> file) {
  return std::unique_ptr<BatchSource>(std::make_unique<Reader>(std::move(file)));
}

Result<std::shared_ptr<arrow::RecordBatch>> ParseSpilledBatch(
    const std::shared_ptr<arrow::Buffer>& bytes, uint32_t crc,
    const std::shared_ptr<arrow::Schema>& schema, ArrowMemory& memory) {
  if (crc != Crc32c(std::as_bytes(std::span(bytes->data(), static_cast<size_t>(bytes->size()))))) {
    return Status(Code::kCorruption, "the checksum is wrong");
  }
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = memory.pool();
  options.use_threads = false;
  arrow::io::BufferReader stream(bytes);
  std::shared_ptr<arrow::RecordBatch> batch;
  if (HasDictionaries(*schema)) {
    PF_ASSIGN(batch, ParseStream(stream, options, schema));
  } else {
    const arrow::ipc::DictionaryMemo memo;
    PF_ARROW_ASSIGN(batch, arrow::ipc::ReadRecordBatch(schema, &memo, options, &stream));
  }
  PF_ARROW_TRY(batch->Validate());
  return batch;
}

}  // namespace partforge::data
