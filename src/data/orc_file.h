#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "data/arrow_edge.h"
#include "data/orc_wire.h"
#include "store/object_store.h"

namespace arrow {
class Buffer;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

struct OrcStripe {
  int64_t offset = 0, length_bytes = 0;
  int64_t first_row = 0, row_count = 0;
};

// How the process that decodes is started and bounded.
struct OrcDecoderOptions {
  std::vector<std::string> argv = {};             // empty: this program and kOrcDecoderWord
  int64_t memory_bytes_max = int64_t{512} << 20;  // a quarter of what is free, if less
  int64_t batch_cpu_seconds_max = 60;             // for opening the file, or one batch
  // A process that says nothing for so long hangs: kUnavailable. Longer than a batch may take.
  int64_t silence_ms_max = 600'000;
};

// An ORC file that a process of its own decodes (orc_decoder.h): whatever its bytes do there is
// kCorruption here, with the file and the stripe. What the process may take is reserved in
// ctx.memory. One thread at a time.
class OrcFile {
  struct Key {};  // only Open may construct

 public:
  OrcFile(Key, ByteSource& object, std::string file_name, const OrcDecoderOptions& options,
          ArrowMemory& memory)
      : object_(object), file_name_(std::move(file_name)), options_(options), memory_(memory) {}
  // `object` and `memory` must outlive the file.
  static Result<std::unique_ptr<OrcFile>> Open(const Context& ctx, ByteSource& object,
                                               std::string file_name,
                                               const OrcDecoderOptions& options,
                                               ArrowMemory& memory);

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  int64_t row_count() const { return row_count_; }
  const std::string& codec() const { return codec_; }
  const std::string& written_by() const { return written_by_; }
  const std::vector<OrcStripe>& stripes() const { return stripes_; }

  // Begins a stripe: top-level columns by number, ascending, at least one. The process decodes
  // ahead of what is asked for.
  Status StartStripe(const Context& ctx, int stripe, int64_t batch_rows,
                     const std::vector<int>& fields);
  // The next rows of the stripe, valid in every part; null at its end.
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx);

 private:
  Status Start(const Context& ctx);
  Status Describe(const arrow::Buffer& bytes);
  Status Send(const Context& ctx, OrcFrame kind, std::string_view bytes);
  // The next frame that is no request for bytes, and its bytes.
  Result<OrcFrame> Receive(const Context& ctx, std::shared_ptr<arrow::Buffer>& bytes);
  Status Serve(const Context& ctx, const arrow::Buffer& request);
  // Why the process does not answer.
  Status Lost(const Context& ctx, const Status& status);
  Status At(Status status) const;

  ByteSource& object_;
  const std::string file_name_;
  const OrcDecoderOptions options_;
  ArrowMemory& memory_;
  MemoryGrant grant_;
  std::unique_ptr<ChildProcess> process_;
  Status read_failure_;  // why bytes that the process wanted are missing
  std::shared_ptr<arrow::Schema> schema_, stripe_schema_;
  int64_t row_count_ = 0;
  std::string codec_, written_by_;
  std::vector<OrcStripe> stripes_;
  int stripe_ = -1;  // that was started
};

}  // namespace partforge::data
