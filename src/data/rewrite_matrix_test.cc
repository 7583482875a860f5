// Copying, joining, leaving rows out, merging and sorting of files in which every physical type
// meets every codec, page version and kind of encoding, against the rows that were written.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "data/file_merge.h"
#include "data/parquet_rewrite_rig.h"
#include "data/sort_merge.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

constexpr int64_t kRows = 160, kGroupRows = 60, kPageRows = 20;

// Every physical type, flat: each optional and required. Times in nanoseconds are INT96.
arrow::FieldVector FlatFields() {
  const std::vector<std::shared_ptr<arrow::DataType>> types = {
      arrow::boolean(),
      arrow::int32(),
      arrow::int64(),
      arrow::timestamp(arrow::TimeUnit::NANO),
      arrow::float32(),
      arrow::float64(),
      arrow::utf8(),
      arrow::fixed_size_binary(7),
      arrow::decimal128(30, 3),
      arrow::decimal128(9, 2)};
  arrow::FieldVector fields = {arrow::field("k", arrow::int32(), false)};
  for (const bool nullable : {true, false}) {
    for (size_t i = 0; i < types.size(); ++i) {
      fields.push_back(
          arrow::field(fmt::format("{}{}", nullable ? 'o' : 'r', i), types[i], nullable));
    }
  }
  return fields;
}

// The same below lists, maps and structs, two of them deep.
arrow::FieldVector NestedFields() {
  const auto inner =
      arrow::struct_({arrow::field("b", arrow::boolean()), arrow::field("i", arrow::int32(), false),
                      arrow::field("f", arrow::float32())});
  return {arrow::field("l", arrow::list(arrow::field("element", arrow::int64()))),
          arrow::field("s", arrow::struct_({arrow::field("t", arrow::utf8()),
                                            arrow::field("d", arrow::float64()),
                                            arrow::field("x", arrow::fixed_size_binary(5))})),
          arrow::field("m", arrow::map(arrow::utf8(), arrow::field("value", inner))),
          arrow::field("ll", arrow::list(arrow::field(
                                 "element", arrow::list(arrow::field("element", arrow::utf8())))))};
}

enum class Values : uint8_t { kDictionary, kPlain, kEncoded };

struct Variant {
  parquet::Compression::type codec = parquet::Compression::UNCOMPRESSED;
  parquet::ParquetDataPageVersion version = parquet::ParquetDataPageVersion::V1;
  Values values = Values::kPlain;
};

class RewriteMatrix : public ParquetRewriteFixture {
 protected:
  // Calls with every codec, both page versions and each kind of encoding.
  static void ForEachVariant(const std::function<void(const Variant&)>& act) {
    using parquet::Compression;
    using parquet::ParquetDataPageVersion;
    for (const auto codec :
         {Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP, Compression::BROTLI,
          Compression::ZSTD, Compression::LZ4, Compression::LZ4_HADOOP}) {
      for (const auto version : {ParquetDataPageVersion::V1, ParquetDataPageVersion::V2}) {
        for (const Values values : {Values::kDictionary, Values::kPlain, Values::kEncoded}) {
          SCOPED_TRACE(fmt::format("codec {}, page version {}, values {}", static_cast<int>(codec),
                                   static_cast<int>(version), static_cast<int>(values)));
          act({.codec = codec, .version = version, .values = values});
          if (HasFailure()) return;
        }
      }
    }
  }

  static std::shared_ptr<arrow::Schema> AllFields() {
    arrow::FieldVector fields = FlatFields();
    for (auto& field : NestedFields()) fields.push_back(std::move(field));
    return arrow::schema(fields);
  }

  // Keys that repeat, so that order shows; other columns as they come.
  std::shared_ptr<arrow::RecordBatch> Rows(const std::shared_ptr<arrow::Schema>& schema) {
    const auto batch = RandomBatch(random_, schema, kRows);
    return *batch->SetColumn(0, schema->field(0),
                             data::testing::RandomArray(random_, arrow::int32(), kRows, false,
                                                        {.null_share = 0, .distinct_max = 30}));
  }

