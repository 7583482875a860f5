// Prints the rows of files as our readers give them, one line of JSON a row behind "== FILE"; what
// cannot be read ends with a line "ERROR …".
//
//   interop_print_rows FILE…

#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "data/avro_source.h"
#include "data/file_inspect.h"
#include "data/orc_decoder.h"
#include "data/orc_source.h"
#include "data/parquet_source.h"
#include "data/row_json.h"
#include "store/local_store.h"
#include "testing/test_world.h"

namespace partforge::interop {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

Result<std::unique_ptr<BatchSource>> OpenRows(const Context& ctx,
                                              std::unique_ptr<ByteSource> object,
                                              const std::string& name, ArrowMemory& memory) {
  PF_ASSIGN(const FileFormat format, DetectFormat(ctx, *object, name));
  switch (format) {
    case FileFormat::kParquet: {
      PF_ASSIGN(auto source, ParquetSource::Open(ctx, std::move(object), name, {}, memory));
      return std::unique_ptr<BatchSource>(std::move(source));
    }
    case FileFormat::kOrc: {
      PF_ASSIGN(auto orc,
                OpenOrcSource(ctx, std::move(object), name, {}, {.id = "iceberg.id"}, memory));
      return std::unique_ptr<BatchSource>(std::move(orc));
    }
    case FileFormat::kAvro:
      return OpenAvroSource(ctx, std::move(object), name, {}, AvroTimestamps::kAvro, memory);
    case FileFormat::kPuffin:
      break;
  }
  return Status(Code::kRefused, fmt::format("a file without rows: {}", name));
}

Status Print(const Context& ctx, const std::string& name, ArrowMemory& memory) {
  const std::filesystem::path path = std::filesystem::absolute(name);
  LocalStore store(path.parent_path());
  PF_ASSIGN(auto object, store.Open(ctx, path.filename().string()));
  PF_ASSIGN(const auto rows, OpenRows(ctx, std::move(object), name, memory));
  while (true) {
    PF_ASSIGN(const auto batch, rows->Next(ctx));
    if (batch == nullptr) return {};
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      fmt::print("{}\n", data::testing::RowJson(*batch, row));
    }
  }
}

}  // namespace
}  // namespace partforge::interop

int main(int argc, char** argv) {
  using namespace partforge;  // NOLINT: main is no room's
  if (argc == 2 && argv[1] == data::kOrcDecoderWord) return data::RunOrcDecoder();
  partforge::testing::TestWorld world;
  data::ArrowMemory memory(world.context().memory);
  for (int i = 1; i < argc; ++i) {
    fmt::print("== {}\n", argv[i]);
    const Status status = interop::Print(world.context(), argv[i], memory);
    if (!status.ok()) fmt::print("ERROR {}\n", status.ToString());
  }
  return 0;
}
