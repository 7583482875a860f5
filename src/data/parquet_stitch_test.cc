// Stitched row groups, with and without deleted rows, hold the rows and the page index that they
// must; what becomes of their pages and filters is in parquet_stitch_pages_test.cc.

#include <fmt/format.h>
#include <parquet/arrow/writer.h>

#include <numeric>

#include "data/metrics_collector.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/parquet_rewrite_rig.h"
#include "data/rewrite_plan.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

class ParquetStitch : public ParquetRewriteFixture {
 protected:
  // What is counted in rows [begin, end) of one top-level column, for one of its leaves.
  static ColumnMetrics Count(const arrow::Table& rows, const LeafColumn& leaf, int64_t begin,
                             int64_t end) {
    const int column = rows.schema()->GetFieldIndex(leaf.path[0]);
    MetricsCollector collector(arrow::Schema({rows.schema()->field(column)}));
    const auto batch =
        arrow::RecordBatch::Make(arrow::schema({rows.schema()->field(column)}), end - begin,
                                 {rows.column(column)->chunk(0)->Slice(begin, end - begin)});
    EXPECT_TRUE(collector.Add(*batch).ok());
    for (ColumnMetrics& one : collector.Metrics().columns) {
      if (MetricsPath(one.path) == MetricsPath(leaf.dotted_path)) return one;
    }
    ADD_FAILURE() << "no leaf " << leaf.dotted_path;
    return {};
  }

  // Without the names of inner groups, which writers choose.
  static std::string MetricsPath(std::string path) {
    for (const std::string_view inner : {".list.", ".key_value.", ".entries."}) {
      for (size_t at = path.find(inner); at != std::string::npos; at = path.find(inner)) {
        path.replace(at, inner.size(), ".");
      }
    }
    for (const std::string_view item : {".item", ".element"}) {
      for (size_t at = path.find(item); at != std::string::npos; at = path.find(item)) {
        path.replace(at, item.size(), "[]");
      }
    }
    return path;
  }

