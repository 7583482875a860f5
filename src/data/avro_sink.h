#pragma once

#include <memory>
#include <string>

#include "data/avro_arrow_schema.h"
#include "data/avro_file.h"
#include "data/batch_sink.h"
#include "store/object_store.h"

namespace partforge::data {

struct AvroSinkOptions {
  AvroSchemaStyle style = {};
  AvroMetadata metadata = {};  // file metadata beside schema and codec
  BlockCodec codec = BlockCodec::kDeflate;
  int level = 6;
  int64_t block_raw_bytes = 64'000;
};

// Writes one Avro data file and collects metrics of the rows on the way, as the file keeps none.
// `schema` has field ids as kFieldIdKey. `bytes` is taken over.
Result<std::unique_ptr<BatchSink>> OpenAvroSink(const Context& ctx, std::unique_ptr<ByteSink> bytes,
                                                std::string file_name,
                                                const std::shared_ptr<arrow::Schema>& schema,
                                                AvroSinkOptions options);

}  // namespace partforge::data