  void WriteVariant(const std::string& key, const arrow::RecordBatch& rows,
                    const Variant& variant) {
    parquet::WriterProperties::Builder builder;
    builder.compression(variant.codec)->data_page_version(variant.version);
    builder.enable_store_decimal_as_integer();
    builder.max_rows_per_page(kPageRows)->write_batch_size(5)->enable_write_page_index();
    if (variant.values != Values::kDictionary) builder.disable_dictionary();
    if (variant.values == Values::kEncoded) ChooseEncodings(builder, *rows.schema());
    const auto table = arrow::Table::FromRecordBatches({rows.Slice(0)}).ValueOrDie();
    WriteByLibrary(key, *table, kGroupRows, builder, /*writes_int96=*/true);
  }

  // None that is PLAIN, where the type has another.
  static void ChooseEncodings(parquet::WriterProperties::Builder& builder,
                              const arrow::Schema& schema) {
    using parquet::Encoding;
    std::shared_ptr<parquet::SchemaDescriptor> leaves;
    ASSERT_TRUE(parquet::arrow::ToParquetSchema(&schema, *builder.build(), &leaves).ok());
    for (int i = 0; i < leaves->num_columns(); ++i) {
      const parquet::ColumnDescriptor& leaf = *leaves->Column(i);
      if (leaf.logical_type() != nullptr && leaf.logical_type()->is_timestamp()) continue;  // INT96
      switch (leaf.physical_type()) {
        case parquet::Type::BOOLEAN:
          builder.encoding(leaf.path(), Encoding::RLE);
          break;
        case parquet::Type::INT32:
        case parquet::Type::INT64:
          builder.encoding(leaf.path(), Encoding::DELTA_BINARY_PACKED);
          break;
        case parquet::Type::BYTE_ARRAY:
          builder.encoding(leaf.path(), i % 2 == 0 ? Encoding::DELTA_BYTE_ARRAY
                                                   : Encoding::DELTA_LENGTH_BYTE_ARRAY);
          break;
        case parquet::Type::FLOAT:
        case parquet::Type::DOUBLE:
        case parquet::Type::FIXED_LEN_BYTE_ARRAY:
          builder.encoding(leaf.path(), Encoding::BYTE_STREAM_SPLIT);
          break;
        default:
          break;
      }
    }
  }

  static std::vector<StitchPart> PartsOf(const std::vector<std::shared_ptr<ParquetInput>>& inputs,
                                         const RowFilter* deleted = nullptr) {
    std::vector<StitchPart> parts;
    for (const auto& input : inputs) {
      for (int g = 0; g < input->footer.row_group_count(); ++g) {
        parts.push_back({.input = input, .row_group = g, .deleted = deleted});
      }
    }
    return parts;
  }

  // Row numbers in the order of the first column, ties by number.
  static std::vector<int64_t> SortedByKey(const arrow::Table& table) {
    const auto& keys = static_cast<const arrow::Int32Array&>(*table.column(0)->chunk(0));
    std::vector<int64_t> rows(static_cast<size_t>(table.num_rows()));
    std::iota(rows.begin(), rows.end(), 0);
    std::stable_sort(rows.begin(), rows.end(),
                     [&](int64_t a, int64_t b) { return keys.Value(a) < keys.Value(b); });
    return rows;
  }

  ScanSpec SpecOf(const std::shared_ptr<arrow::Schema>& schema) {
    return {.wanted = schema,
            .mapping = {.match = MatchBy::kName, .zones = ZonesOfTimes::kAsWanted}};
  }
};

