#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/batch_sink.h"
#include "data/orc_attributes.h"
#include "store/object_store.h"

namespace partforge::data {

enum class OrcCodec : uint8_t { kNone, kZlib, kSnappy, kLz4, kZstd };
std::optional<OrcCodec> OrcCodecOf(std::string_view name);

struct OrcSinkOptions {
  OrcAttributes attributes = {};
  OrcCodec codec = OrcCodec::kZstd;
  int64_t stripe_bytes = int64_t{64} << 20;  // raw, in memory
  int64_t row_index_rows = 10'000;  // of an entry of the row index; stripes end at one only
  // 0: never; 1: always; else columns whose distinct share is below it.
  double dictionary_share = 0.25;
};

// Writes one ORC file and collects metrics of the rows on the way. `schema` has field ids as
// kFieldIdKey; other metadata of its fields becomes attributes. `bytes` is taken over. A time
// before 1970 with a part of a second is kRefused: the library stores it so that Java reads
// another.
Result<std::unique_ptr<BatchSink>> OpenOrcSink(const Context& ctx, std::unique_ptr<ByteSink> bytes,
                                               std::string file_name,
                                               const std::shared_ptr<arrow::Schema>& schema,
                                               const OrcSinkOptions& options);

}  // namespace partforge::data