  // One entry of a column index against the rows of its page and the page itself.
  void ExpectPageIsRight(const LeafColumn& leaf, const ColumnIndex& index, size_t page,
                         const PageHeader& header, const ColumnMetrics& counted) {
    const int64_t present = *counted.value_count - *counted.null_count;
    EXPECT_EQ(index.null_pages[page], present == 0);
    if (index.null_counts) {
      EXPECT_EQ(header.num_values - (*index.null_counts)[page], present);
    }
    const auto levels = static_cast<size_t>(leaf.max_definition_level) + 1;
    if (index.definition_histograms && leaf.max_definition_level > 0) {
      const auto begin =
          index.definition_histograms->begin() + static_cast<std::ptrdiff_t>(page * levels);
      EXPECT_EQ(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(levels), int64_t{0}),
                header.num_values);
      EXPECT_EQ(*(begin + leaf.max_definition_level), present);
    }
    if (present == 0 || !counted.lower) return;
    const auto low = ScalarOfPlain(leaf, index.min_values[page]);
    const auto high = ScalarOfPlain(leaf, index.max_values[page]);
    ASSERT_TRUE(low && high);
    EXPECT_LE(*low, counted.lower->value);
    EXPECT_GE(*high, counted.upper->value);
  }

  // Bounds of the pages that are not all null stand in the order that the index says.
  static void ExpectOrderIsRight(const LeafColumn& leaf, const ColumnIndex& index) {
    std::optional<Scalar> low, high;
    for (size_t p = 0; p < index.null_pages.size(); ++p) {
      if (index.null_pages[p]) continue;
      const auto next_low = ScalarOfPlain(leaf, index.min_values[p]);
      const auto next_high = ScalarOfPlain(leaf, index.max_values[p]);
      if (!next_low || !next_high) return;
      if (low && index.boundary_order == 1) {
        EXPECT_LE(*low, *next_low);
        EXPECT_LE(*high, *next_high);
      }
      if (low && index.boundary_order == 2) {
        EXPECT_GE(*low, *next_low);
        EXPECT_GE(*high, *next_high);
      }
      low = next_low;
      high = next_high;
    }
  }

  // Every page of every leaf, nested ones too, holds the rows that the page index says, with their
  // nulls, levels and within their bounds; pruned scans around random values return the rows of all
  // columns. Adds how many pages were compared.
  void ExpectPageIndexIsRight(const std::string& key, const std::shared_ptr<arrow::Schema>& schema,
                              const arrow::Table& wanted, int64_t& pages) {
    const auto input = Input(key);
    for (size_t c = 0; c < input->columns.size(); ++c) {
      const LeafColumn& column = input->columns[c];
      SCOPED_TRACE(column.dotted_path);
      for (int g = 0; g < input->footer.row_group_count(); ++g) {
        const ChunkView view = *ViewChunk(input->footer.chunk(g, static_cast<int>(c)), key);
        const int64_t rows = input->RowCount(g);
        const auto offsets = ReadOffsetIndex(ctx_, *input->source, view, rows, key);
        ASSERT_TRUE(offsets.ok()) << offsets.status().ToString();
        if (!*offsets) continue;
        const auto index =
            ReadColumnIndex(ctx_, *input->source, view, (*offsets)->pages.size(), key);
        ASSERT_TRUE(index.ok()) << index.status().ToString();
        if (!*index) continue;
        for (size_t p = 0; p < (*offsets)->pages.size(); ++p) {
          const PagePlace& place = (*offsets)->pages[p];
          const std::string bytes = *ReadRange(ctx_, *input->source, place.bytes, key);
          const auto header = ParsePageHeader(std::as_bytes(std::span(bytes)), key);
          ASSERT_TRUE(header.ok()) << header.status().ToString();
          const int64_t begin = input->first_rows[static_cast<size_t>(g)];
          ExpectPageIsRight(
              column, **index, p, *header,
              Count(wanted, column, begin + place.first_row, begin + (*offsets)->EndRow(p, rows)));
          ++pages;
        }
        ExpectOrderIsRight(column, **index);
        if (HasFailure()) return;
      }
    }
    for (int i = 0; i < schema->num_fields(); ++i) {
      if (schema->field(i)->type()->id() != arrow::Type::INT64) continue;
      const auto& values = static_cast<const arrow::Int64Array&>(*wanted.column(i)->chunk(0));
      if (values.length() == values.null_count()) continue;
      int64_t row = static_cast<int64_t>(random_.Next() % static_cast<uint64_t>(values.length()));
      while (values.IsNull(row)) row = (row + 1) % values.length();
      ColumnRange range{.column = {.id = -1, .name = schema->field(i)->name()}};
      range.equals = {Scalar::Int64(values.Value(row))};
      ScanSpec spec;
      spec.wanted = schema;
      spec.mapping.match = MatchBy::kName;
      spec.position_column = "_pos";
      spec.ranges = {range};
      const auto got = ReadAll(ctx_, *Open(key, spec));
      ASSERT_GT(got->num_rows(), 0);
      const auto& positions =
          static_cast<const arrow::Int64Array&>(*got->GetColumnByName("_pos")->chunk(0));
      std::vector<int64_t> rows;
      for (int64_t k = 0; k < positions.length(); ++k) rows.push_back(positions.Value(k));
      ExpectSameRows(*got->RemoveColumn(got->num_columns() - 1).ValueOrDie(),
                     *TakeRows(wanted, rows));
      // As a full scan would have: no row that has the value is left out.
      for (int64_t k = 0; k < values.length(); ++k) {
        if (values.IsNull(k) || values.Value(k) != values.Value(row)) continue;
        ASSERT_TRUE(std::binary_search(rows.begin(), rows.end(), k)) << k;
      }
    }
  }
};

// check: DATA-6
TEST_F(ParquetStitch, StitchedRandomFilesHaveTheRowsOfTheirInputs) {
  int64_t pages = 0;
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    const auto schema = RandomSchema(random_, 5, round % 2 == 1);
    Batches all;
    std::vector<StitchPart> parts;
    const bool allows_v2 = round % 3 == 0;
    for (int f = 0; f < 3; ++f) {
      const auto batch = RandomBatch(random_, schema, 120 + f * 210);
      parquet::WriterProperties::Builder builder;
      RandomProperties(builder, *schema, allows_v2);
      const std::string key = fmt::format("in{}", f);
      WriteByLibrary(key, *ToTable({batch}), 170, builder);
      if (HasFatalFailure()) return;
      all.push_back(batch);
      const auto input = Input(key);
      for (int g = 0; g < input->footer.row_group_count(); ++g) {
        parts.push_back({.input = input, .row_group = g});
      }
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    const WrittenFile file = WriteEncoded("out", schema, *parts[0].input, {&run});
    const auto wanted = ToTable(all);
    EXPECT_EQ(file.row_count, wanted->num_rows());
    EXPECT_EQ(file.split_offsets.size(), 1U);
    ExpectSameRows(*Read("out", schema), *wanted);
    ExpectPageIndexIsRight("out", schema, *wanted, pages);
    if (HasFailure()) return;
  }
  EXPECT_GT(pages, 100);
}