TEST_F(RewriteMatrix, CopiedRowGroupsHaveTheirRows) {
  const auto schema = AllFields();
  ForEachVariant([&](const Variant& variant) {
    const auto rows = Rows(schema);
    WriteVariant("in", *rows, variant);
    if (HasFatalFailure()) return;
    const auto input = Input("in");
    ASSERT_EQ(input->footer.row_group_count(), 3);
    std::vector<std::unique_ptr<CopiedRowGroup>> groups;
    std::vector<const EncodedRows*> encoded;
    for (int g = 0; g < 3; ++g) {
      groups.push_back(std::make_unique<CopiedRowGroup>(input, g, CopyOptions{}));
      encoded.push_back(groups.back().get());
    }
    WriteEncoded("out", schema, *input, encoded);
    ExpectSameRows(*Read("out", schema), *ToTable({rows}));
  });
}

TEST_F(RewriteMatrix, JoinedRowGroupsHaveTheRowsOfAllAndNoneIsDecoded) {
  const auto schema = AllFields();
  ForEachVariant([&](const Variant& variant) {
    const Batches rows = {Rows(schema), Rows(schema)};
    WriteVariant("in0", *rows[0], variant);
    WriteVariant("in1", *rows[1], variant);
    if (HasFatalFailure()) return;
    const auto parts = PartsOf({Input("in0"), Input("in1")});
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    const WrittenFile file = WriteEncoded("out", schema, *parts[0].input, {&run});
    EXPECT_EQ(file.split_offsets.size(), 1U);
    EXPECT_EQ(counts.columns_decoded, 0);
    ExpectSameRows(*Read("out", schema), *ToTable(rows));
  });
}

// check: DATA-11
TEST_F(RewriteMatrix, RowsLeaveEveryKindOfPageInEveryPattern) {
  const auto schema = arrow::schema(FlatFields());
  using Pattern = std::function<bool(uint64_t)>;
  const std::vector<std::pair<const char*, Pattern>> patterns = {
      {"none", [](uint64_t) { return false; }},
      {"one row", [](uint64_t row) { return row == 33; }},
      {"first and last of each page",
       [](uint64_t row) { return row % kGroupRows % kPageRows % (kPageRows - 1) == 0; }},
      {"a page", [](uint64_t row) { return row >= 20 && row < 40; }},
      {"a row group", [](uint64_t row) { return row >= 60 && row < 120; }},
      {"every second row", [](uint64_t row) { return row % 2 == 0; }},
      {"few", [&](uint64_t) { return random_.Next() % 100 == 0; }},
      {"a run over pages", [](uint64_t row) { return row >= 75 && row < 85; }}};
  size_t next = 0;
  int64_t filtered = 0;
  for (int round = 0; round < 3; ++round) {  // each variant meets three of the patterns
    ForEachVariant([&](const Variant& variant) {
      const auto& [name, pattern] = patterns[next++ % patterns.size()];
      SCOPED_TRACE(name);
      const auto rows = Rows(schema);
      WriteVariant("in", *rows, variant);
      if (HasFatalFailure()) return;
      Positions deleted;
      std::vector<int64_t> kept;
      for (int64_t row = 0; row < kRows; ++row) {
        if (pattern(static_cast<uint64_t>(row))) {
          deleted.Add(static_cast<uint64_t>(row));
        } else {
          kept.push_back(row);
        }
      }
      const RowFilter filter(std::move(deleted));
      const auto parts = PartsOf({Input("in")}, &filter);
      StitchCounts counts;
      const StitchedRun run(parts, {}, memory_, counts);
      const WrittenFile file = WriteEncoded("out", schema, *parts[0].input, {&run});
      EXPECT_EQ(counts.columns_decoded, 0);
      filtered += counts.pages_filtered;
      const auto wanted = TakeRows(*ToTable({rows}), kept);
      ExpectSameRows(*Read("out", schema), *wanted);
      for (const ColumnMetrics& column : file.metrics.columns) {
        if (column.path == "o3") continue;  // INT96: its writer counts none
        EXPECT_EQ(column.null_count, wanted->GetColumnByName(column.path)->null_count())
            << column.path;
      }
    });
    ++next;  // another pattern for each in the next round
  }
  EXPECT_GT(filtered, 1000);
}

