#include "data/parquet_footer.h"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <functional>

#include "base/hash.h"
#include "data/memory_bytes.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT

std::shared_ptr<arrow::Table> SampleTable(int64_t rows) {
  arrow::Int64Builder ids;
  arrow::StringBuilder names;
  auto values = std::make_shared<arrow::Int32Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), values);
  for (int64_t i = 0; i < rows; ++i) {
    EXPECT_TRUE(ids.Append(i).ok());
    EXPECT_TRUE((i % 7 == 0 ? names.AppendNull() : names.Append("n" + std::to_string(i % 5))).ok());
    EXPECT_TRUE(lists.Append().ok());
    for (int64_t k = 0; k < i % 3; ++k) EXPECT_TRUE(values->Append(static_cast<int32_t>(k)).ok());
  }
  return arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64(), false), arrow::field("name", arrow::utf8()),
                     arrow::field("tags", arrow::list(arrow::int32()))}),
      {ids.Finish().ValueOrDie(), names.Finish().ValueOrDie(), lists.Finish().ValueOrDie()});
}

std::string SampleFile(int64_t rows = 1000, int64_t group_rows = 300) {
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto properties = parquet::WriterProperties::Builder()
                              .compression(parquet::Compression::ZSTD)
                              ->enable_write_page_index()
                              ->build();
  EXPECT_TRUE(parquet::arrow::WriteTable(*SampleTable(rows), arrow::default_memory_pool(), out,
                                         group_rows, properties)
                  .ok());
  return out->Finish().ValueOrDie()->ToString();
}

std::shared_ptr<arrow::Table> ReadTable(const std::string& bytes) {
  auto reader = parquet::arrow::OpenFile(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)),
      arrow::default_memory_pool());
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  if (!reader.ok()) return nullptr;
  auto table = (*reader)->ReadTable();
  EXPECT_TRUE(table.ok()) << table.status().ToString();
  return table.ok() ? *table : nullptr;
}

ParquetFooter FooterOf(const std::string& bytes) {
  auto footer = ParseParquetFooter(AsBytes(bytes), static_cast<int64_t>(bytes.size()), "f.parquet");
  EXPECT_TRUE(footer.ok()) << footer.status().ToString();
  return std::move(footer).value();
}

TEST(ParquetFooter, ShowsTheChunksThatLibparquetWrote) {
  const std::string bytes = SampleFile();
  const ParquetFooter footer = FooterOf(bytes);
  EXPECT_EQ(footer.num_rows(), 1000);
  EXPECT_EQ(footer.row_group_count(), 4);
  EXPECT_EQ(footer.leaf_count(), 3);
  EXPECT_EQ(footer.column_path(2), "tags.list.element");
  const ChunkView view = ViewChunk(footer.chunk(0, 0), "f").value();
  EXPECT_EQ(view.bytes.offset, 4);
  EXPECT_EQ(view.codec, 6);
  EXPECT_EQ(view.num_values, 300);
  EXPECT_TRUE(view.dictionary_page_offset.has_value());
  EXPECT_GT(view.offset_index.length, 0);
  EXPECT_GT(view.column_index.length, 0);
  const auto leaves = SchemaLeaves(footer.tree.Find(file_metadata::kSchema)->items(), "f").value();
  EXPECT_EQ(leaves.at(2).max_definition_level, 3);
  EXPECT_EQ(leaves.at(2).max_repetition_level, 1);
  EXPECT_EQ(leaves.at(0).max_definition_level, 0);
}

TEST(ParquetFooter, RowGroupsWithoutRowsHaveChunksWithoutPages) {
  for (const bool has_dictionary : {true, false}) {
    const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
    auto properties = parquet::WriterProperties::Builder();
    if (!has_dictionary) properties.disable_dictionary();
    ASSERT_TRUE(parquet::arrow::WriteTable(*SampleTable(0), arrow::default_memory_pool(), out, 100,
                                           properties.build())
                    .ok());
    const ParquetFooter footer = FooterOf(out->Finish().ValueOrDie()->ToString());
    ASSERT_EQ(footer.row_group_count(), 1);
    const ChunkView view = ViewChunk(footer.chunk(0, 0), "f").value();
    EXPECT_EQ(view.num_values, 0);
    EXPECT_EQ(view.dictionary_page_offset.has_value(), has_dictionary);
    EXPECT_LE(view.bytes.end(), footer.footer_start);
  }
}

