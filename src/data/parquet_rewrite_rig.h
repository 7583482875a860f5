#pragma once

#include <arrow/io/memory.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>

#include "data/parquet_rig.h"
#include "data/rewrite_plan.h"

namespace partforge::data::testing {

// Files as other writers write them, and ways to put their row groups into ours.
class ParquetRewriteFixture : public ParquetFixture {
 protected:
  // A file as libparquet writes it with the properties.
  void WriteByLibrary(const std::string& key, const arrow::Table& table, int64_t group_rows,
                      parquet::WriterProperties::Builder& builder, bool writes_int96 = false) {
    auto stream = arrow::io::BufferOutputStream::Create().ValueOrDie();
    parquet::ArrowWriterProperties::Builder arrow_builder;
    if (writes_int96) arrow_builder.enable_deprecated_int96_timestamps();
    const auto status =
        parquet::arrow::WriteTable(table, arrow::default_memory_pool(), stream, group_rows,
                                   builder.build(), arrow_builder.build());
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(WriteObject(ctx_, store_, key, stream->Finish().ValueOrDie()->ToString()).ok());
  }

  std::shared_ptr<ParquetInput> Input(const std::string& key) {
    auto input = OpenParquetInput(ctx_, Object(key), key);
    EXPECT_TRUE(input.ok()) << input.status().ToString();
    return *input;
  }

  // Writes encoded rows into a file with the schema of an input.
  WrittenFile WriteEncoded(const std::string& key, const std::shared_ptr<arrow::Schema>& schema,
                           const ParquetInput& like, const std::vector<const EncodedRows*>& rows) {
    ParquetSinkOptions options;
    options.schema_of = &like.footer;
    auto sink = ParquetSink::Open(ctx_, Create(key), key, schema, options, memory_);
    EXPECT_TRUE(sink.ok()) << sink.status().ToString();
    for (const EncodedRows* encoded : rows) {
      const Status status = (*sink)->AppendEncoded(ctx_, *encoded);
      EXPECT_TRUE(status.ok()) << status.ToString();
      if (!status.ok()) return {};
    }
    auto written = (*sink)->Close(ctx_);
    EXPECT_TRUE(written.ok()) << written.status().ToString();
    return written.ok() ? *written : WrittenFile();
  }

  std::shared_ptr<arrow::Table> Read(const std::string& key,
                                     const std::shared_ptr<arrow::Schema>& wanted) {
    ScanSpec spec;
    spec.wanted = wanted;
    // As a lake reads: INT96 has no zone, whatever the table says.
    spec.mapping = {.match = MatchBy::kName, .zones = ZonesOfTimes::kAsWanted};
    return ReadAll(ctx_, *Open(key, spec));
  }

  // What differs between writers.
  void RandomProperties(parquet::WriterProperties::Builder& builder, const arrow::Schema& schema,
                        bool allows_v2) {
    const uint64_t kind = random_.Next();
    builder.enable_store_decimal_as_integer();
    if (kind % 3 == 0) builder.disable_dictionary();
    if (kind % 7 > 1) RandomEncodings(builder, schema);
    if (kind % 5 == 0) builder.enable_write_page_index();
    if (kind % 5 > 2) builder.disable_write_page_index();
    if (kind % 2 == 0) builder.enable_page_checksum();
    builder.max_rows_per_page(40 + static_cast<int64_t>(kind % 200));
    builder.write_batch_size(20);
    builder.data_pagesize(1000);
    if (kind % 11 == 0) builder.dictionary_pagesize_limit(300);
    if (allows_v2 && kind % 13 < 5) {
      builder.data_page_version(parquet::ParquetDataPageVersion::V2);
    }
    const parquet::Compression::type codecs[] = {
        parquet::Compression::ZSTD, parquet::Compression::SNAPPY,
        parquet::Compression::GZIP, parquet::Compression::UNCOMPRESSED,
        parquet::Compression::LZ4,  parquet::Compression::BROTLI};
    builder.compression(codecs[kind / 17 % 6]);
  }

  // Of values that are in no dictionary, where their type allows a choice.
  void RandomEncodings(parquet::WriterProperties::Builder& builder, const arrow::Schema& schema) {
    using parquet::Encoding;
    std::shared_ptr<parquet::SchemaDescriptor> leaves;
    ASSERT_TRUE(parquet::arrow::ToParquetSchema(&schema, *builder.build(), &leaves).ok());
    for (int i = 0; i < leaves->num_columns(); ++i) {
      // Timestamps may be written as INT96 all the same, which has no other encoding.
      const auto& logical = leaves->Column(i)->logical_type();
      if (logical != nullptr && logical->is_timestamp()) continue;
      std::vector<Encoding::type> choices;
      switch (leaves->Column(i)->physical_type()) {
        case parquet::Type::INT32:
        case parquet::Type::INT64:
          choices = {Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT};
          break;
        case parquet::Type::FLOAT:
        case parquet::Type::DOUBLE:
          choices = {Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT};
          break;
        case parquet::Type::BYTE_ARRAY:
          choices = {Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY,
                     Encoding::DELTA_BYTE_ARRAY};
          break;
        case parquet::Type::FIXED_LEN_BYTE_ARRAY:
          choices = {Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY, Encoding::BYTE_STREAM_SPLIT};
          break;
        default:
          continue;
      }
      builder.encoding(leaves->Column(i)->path(), choices[random_.Next() % choices.size()]);
    }
  }
};

}  // namespace partforge::data::testing