TEST_F(RewriteMatrix, RowsLeaveNestedColumnsBesideFlatOnes) {
  const auto schema = AllFields();
  ForEachVariant([&](const Variant& variant) {
    const auto rows = Rows(schema);
    WriteVariant("in", *rows, variant);
    if (HasFatalFailure()) return;
    Positions deleted;
    deleted.AddRun({.begin = 10, .end = 31});
    deleted.Add(100);
    std::vector<int64_t> kept;
    for (int64_t row = 0; row < kRows; ++row) {
      if (!deleted.Contains(static_cast<uint64_t>(row))) kept.push_back(row);
    }
    const RowFilter filter(std::move(deleted));
    const auto parts = PartsOf({Input("in")}, &filter);
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    WriteEncoded("out", schema, *parts[0].input, {&run});
    EXPECT_EQ(counts.columns_decoded, 6);  // leaves below lists and maps
    ExpectSameRows(*Read("out", schema), *TakeRows(*ToTable({rows}), kept));
  });
}

// Files that are sorted are merged, files that are not are sorted, with and without runs on disk.
TEST_F(RewriteMatrix, RowsOfFilesAreMergedAndSorted) {
  const auto schema = AllFields();
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  partforge::testing::TempDir dir;
  SpillSpace space(dir.path(), int64_t{1} << 30);
  ForEachVariant([&](const Variant& variant) {
    Batches unsorted, sorted;
    for (int f = 0; f < 3; ++f) {
      unsorted.push_back(Rows(schema));
      const auto table = ToTable({unsorted.back()});
      sorted.push_back(TakeRows(*table, SortedByKey(*table))->CombineChunksToBatch().ValueOrDie());
      WriteVariant(fmt::format("u{}", f), *unsorted.back(), variant);
      WriteVariant(fmt::format("s{}", f), *sorted.back(), variant);
      if (HasFatalFailure()) return;
    }
    const auto all_unsorted = ToTable(unsorted), all_sorted = ToTable(sorted);

    std::vector<MergeFile> files;
    for (int f = 0; f < 3; ++f) {
      files.push_back({.scan = SpecOf(schema),
                       .open = [this, f](const Context& ctx,
                                         ScanSpec scan) -> Result<std::unique_ptr<BatchSource>> {
                         const std::string key = fmt::format("s{}", f);
                         PF_ASSIGN(auto object, store_.Open(ctx, key));
                         PF_ASSIGN(auto source, ParquetSource::Open(ctx, std::move(object), key,
                                                                    std::move(scan), memory_));
                         return std::unique_ptr<BatchSource>(std::move(source));
                       }});
    }
    const auto merged = MergeFiles(ctx_, std::move(files), **keys, nullptr, {}, space, memory_);
    ASSERT_TRUE(merged.ok()) << merged.status().ToString();
    ExpectSameRows(*ReadAll(ctx_, **merged), *TakeRows(*all_sorted, SortedByKey(*all_sorted)));

    const auto wanted = TakeRows(*all_unsorted, SortedByKey(*all_unsorted));
    for (const int64_t run_bytes : {int64_t{64} << 20, int64_t{1}}) {
      std::vector<std::unique_ptr<BatchSource>> sources;
      for (int f = 0; f < 3; ++f) sources.push_back(Open(fmt::format("u{}", f), SpecOf(schema)));
      ConcatenatedBatches input(std::move(sources));
      const auto rows = Sort(ctx_, input, **keys, {.run_bytes = run_bytes}, space, memory_);
      ASSERT_TRUE(rows.ok()) << rows.status().ToString();
      ExpectSameRows(*ReadAll(ctx_, **rows), *wanted);
    }
  });
  EXPECT_GT(space.total_bytes(), 0);
}

}  // namespace
}  // namespace partforge::data