TEST(ParquetFooter, IsWrittenAgainByteForByte) {
  const std::string bytes = SampleFile();
  const ParquetFooter footer = FooterOf(bytes);
  EXPECT_EQ(EncodeParquetFooter(footer.tree).value(),
            bytes.substr(static_cast<size_t>(footer.footer_start)));
}

TEST(ParquetFooter, FooterLongerThanTheFirstReadIsReadWhole) {
  const ParquetFooter footer = FooterOf(SampleFile(500, 2));
  ASSERT_GT(footer.file_size_bytes - footer.footer_start, 70'000);
  EXPECT_EQ(footer.row_group_count(), 250);
}

TEST(ParquetFooter, ShiftedChunksAreReadByLibparquet) {
  const std::string bytes = SampleFile();
  ParquetFooter footer = FooterOf(bytes);
  const std::string padding(1000, 'x');
  for (ThriftValue& group : footer.tree.Find(file_metadata::kRowGroups)->items()) {
    for (ThriftValue& chunk : group.Find(row_group::kColumns)->items()) {
      const ChunkView view = ViewChunk(chunk, "f").value();
      ASSERT_TRUE(ShiftChunk(chunk, 1000, "f").ok());
      ASSERT_TRUE(PlaceOffsetIndex(chunk, {}).ok());
      ASSERT_TRUE(PlaceColumnIndex(chunk, {.offset = view.column_index.offset + 1000,
                                           .length = view.column_index.length})
                      .ok());
      ASSERT_TRUE(PlaceBloomFilter(chunk, {}).ok());
      EXPECT_EQ(ViewChunk(chunk, "f")->bytes.offset, view.bytes.offset + 1000);
    }
  }
  const std::string moved = bytes.substr(0, 4) + padding +
                            bytes.substr(4, static_cast<size_t>(footer.footer_start) - 4) +
                            EncodeParquetFooter(footer.tree).value();
  EXPECT_TRUE(ReadTable(moved)->Equals(*ReadTable(bytes)));
}

// Changes the footer of a good file, and says what the check answers.
Status CheckAfter(const std::function<void(ParquetFooter&)>& change) {
  ParquetFooter footer = FooterOf(SampleFile());
  change(footer);
  return CheckFooter(footer, "f.parquet");
}
ThriftValue& ChunkOf(ParquetFooter& footer, size_t group, size_t column) {
  return footer.tree.Find(file_metadata::kRowGroups)
      ->items()[group]
      .Find(row_group::kColumns)
      ->items()[column];
}
ThriftValue& MetadataOf(ParquetFooter& footer) {
  return *ChunkOf(footer, 1, 0).Find(column_chunk::kMetaData);
}

TEST(CheckFooter, EachLieIsFound) {
  const auto lie = [](int16_t id, ThriftValue value) {
    return CheckAfter([&](ParquetFooter& footer) { MetadataOf(footer).Set(id, std::move(value)); });
  };
  EXPECT_TRUE(CheckAfter([](ParquetFooter&) {}).ok());
  const std::vector<Status> found = {
      lie(column_metadata::kDataPageOffset, ThriftValue::I64(-1)),
      lie(column_metadata::kDataPageOffset, ThriftValue::I64(2)),
      lie(column_metadata::kDictionaryPageOffset, ThriftValue::I64(1)),
      lie(column_metadata::kTotalCompressedSize, ThriftValue::I64(int64_t{1} << 62)),
      lie(column_metadata::kTotalCompressedSize,
          ThriftValue::I64(std::numeric_limits<int64_t>::max())),
      lie(column_metadata::kTotalCompressedSize, ThriftValue::I64(-5)),
      lie(column_metadata::kTotalCompressedSize, ThriftValue::I64(3000)),  // into its neighbour
      lie(column_metadata::kNumValues, ThriftValue::I64(299)),
      lie(column_metadata::kNumValues, ThriftValue::Binary("300")),
      lie(column_metadata::kCodec, ThriftValue::I32(99)),
      lie(column_metadata::kBloomFilterOffset, ThriftValue::I64(int64_t{1} << 40)),
      lie(column_metadata::kPathInSchema,
          ThriftValue::List(ThriftType::kBinary, {ThriftValue::Binary("other")})),
      lie(column_metadata::kType, ThriftValue::I32(1)),
      CheckAfter([](ParquetFooter& f) {
        ChunkOf(f, 0, 0).Set(column_chunk::kOffsetIndexOffset, ThriftValue::I64(1));
      }),
      CheckAfter([](ParquetFooter& f) { ChunkOf(f, 0, 0).Remove(column_chunk::kMetaData); }),
      CheckAfter(
          [](ParquetFooter& f) { f.tree.Set(file_metadata::kNumRows, ThriftValue::I64(1)); }),
      CheckAfter(
          [](ParquetFooter& f) { f.tree.Set(file_metadata::kNumRows, ThriftValue::I64(1001)); }),
      CheckAfter([](ParquetFooter& f) { f.tree.Remove(file_metadata::kSchema); }),
      CheckAfter([](ParquetFooter& f) { f.tree.Find(file_metadata::kSchema)->items().pop_back(); }),
      CheckAfter([](ParquetFooter& f) {
        f.tree.Find(file_metadata::kRowGroups)
            ->items()[0]
            .Find(row_group::kColumns)
            ->items()
            .pop_back();
      }),
  };
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_FALSE(found[i].ok()) << i;
    EXPECT_EQ(found[i].code(), Code::kCorruption) << i;
    EXPECT_NE(found[i].message().find("f.parquet"), std::string::npos) << found[i].message();
  }
}

