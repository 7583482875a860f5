#pragma once

#include <arrow/io/memory.h>
#include <fmt/format.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>

#include "data/file_verify.h"
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

  // Carries out the steps into files out/0, out/1 and so on, of the first input's schema unless the
  // options have another. None when it fails.
  std::vector<WrittenFile> RunSteps(const std::vector<RewriteInput>& inputs,
                                    const std::vector<RewriteStep>& steps,
                                    const RewriteTarget& target,
                                    const std::shared_ptr<arrow::Schema>& schema,
                                    RewriteCounts& counts, RollingLimits limits = {},
                                    ParquetSinkOptions options = {}) {
    if (options.schema_of == nullptr) options.schema_of = &inputs[0].file->footer;
    const auto factory = [&](const Context& ctx, int64_t number) -> Result<RollingSink::Opened> {
      RollingSink::Opened opened{.key = fmt::format("out/{}", number), .sink = nullptr};
      PF_ASSIGN(opened.sink,
                ParquetSink::Open(ctx, Create(opened.key), opened.key, schema, options, memory_));
      return opened;
    };
    RollingSink sink(store_, factory, limits);
    const Status status =
        RunRewrite(ctx_, inputs, steps, target, schema, {}, sink, memory_, counts);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) return {};
    auto files = sink.Close(ctx_);
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return files.ok() ? *std::move(files) : std::vector<WrittenFile>();
  }

  // Files as they are verified; `objects` keeps them open.
  std::vector<WrittenObject> OpenWritten(const std::vector<WrittenFile>& files,
                                         std::vector<std::unique_ptr<ByteSource>>& objects) {
    std::vector<WrittenObject> written;
    for (const WrittenFile& file : files) {
      objects.push_back(Object(file.key));
      written.push_back(
          {.bytes = objects.back().get(), .name = file.key, .row_count = file.row_count});
    }
    return written;
  }

  // The rows of files, one after the other.
  std::shared_ptr<arrow::Table> ReadFiles(const std::vector<WrittenFile>& files,
                                          const std::shared_ptr<arrow::Schema>& wanted) {
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (const WrittenFile& file : files) {
      ScanSpec spec;
      spec.wanted = wanted;
      sources.push_back(Open(file.key, spec));
    }
    if (sources.empty()) return arrow::Table::MakeEmpty(wanted).ValueOrDie();
    ConcatenatedBatches joined(std::move(sources));
    return ReadAll(ctx_, joined);
  }

  std::shared_ptr<arrow::Table> Read(const std::string& key,
                                     const std::shared_ptr<arrow::Schema>& wanted) {
    ScanSpec spec;
    spec.wanted = wanted;
    // As a lake reads: INT96 has no zone, whatever the table says.
    spec.mapping = {.match = MatchBy::kName, .zones = ZonesOfTimes::kAsWanted};
    return ReadAll(ctx_, *Open(key, spec));
  }

  // The file as the library sees it.
  std::unique_ptr<parquet::ParquetFileReader> Library(const std::string& key) {
    const std::string bytes = *ReadObject(ctx_, store_, key);
    return parquet::ParquetFileReader::Open(
        std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
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
