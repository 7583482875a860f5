#include "data/orc_decoder.h"

#include <arrow/adapters/orc/adapter.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>
#include <arrow/util/thread_pool.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/process.h"
#include "data/arrow_edge.h"
#include "data/orc_wire.h"

namespace partforge::data {
namespace {

namespace orc = arrow::adapters::orc;

constexpr int64_t kRequestBytesMax = 1 << 20;

// The parent's end as frames.
class Parent {
 public:
  Status Send(OrcFrame kind, std::string_view bytes) {
    const std::string head =
        EncodeFrameHead({.kind = kind, .length = static_cast<int64_t>(bytes.size())});
    PF_TRY(channel_.Send(std::as_bytes(std::span(head))));
    return channel_.Send(std::as_bytes(std::span(bytes)));
  }
  // None when the parent has closed its end.
  Result<std::optional<OrcFrameHead>> ReceiveHead(int64_t length_max) {
    std::array<std::byte, OrcFrameHead::kBytes> bytes{};
    PF_ASSIGN(const bool has_more, channel_.Receive(bytes));
    if (!has_more) return std::optional<OrcFrameHead>();
    PF_ASSIGN(const OrcFrameHead head, DecodeFrameHead(bytes, length_max));
    return std::optional(head);
  }
  Status ReceiveInto(std::span<std::byte> out) {
    if (out.empty()) return {};
    PF_ASSIGN(const bool is_there, channel_.Receive(out));
    return is_there ? Status() : Status(Code::kUnavailable, "the parent has closed the channel");
  }

 private:
  ParentChannel channel_;
};

// The file, whose bytes the parent reads.
std::shared_ptr<arrow::io::RandomAccessFile> ParentFile(Parent& parent, int64_t size_bytes) {
  return FileForArrow(size_bytes, [&parent](int64_t offset, std::span<std::byte> out) -> Status {
    const auto length = static_cast<int64_t>(out.size());
    OrcFrameWriter request;
    request.Number(offset).Number(length);
    PF_TRY(parent.Send(OrcFrame::kRead, request.bytes()));
    PF_ASSIGN(const auto head, parent.ReceiveHead(length));
    if (!head || head->kind != OrcFrame::kBytes || head->length != length) {
      return Status(Code::kUnavailable, "the parent could not read the file");
    }
    return parent.ReceiveInto(out);
  });
}

class Decoder {
 public:
  Status Run() {
    PF_ASSIGN(auto head, parent_.ReceiveHead(kRequestBytesMax));
    if (!head) return {};
    PF_ASSIGN(const std::string request, ReceiveText(*head));
    OrcFrameReader fields(request);
    const int64_t size_bytes = fields.Number(), memory_bytes = fields.Number();
    batch_cpu_seconds_ = fields.Number();
    if (head->kind != OrcFrame::kOpen || !fields.ok()) {
      return Status(Code::kInternal, "decode ORC: the first frame opens no file");
    }
    // One thread is enough here, and threads have memory of their own.
    PF_ARROW_TRY(arrow::SetCpuThreadPoolCapacity(1));
    PF_TRY(LimitOwnMemory(memory_bytes));
    PF_TRY(Answer([&] { return Open(size_bytes); }));
    while (true) {
      PF_ASSIGN(head, parent_.ReceiveHead(kRequestBytesMax));
      if (!head) return {};
      PF_ASSIGN(const std::string stripe, ReceiveText(*head));
      if (head->kind != OrcFrame::kStripe) {
        return Status(Code::kInternal, "decode ORC: a frame that asks for no stripe");
      }
      PF_TRY(Answer([&] { return DecodeStripe(stripe); }));
    }
  }

 private:
  Result<std::string> ReceiveText(const OrcFrameHead& head) {
    std::string text(static_cast<size_t>(head.length), '\0');
    PF_TRY(parent_.ReceiveInto(std::as_writable_bytes(std::span(text))));
    return text;
  }

  // Runs a step; what it says went wrong is told to the parent and no reason to end.
  template <class Step>
  Status Answer(Step&& step) {
    const Status status = CatchParquet([&]() -> Status { return step(); });
    if (status.ok()) return {};
    // Whatever the library calls it, the file is why.
    const bool is_kept = status.code() == Code::kExhausted || status.code() == Code::kRefused;
    OrcFrameWriter failure;
    failure.Number(static_cast<int64_t>(is_kept ? status.code() : Code::kCorruption))
        .Text(status.message());
    return parent_.Send(OrcFrame::kFailure, failure.bytes());
  }

  Status Open(int64_t size_bytes) {
    PF_TRY(LimitOwnCpu(batch_cpu_seconds_));
    PF_ARROW_ASSIGN(reader_, orc::ORCFileReader::Open(ParentFile(parent_, size_bytes),
                                                      arrow::system_memory_pool()));
    PF_ARROW_ASSIGN(schema_, reader_->ReadSchema());
    PF_ARROW_ASSIGN(const auto codec, reader_->GetCompression());
    OrcFrameWriter description;
    description.Number(reader_->NumberOfRows())
        .Text(arrow::util::Codec::GetCodecAsString(codec))
        .Text(reader_->GetSoftwareVersion());
    const int64_t stripes = reader_->NumberOfStripes();
    description.Number(stripes);
    for (int64_t i = 0; i < stripes; ++i) {
      const auto stripe = reader_->GetStripeInformation(i);
      description.Number(stripe.offset).Number(stripe.length);
      description.Number(stripe.first_row_id).Number(stripe.num_rows);
    }
    PF_ARROW_ASSIGN(const auto schema, arrow::ipc::SerializeSchema(*schema_));
    description.Text(std::string_view(*schema));
    return parent_.Send(OrcFrame::kDescription, description.bytes());
  }

  Status DecodeStripe(std::string_view request) {
    OrcFrameReader asked(request);
    const int64_t first_row = asked.Number(), batch_rows = asked.Number();
    std::vector<int> fields;
    while (asked.ok() && asked.left_bytes() > 0) fields.push_back(static_cast<int>(asked.Number()));
    PF_CHECK(asked.ok(), "a stripe that is not named");
    // The parent asks for none when the file could not be opened.
    if (reader_ == nullptr) return Status(Code::kCorruption, "the file was not opened");
    PF_TRY(LimitOwnCpu(batch_cpu_seconds_));
    PF_ARROW_TRY(reader_->Seek(first_row));
    PF_ARROW_ASSIGN(const auto batches, reader_->NextStripeReader(batch_rows, fields));
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.memory_pool = arrow::system_memory_pool();
    options.use_threads = false;
    while (batches != nullptr) {
      PF_TRY(LimitOwnCpu(batch_cpu_seconds_));
      std::shared_ptr<arrow::RecordBatch> batch;
      PF_ARROW_TRY(batches->ReadNext(&batch));
      if (batch == nullptr || batch->num_rows() == 0) break;
      PF_ARROW_ASSIGN(const auto message, arrow::ipc::SerializeRecordBatch(*batch, options));
      PF_TRY(parent_.Send(OrcFrame::kBatch, std::string_view(*message)));
    }
    return parent_.Send(OrcFrame::kStripeEnd, "");
  }

  Parent parent_;
  int64_t batch_cpu_seconds_ = 0;
  std::unique_ptr<orc::ORCFileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

int RunOrcDecoder() {
  ForbidCoreFiles();
  // What is left to say after the last frame, nobody hears: the exit code says it.
  return Decoder().Run().ok() ? 0 : 1;
}

}  // namespace partforge::data