TEST(CheckFooter, EncryptionAndForeignFilesAreRefused) {
  EXPECT_EQ(CheckAfter([](ParquetFooter& f) {
              f.tree.Set(file_metadata::kEncryptionAlgorithm, ThriftValue::Struct());
            }).code(),
            Code::kRefused);
  EXPECT_EQ(CheckAfter([](ParquetFooter& f) {
              ChunkOf(f, 0, 1).Set(column_chunk::kCryptoMetadata, ThriftValue::Struct());
            }).code(),
            Code::kRefused);
  EXPECT_EQ(CheckAfter([](ParquetFooter& f) {
              ChunkOf(f, 0, 1).Set(column_chunk::kFilePath, ThriftValue::Binary("b.parquet"));
            }).code(),
            Code::kRefused);
  std::string bytes = SampleFile();
  bytes.back() = 'E';
  testing::TestWorld world;
  MemorySource source(AsBytes(bytes));
  EXPECT_EQ(ReadParquetFooter(world.context(), source, "f").status().code(), Code::kRefused);
}

TEST(ParquetFooter, BrokenTrailersAreCorruption) {
  testing::TestWorld world;
  for (const std::string& bytes :
       {std::string(), std::string("PAR1"), std::string("PAR1\xff\xff\xff\x7fPAR1", 12),
        std::string("PAR1\0\0\0\0PAR2", 12), SampleFile().substr(10)}) {
    MemorySource source(AsBytes(bytes));
    const auto footer = ReadParquetFooter(world.context(), source, "f");
    ASSERT_FALSE(footer.ok());
    EXPECT_EQ(footer.status().code(), Code::kCorruption);
  }
}

// A footer's tree takes many times its bytes: it is paid for before it is parsed, and as long as it
// lives.
TEST(ParquetFooter, ItsTreeIsTakenFromTheBudget) {
  const std::string bytes = SampleFile();
  MemorySource source(AsBytes(bytes));
  testing::TestWorld world;
  auto footer = ReadParquetFooter(world.context(), source, "f");
  ASSERT_TRUE(footer.ok());
  const int64_t length = footer->file_size_bytes - 8 - footer->footer_start;
  EXPECT_GT(TreeBytes(footer->tree), 4 * length);
  EXPECT_GT(world.context().memory.used_bytes(), 4 * length);
  footer = Status(Code::kInternal, "gone");
  EXPECT_EQ(world.context().memory.used_bytes(), 0);
  testing::TestWorld small(length * 10);
  const auto refused = ReadParquetFooter(small.context(), source, "f");
  EXPECT_EQ(refused.status().code(), Code::kExhausted);
  EXPECT_NE(refused.status().message().find("--memory"), std::string::npos);
}

}  // namespace
}  // namespace partforge::data