// check: DATA-11
TEST_F(ParquetStitch, DeletedRowsLeavePageByPage) {
  int64_t pages = 0, filtered = 0, copied = 0;
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    const bool is_nested = round / 10 % 4 == 3;
    const auto schema = RandomSchema(random_, 5, is_nested);
    const auto batch = RandomBatch(random_, schema, 700);
    parquet::WriterProperties::Builder builder;
    RandomProperties(builder, *schema, true);
    WriteByLibrary("in", *ToTable({batch}), 300, builder);
    if (HasFatalFailure()) return;
    const auto input = Input("in");
    Positions deleted;
    for (uint64_t row = 0; row < 700; ++row) {
      bool is_deleted = false;
      switch (round % 10) {
        case 0:
          break;  // none
        case 1:
          is_deleted = row == 123;
          break;
        case 2:
          is_deleted = row % 100 == 0 || row % 100 == 99;
          break;
        case 3:
          is_deleted = row >= 100 && row < 200;
          break;
        case 4:
          is_deleted = row >= 300 && row < 600;  // a whole row group
          break;
        case 5:
          is_deleted = row % 2 == 0;
          break;
        case 6:
          is_deleted = random_.Next() % 1000 == 0;
          break;
        case 7:
          is_deleted = row >= 333 && row < 340;  // one in a hundred, side by side
          break;
        case 8:
          is_deleted = row >= 299 && row < 301;  // the last of a row group, the first of the next
          break;
        default:
          is_deleted = row > 650 || random_.Next() % 10 != 0;
      }
      if (is_deleted) deleted.Add(row);
    }
    std::vector<int64_t> kept;
    for (int64_t row = 0; row < 700; ++row) {
      if (!deleted.Contains(static_cast<uint64_t>(row))) kept.push_back(row);
    }
    const RowFilter filter(std::move(deleted));
    std::vector<StitchPart> parts;
    for (int g = 0; g < input->footer.row_group_count(); ++g) {
      parts.push_back({.input = input, .row_group = g, .deleted = &filter});
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    const WrittenFile file = WriteEncoded("out", schema, *input, {&run});
    const auto wanted = TakeRows(*ToTable({batch}), kept);
    ExpectSameRows(*Read("out", schema), *wanted);
    // Only columns below lists and maps are decoded: all others lose their rows page by page.
    if (!is_nested) {
      EXPECT_EQ(counts.columns_decoded, 0);
      if (kept.size() == 700) {
        EXPECT_EQ(counts.pages_filtered, 0);
      }
      filtered += counts.pages_filtered;
      copied += counts.pages_copied;
    }
    if (wanted->num_rows() > 0) ExpectPageIndexIsRight("out", schema, *wanted, pages);
    for (size_t c = 0; c < file.metrics.columns.size(); ++c) {
      const ColumnMetrics& column = file.metrics.columns[c];
      if (column.is_repeated || column.path.find('.') != std::string::npos) continue;
      const auto array = wanted->GetColumnByName(column.path);
      EXPECT_EQ(column.null_count, array->null_count()) << column.path;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(filtered, 100);
  EXPECT_GT(copied, 100);
  EXPECT_GT(pages, 100);
}

// Deleted rows that lie together touch one page of a row group; the others and the dictionary, be
// its values unique, stay as they are stored.
TEST_F(ParquetStitch, ClusteredDeletesLeaveDictionariesAndOtherPagesAsTheyAre) {
  const auto schema = arrow::schema({arrow::field("s", arrow::utf8())});
  arrow::StringBuilder builder;
  for (int i = 0; i < 8000; ++i) ASSERT_TRUE(builder.Append(fmt::format("unique {}", i)).ok());
  const auto batch = arrow::RecordBatch::Make(schema, 8000, {builder.Finish().ValueOrDie()});
  parquet::WriterProperties::Builder properties;
  properties.max_rows_per_page(1000)->enable_write_page_index();
  properties.compression(parquet::Compression::ZSTD);
  WriteByLibrary("in", *ToTable({batch}), 8000, properties);
  const auto input = Input("in");
  Positions deleted;
  deleted.AddRun({.begin = 2100, .end = 2200});
  const RowFilter filter(std::move(deleted));
  StitchCounts counts;
  const StitchedRun run({{.input = input, .row_group = 0, .deleted = &filter}}, {}, memory_,
                        counts);
  WriteEncoded("out", schema, *input, {&run});
  EXPECT_EQ(counts.pages_copied, 7);
  EXPECT_EQ(counts.pages_filtered, 1);
  const auto dictionary = [&](const std::string& key) {
    const auto file = Input(key);
    const ChunkView view = *ViewChunk(file->footer.chunk(0, 0), key);
    EXPECT_TRUE(view.dictionary_page_offset.has_value());
    return *ReadRange(
        ctx_, *file->source,
        {.offset = view.bytes.offset, .length = view.data_page_offset - view.bytes.offset}, key);
  };
  EXPECT_EQ(dictionary("out"), dictionary("in"));
  std::vector<int64_t> kept;
  for (int64_t row = 0; row < 8000; ++row) {
    if (row < 2100 || row >= 2200) kept.push_back(row);
  }
  ExpectSameRows(*Read("out", schema), *TakeRows(*ToTable({batch}), kept));
}

// check: DATA-12
// check: DATA-13
TEST_F(ParquetStitch, ColumnsOfOtherPageBoundariesAndNestedOnesLoseTheSameRows) {
  const auto schema =
      arrow::schema({arrow::field("narrow", arrow::int32()), arrow::field("wide", arrow::utf8()),
                     arrow::field("l", arrow::list(arrow::int32()))});
  arrow::StringBuilder wide;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(wide.Append(fmt::format("{:>{}}", i, 20 + i % 50)).ok());
  }
  const auto batch = arrow::RecordBatch::Make(
      schema, 2000,
      {data::testing::RandomArray(random_, arrow::int32(), 2000, true), wide.Finish().ValueOrDie(),
       data::testing::RandomArray(random_, arrow::list(arrow::int32()), 2000, true)});
  parquet::WriterProperties::Builder builder;
  builder.disable_dictionary()->enable_write_page_index()->data_pagesize(1500);
  builder.write_batch_size(10);
  WriteByLibrary("in", *ToTable({batch}), 2000, builder);
  const auto input = Input("in");
  const auto pages = [&](int column) {
    const ChunkView view = *ViewChunk(input->footer.chunk(0, column), "in");
    return (*ReadOffsetIndex(ctx_, *input->source, view, 2000, "in"))->pages;
  };
  ASSERT_NE(pages(0).size(), pages(1).size());
  Positions deleted;
  std::vector<int64_t> kept;
  for (int64_t row = 0; row < 2000; ++row) {
    if (row >= 500 && row < 700) {
      deleted.Add(static_cast<uint64_t>(row));
    } else {
      kept.push_back(row);
    }
  }
  const RowFilter filter(std::move(deleted));
  StitchCounts counts;
  const StitchedRun run({{.input = input, .row_group = 0, .deleted = &filter}}, {}, memory_,
                        counts);
  WriteEncoded("out", schema, *input, {&run});
  ExpectSameRows(*Read("out", schema), *TakeRows(*ToTable({batch}), kept));
  EXPECT_EQ(counts.columns_decoded, 1);
  EXPECT_GT(counts.pages_filtered, 0);
  EXPECT_GT(counts.pages_copied, counts.pages_filtered);
}

// check: DATA-14
TEST_F(ParquetStitch, PositionsAfterADeleteAreCountedRight) {
  Positions deleted;
  for (uint64_t row = 0; row < 3000; ++row) {
    if (row / 64 % 5 == 0 || random_.Next() % 7 == 0) deleted.Add(row);
  }
  const RowFilter filter(deleted);
  int64_t wanted = 0;
  for (int64_t row = 0; row < 3000; ++row) {
    if (deleted.Contains(static_cast<uint64_t>(row))) continue;
    ASSERT_EQ(PositionWithout(filter, row), wanted);
    ++wanted;
  }
}

}  // namespace
}  // namespace partforge::data
