#include "data/orc_file.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "data/orc_decoder.h"

namespace partforge::data {
namespace {

constexpr int64_t kEndMs = 10'000;
constexpr int64_t kMemoryBytesMin = int64_t{32} << 20;
constexpr int64_t kReadBytesMax = int64_t{1} << 30;

// The same values with text as bytes: text that is no UTF-8 is passed on, like that of other
// formats, and must not stop the check of all else.
std::shared_ptr<arrow::ArrayData> TextAsBytes(const arrow::ArrayData& data) {
  auto copy = data.Copy();
  if (data.type->id() == arrow::Type::STRING) copy->type = arrow::binary();
  if (data.child_data.empty()) return copy;
  arrow::FieldVector fields;
  for (size_t i = 0; i < data.child_data.size(); ++i) {
    copy->child_data[i] = TextAsBytes(*data.child_data[i]);
    fields.push_back(data.type->field(static_cast<int>(i))->WithType(copy->child_data[i]->type));
  }
  switch (data.type->id()) {
    case arrow::Type::STRUCT:
      copy->type = arrow::struct_(fields);
      break;
    case arrow::Type::LIST:
      copy->type = arrow::list(fields[0]);
      break;
    case arrow::Type::MAP:
      copy->type = std::make_shared<arrow::MapType>(fields[0]);
      break;
    default:
      break;
  }
  return copy;
}

// The process may have been damaged before it wrote the batch: offsets and lengths are not believed
// before they are looked at.
Status CheckBatch(const arrow::RecordBatch& batch) {
  PF_ARROW_TRY(batch.Validate());
  for (const auto& column : batch.column_data()) {
    PF_ARROW_TRY(arrow::MakeArray(TextAsBytes(*column))->ValidateFull());
  }
  return {};
}

// A program whose main() does not know the word would otherwise start itself for ever.
Status CheckIsNoDecoder() {
  PF_ASSIGN(const std::string words, ReadFile("/proc/self/cmdline"));
  const size_t first = words.find('\0');
  if (first != std::string::npos && words.substr(first + 1).starts_with(kOrcDecoderWord)) {
    return Status(Code::kInternal,
                  fmt::format("this program does not know the word {}", kOrcDecoderWord));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<OrcFile>> OrcFile::Open(const Context& ctx, ByteSource& object,
                                               std::string file_name,
                                               const OrcDecoderOptions& options,
                                               ArrowMemory& memory) {
  auto file = std::make_unique<OrcFile>(Key{}, object, std::move(file_name), options, memory);
  PF_TRY(file->Start(ctx));
  return file;
}

Status OrcFile::Start(const Context& ctx) {
  PF_TRY(CheckIsNoDecoder());
  const int64_t free_bytes = memory_.available_bytes();
  const int64_t memory_bytes = std::clamp(free_bytes / 4, kMemoryBytesMin,
                                          std::max(options_.memory_bytes_max, kMemoryBytesMin));
  PF_ASSIGN(grant_, ctx.memory.TryReserve(memory_bytes));
  ProcessOptions process;
  process.argv = options_.argv;
  if (process.argv.empty()) process.argv = {SelfPath().string(), std::string(kOrcDecoderWord)};
  // It parses foreign bytes and needs none of our secrets.
  process.inherits_environment = false;
  process.inherited_names = {"LD_LIBRARY_PATH", "TZ", "TZDIR"};
  process.opens_channel = true;
  PF_ASSIGN(process_, ChildProcess::Start(process));
  OrcFrameWriter request;
  request.Number(object_.size_bytes()).Number(memory_bytes).Number(options_.batch_cpu_seconds_max);
  PF_TRY(Send(ctx, OrcFrame::kOpen, request.bytes()));
  std::shared_ptr<arrow::Buffer> bytes;
  PF_ASSIGN(const OrcFrame kind, Receive(ctx, bytes));
  if (kind != OrcFrame::kDescription) {
    return At(Status(Code::kCorruption, "the decoder answers out of turn"));
  }
  return At(CatchParquet([&] { return Describe(*bytes); }));
}

Status OrcFile::Describe(const arrow::Buffer& bytes) {
  OrcFrameReader fields{std::string_view(bytes)};
  row_count_ = fields.Number();
  codec_ = fields.Text();
  written_by_ = fields.Text();
  const int64_t count = fields.Number();
  for (int64_t i = 0; i < count && fields.ok(); ++i) {
    OrcStripe stripe;
    stripe.offset = fields.Number();
    stripe.length_bytes = fields.Number();
    stripe.first_row = fields.Number();
    stripe.row_count = fields.Number();
    if (stripe.row_count < 0 || stripe.first_row < 0) {
      return Status(Code::kCorruption, fmt::format("stripe {} has {} rows from row {}", i,
                                                   stripe.row_count, stripe.first_row));
    }
    stripes_.push_back(stripe);
  }
  const std::string_view schema = fields.Text();
  if (!fields.ok() || fields.left_bytes() > 0) {
    return Status(Code::kCorruption, "the decoder's description is cut");
  }
  arrow::io::BufferReader stream{std::make_shared<arrow::Buffer>(
      reinterpret_cast<const uint8_t*>(schema.data()), static_cast<int64_t>(schema.size()))};
  arrow::ipc::DictionaryMemo memo;
  PF_ARROW_ASSIGN(schema_, arrow::ipc::ReadSchema(&stream, &memo));
  return {};
}

Status OrcFile::StartStripe(const Context& ctx, int stripe, int64_t batch_rows,
                            const std::vector<int>& fields) {
  PF_CHECK(stripe >= 0 && static_cast<size_t>(stripe) < stripes_.size() && !fields.empty(),
           "a stripe that is not there");
  arrow::FieldVector chosen;
  OrcFrameWriter request;
  request.Number(stripes_[static_cast<size_t>(stripe)].first_row).Number(batch_rows);
  for (const int field : fields) {
    chosen.push_back(schema_->field(field));
    request.Number(field);
  }
  stripe_schema_ = arrow::schema(std::move(chosen));
  stripe_ = stripe;
  return Send(ctx, OrcFrame::kStripe, request.bytes());
}

Result<std::shared_ptr<arrow::RecordBatch>> OrcFile::Next(const Context& ctx) {
  std::shared_ptr<arrow::Buffer> bytes;
  PF_ASSIGN(const OrcFrame kind, Receive(ctx, bytes));
  if (kind == OrcFrame::kStripeEnd) return std::shared_ptr<arrow::RecordBatch>();
  if (kind != OrcFrame::kBatch) {
    return At(Status(Code::kCorruption, "the decoder answers out of turn"));
  }
  std::shared_ptr<arrow::RecordBatch> batch;
  PF_TRY(At(CatchParquet([&]() -> Status {
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.memory_pool = memory_.pool();
    options.use_threads = false;
    arrow::io::BufferReader stream(bytes);
    const arrow::ipc::DictionaryMemo memo;
    PF_ARROW_ASSIGN(batch, arrow::ipc::ReadRecordBatch(stripe_schema_, &memo, options, &stream));
    return CheckBatch(*batch);
  })));
  return batch;
}

Status OrcFile::Send(const Context& ctx, OrcFrame kind, std::string_view bytes) {
  const std::string head =
      EncodeFrameHead({.kind = kind, .length = static_cast<int64_t>(bytes.size())});
  Status status = process_->Send(ctx, std::as_bytes(std::span(head)), options_.silence_ms_max);
  if (status.ok())
    status = process_->Send(ctx, std::as_bytes(std::span(bytes)), options_.silence_ms_max);
  return status.ok() ? status : Lost(ctx, status);
}

Result<OrcFrame> OrcFile::Receive(const Context& ctx, std::shared_ptr<arrow::Buffer>& bytes) {
  while (true) {
    std::array<std::byte, OrcFrameHead::kBytes> head_bytes{};
    Status status = process_->Receive(ctx, head_bytes, options_.silence_ms_max);
    if (!status.ok()) return Lost(ctx, status);
    const auto head = DecodeFrameHead(head_bytes, grant_.size_bytes());
    if (!head.ok()) return At(head.status());
    auto buffer = arrow::AllocateBuffer(head->length, memory_.pool());
    if (!buffer.ok()) return At(FromArrow(buffer.status()));
    bytes = std::move(buffer).MoveValueUnsafe();
    status = process_->Receive(
        ctx,
        std::as_writable_bytes(std::span(bytes->mutable_data(), static_cast<size_t>(head->length))),
        options_.silence_ms_max);
    if (!status.ok()) return Lost(ctx, status);
    if (head->kind == OrcFrame::kRead) {
      PF_TRY(Serve(ctx, *bytes));
      continue;
    }
    // Whatever it says after bytes that it did not get.
    if (!read_failure_.ok()) return At(read_failure_);
    if (head->kind != OrcFrame::kFailure) return head->kind;
    OrcFrameReader fields{std::string_view(*bytes)};
    const auto code = static_cast<Code>(std::clamp<int64_t>(fields.Number(), 0, 11));
    return At(Status(code, std::string(fields.Text())));
  }
}

Status OrcFile::Serve(const Context& ctx, const arrow::Buffer& request) {
  OrcFrameReader fields{std::string_view(request)};
  const int64_t offset = fields.Number(), length = fields.Number();
  const int64_t size = object_.size_bytes();
  if (!fields.ok() || offset < 0 || length <= 0 || length > kReadBytesMax || offset > size ||
      length > size - offset) {
    return At(Status(Code::kCorruption,
                     fmt::format("the decoder wants {} bytes at {} of {}", length, offset, size)));
  }
  auto buffer = arrow::AllocateBuffer(length, memory_.pool());
  if (!buffer.ok()) return At(FromArrow(buffer.status()));
  const auto bytes =
      std::as_writable_bytes(std::span((*buffer)->mutable_data(), static_cast<size_t>(length)));
  if (Status status = object_.ReadAt(ctx, offset, bytes); !status.ok()) {
    read_failure_ = std::move(status);
    return Send(ctx, OrcFrame::kBytes, "");
  }
  return Send(ctx, OrcFrame::kBytes, std::string_view(**buffer));
}

Status OrcFile::Lost(const Context& ctx, const Status& status) {
  if (status.code() != Code::kUnavailable) return At(status);
  const auto ended = process_->Wait(ctx, std::min(kEndMs, options_.silence_ms_max));
  if (!ended.ok()) return At(status);
  switch (ended->signal_number) {
    case 0:
      // Not by itself: it ends when we close the channel, or when what it received makes no sense.
      return At(Status(ended->exit_code == 0 ? Code::kInternal : Code::kCorruption,
                       fmt::format("its bytes made the decoder end: {}", ended->ToString())));
    case SIGKILL:  // by the kernel for want of memory, or by a person: the file is not to blame
    case SIGTERM:
      return At(
          Status(Code::kUnavailable, fmt::format("the decoder ended with {}", ended->ToString())));
    case SIGXCPU:
      return At(Status(Code::kCorruption,
                       fmt::format("its bytes keep the decoder busy for more than {} s",
                                   options_.batch_cpu_seconds_max)));
    default:
      return At(Status(Code::kCorruption,
                       fmt::format("its bytes broke the decoder: {}", ended->ToString())));
  }
}

Status OrcFile::At(Status status) const {
  if (status.ok()) return status;
  if (stripe_ < 0) return std::move(status).With(fmt::format("read ORC {}", file_name_));
  const OrcStripe& stripe = stripes_[static_cast<size_t>(stripe_)];
  return std::move(status).With(
      fmt::format("read ORC {}, stripe {} at offset {}", file_name_, stripe_, stripe.offset));
}

}  // namespace partforge::data
