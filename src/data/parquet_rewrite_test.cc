#include <arrow/io/memory.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/file_reader.h>
#include <parquet/page_index.h>
#include <parquet/statistics.h>

#include <numeric>

#include "data/metrics_collector.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/parquet_assembler.h"
#include "data/parquet_rewrite_rig.h"
#include "data/rewrite_plan.h"
#include "testing/faulty_store.h"

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

class ParquetRewrite : public ParquetRewriteFixture {
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

// check: DATA-1
TEST_F(ParquetRewrite, CopiedRowGroupsKeepEverything) {
  const auto schema = RandomSchema(random_, 6, true);
  Batches batches;
  for (int i = 0; i < 3; ++i) batches.push_back(RandomBatch(random_, schema, 400));
  ParquetSinkOptions options{.row_group_rows = 400, .page_rows = 70};
  const auto probe = ParquetSchemaOf(schema, options, memory_);
  ASSERT_TRUE(probe.ok());
  const auto leaves =
      LeafColumns(probe->tree.Find(parquet_field::file_metadata::kSchema)->items(), "probe");
  for (const LeafColumn& leaf : *leaves) {
    options.columns.push_back({.path = leaf.dotted_path, .bloom_distinct_count = 400});
  }
  Write("in", batches, options);
  const auto input = Input("in");
  std::vector<std::unique_ptr<CopiedRowGroup>> groups;
  std::vector<const EncodedRows*> rows;
  for (int i = 0; i < 6; ++i) {
    groups.push_back(std::make_unique<CopiedRowGroup>(input, i % 3, CopyOptions{}));
    rows.push_back(groups.back().get());
  }
  const WrittenFile file = WriteEncoded("out", schema, *input, rows);
  EXPECT_EQ(file.row_count, 2400);
  Batches twice = batches;
  twice.insert(twice.end(), batches.begin(), batches.end());
  ExpectSameRows(*Read("out", schema), *ToTable(twice));

  const auto open = [&](const std::string& key) {
    const std::string bytes = *ReadObject(ctx_, store_, key);
    return parquet::ParquetFileReader::Open(
        std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
  };
  // Header and bits of a bloom filter; none for types without.
  const auto filter_of = [&](const ParquetInput& of, int g, int c) -> std::string {
    const auto filter =
        *ReadBloomFilter(ctx_, *of.source, *ViewChunk(of.footer.chunk(g, c), "file"), "file");
    return filter ? filter->header + filter->bits : "";
  };
  EXPECT_GT(filter_of(*input, 0, 0).size() + filter_of(*input, 0, 1).size(), 32U);
  const auto in = open("in"), out = open("out");
  ASSERT_EQ(out->metadata()->num_row_groups(), 6);
  EXPECT_TRUE(out->metadata()->schema()->Equals(*in->metadata()->schema()));
  for (int g = 0; g < 6; ++g) {
    const auto a = in->metadata()->RowGroup(g % 3), b = out->metadata()->RowGroup(g);
    const auto index_a = in->GetPageIndexReader()->RowGroup(g % 3);
    const auto index_b = out->GetPageIndexReader()->RowGroup(g);
    for (int c = 0; c < a->num_columns(); ++c) {
      const auto chunk_a = a->ColumnChunk(c), chunk_b = b->ColumnChunk(c);
      EXPECT_EQ(chunk_a->num_values(), chunk_b->num_values());
      EXPECT_EQ(chunk_a->encodings(), chunk_b->encodings());
      EXPECT_EQ(chunk_a->is_stats_set(), chunk_b->is_stats_set());
      if (chunk_a->is_stats_set()) {
        EXPECT_TRUE(chunk_a->statistics()->Equals(*chunk_b->statistics()));
      }
      EXPECT_EQ(out->metadata()->schema()->Column(c)->schema_node()->field_id(),
                in->metadata()->schema()->Column(c)->schema_node()->field_id());
      const auto offsets_a = index_a->GetOffsetIndex(c), offsets_b = index_b->GetOffsetIndex(c);
      ASSERT_NE(offsets_b, nullptr);
      ASSERT_EQ(offsets_a->page_locations().size(), offsets_b->page_locations().size());
      for (size_t p = 0; p < offsets_a->page_locations().size(); ++p) {
        const auto &page_a = offsets_a->page_locations()[p],
                   &page_b = offsets_b->page_locations()[p];
        EXPECT_EQ(page_a.first_row_index, page_b.first_row_index);
        EXPECT_EQ(page_a.compressed_page_size, page_b.compressed_page_size);
        // The same place in its chunk.
        EXPECT_EQ(page_a.offset - chunk_a->data_page_offset(),
                  page_b.offset - chunk_b->data_page_offset());
      }
      const auto columns_a = index_a->GetColumnIndex(c), columns_b = index_b->GetColumnIndex(c);
      ASSERT_EQ(columns_a == nullptr, columns_b == nullptr);
      if (columns_a != nullptr) {
        EXPECT_EQ(columns_a->encoded_min_values(), columns_b->encoded_min_values());
        EXPECT_EQ(columns_a->encoded_max_values(), columns_b->encoded_max_values());
        EXPECT_EQ(columns_a->null_pages(), columns_b->null_pages());
        EXPECT_EQ(columns_a->boundary_order(), columns_b->boundary_order());
        EXPECT_EQ(columns_a->null_counts(), columns_b->null_counts());
      }
      EXPECT_EQ(filter_of(*input, g % 3, c), filter_of(*Input("out"), g, c));
    }
  }
}

TEST_F(ParquetRewrite, EachObstacleHasItsReason) {
  const auto id = [](const char* name, std::shared_ptr<arrow::DataType> type, int number) {
    return WithFieldId(arrow::field(name, std::move(type)), number);
  };
  const auto schema = arrow::schema({id("a", arrow::int64(), 1), id("b", arrow::utf8(), 2)});
  Write("in", {RandomBatch(random_, schema, 100)});
  const auto input = Input("in");
  const auto reason = [&](const std::shared_ptr<arrow::Schema>& wanted, CopyTarget target,
                          const RowFilter* deleted) {
    const auto footer = ParquetSchemaOf(wanted, {}, memory_);
    target.schema = &footer->tree.Find(parquet_field::file_metadata::kSchema)->items();
    return JudgeCopy(*input, 0, deleted, target)->Reason();
  };
  const CopyTarget any{.small_is_fine = true};
  EXPECT_EQ(reason(schema, any, nullptr), "");
  // Renamed, reordered or dropped columns do not matter when ids tell them apart.
  EXPECT_EQ(
      reason(arrow::schema({id("bb", arrow::utf8(), 2), id("a", arrow::int64(), 1)}), any, nullptr),
      "");
  EXPECT_EQ(reason(arrow::schema({id("b", arrow::utf8(), 2)}), any, nullptr), "");
  EXPECT_EQ(
      reason(arrow::schema({id("a", arrow::int32(), 1), id("b", arrow::utf8(), 2)}), any, nullptr),
      "schema differs: a");
  EXPECT_EQ(reason(arrow::schema({id("a", arrow::int64(), 1)->WithNullable(false),
                                  id("b", arrow::utf8(), 2)}),
                   any, nullptr),
            "schema differs: a");
  EXPECT_EQ(reason(arrow::schema({id("a", arrow::int64(), 1), id("b", arrow::utf8(), 2),
                                  id("c", arrow::utf8(), 3)}),
                   any, nullptr),
            "needs projection: c");
  EXPECT_EQ(reason(arrow::schema({id("_KEY_a", arrow::int64(), 9), id("a", arrow::int64(), 1),
                                  id("b", arrow::utf8(), 2)}),
                   any, nullptr),
            "key columns differ: _KEY_a");
  EXPECT_EQ(reason(schema, {.order_is_wanted = true}, nullptr), "sort");
  EXPECT_EQ(reason(schema, {}, nullptr), "small row groups");
  Positions one;
  one.Add(50);
  const RowFilter deleted(std::move(one));
  EXPECT_EQ(reason(schema, any, &deleted), "deleted rows");
}

// check: DATA-6
TEST_F(ParquetRewrite, StitchedRandomFilesHaveTheRowsOfTheirInputs) {
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
TEST_F(ParquetRewrite, DeletedRowsLeavePageByPage) {
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

// check: DATA-4
TEST_F(ParquetRewrite, DictionariesAreKeptUnitedOrMaterialised) {
  const auto schema = arrow::schema({arrow::field("s", arrow::utf8())});
  const auto column = [&](const std::function<std::string(int)>& value, int rows) {
    arrow::StringBuilder builder;
    for (int i = 0; i < rows; ++i) {
      const std::string text = value(i);
      EXPECT_TRUE((text == "null" ? builder.AppendNull() : builder.Append(text)).ok());
    }
    return arrow::RecordBatch::Make(schema, rows, {builder.Finish().ValueOrDie()});
  };
  const auto stitch = [&](const Batches& batches, bool by_dictionary = true,
                          int64_t dictionary_bytes = 1 << 20) {
    std::vector<StitchPart> parts;
    for (size_t i = 0; i < batches.size(); ++i) {
      parquet::WriterProperties::Builder builder;
      if (!by_dictionary) builder.disable_dictionary();
      builder.max_rows_per_page(1000)->enable_write_page_index();
      builder.dictionary_pagesize_limit(dictionary_bytes);
      const std::string key = fmt::format("in{}", i);
      WriteByLibrary(key, *ToTable({batches[i]}), 1 << 20, builder);
      parts.push_back({.input = Input(key), .row_group = 0});
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    WriteEncoded("out", schema, *parts[0].input, {&run});
    ExpectSameRows(*Read("out", schema), *ToTable(batches));
    return counts;
  };
  // Dictionary pages of what was written, and the bit width that pages of indices begin with, in
  // order and once each.
  const auto written = [&]() {
    const auto out = Input("out");
    const ChunkView view = *ViewChunk(out->footer.chunk(0, 0), "out");
    const std::string bytes = *ReadRange(ctx_, *out->source, view.bytes, "out");
    auto compressor = PageCompressor::Make(view.codec, std::nullopt);
    std::pair<int, std::vector<int>> found;
    const auto pages = ListPages(std::as_bytes(std::span(bytes)), view.num_values, "out");
    EXPECT_TRUE(pages.ok());
    for (const Page& page : *pages) {
      if (page.header.type == PageType::kDictionary) ++found.first;
      if (!page.header.is_data() ||
          page.header.encoding != static_cast<int>(PageEncoding::kRleDictionary)) {
        continue;
      }
      OpenedPage opened;
      EXPECT_TRUE(OpenPage(page, out->columns[0], *compressor, "out", opened).ok());
      const int width = static_cast<int>(opened.values[0]);
      if (found.second.empty() || found.second.back() != width) found.second.push_back(width);
    }
    return found;
  };
  using Written = std::pair<int, std::vector<int>>;
  const auto mod = [](int n, const std::string& prefix) {
    return [n, prefix](int i) { return prefix + std::to_string(i % n); };
  };
  // Equal dictionaries, and one that is the beginning of another.
  StitchCounts counts = stitch({column(mod(50, "v"), 3000), column(mod(50, "v"), 2000)});
  EXPECT_EQ(counts.pages_copied, 5);
  EXPECT_EQ(counts.pages_remapped, 0);
  EXPECT_EQ(written(), (Written{1, {6}}));
  counts = stitch({column(mod(20, "v"), 3000), column(mod(50, "v"), 2000)});
  EXPECT_EQ(counts.pages_copied, 5);
  EXPECT_EQ(written(), (Written{1, {5, 6}}));  // each page keeps the width it was written with
  // Small and different: the second file's indices move.
  counts = stitch({column(mod(50, "a"), 3000), column(mod(50, "b"), 2000)});
  EXPECT_EQ(counts.pages_copied, 3);
  EXPECT_EQ(counts.pages_remapped, 2);
  EXPECT_EQ(written(), (Written{1, {6, 7}}));  // of 100 entries
  // Unique values.
  counts = stitch({column(mod(1 << 30, "a"), 3000), column(mod(1 << 30, "b"), 2000)});
  EXPECT_EQ(counts.pages_materialised, 5);
  EXPECT_EQ(written(), (Written{0, {}}));
  // No dictionary at all.
  counts = stitch({column(mod(9, "a"), 3000), column(mod(9, "b"), 2000)}, false);
  EXPECT_EQ(counts.pages_copied, 5);
  // One entry, a chunk of nulls, a page of nulls.
  counts = stitch({column(mod(1, "a"), 3000), column([](int) { return "null"; }, 1500),
                   column([](int i) { return i < 1000 ? "null" : "z"; }, 2000)});
  EXPECT_EQ(counts.pages_materialised, 0);
  EXPECT_EQ(counts.columns_decoded, 0);
  EXPECT_EQ(written().first, 1);
  // One entry in each of two: two in the end.
  counts = stitch({column(mod(1, "a"), 3000), column(mod(1, "b"), 2000)});
  EXPECT_EQ(counts.pages_remapped, 2);
  EXPECT_EQ(written(), (Written{1, {1}}));
  // A dictionary that was given up: pages of values behind pages of indices.
  counts = stitch({column(mod(50, "a"), 3000), column(mod(900, "b"), 3000)}, true, 400);
  EXPECT_EQ(counts.columns_decoded, 0);
  // 2^16 + 1 entries: indices of 17 bits, each value often enough.
  counts = stitch({column(mod(1, "first"), 300'000), column(mod(65'537, ""), 300'000)});
  EXPECT_GT(counts.pages_remapped, 0);
  EXPECT_EQ(written().first, 1);
  EXPECT_EQ(written().second.back(), 17);
}

// Deleted rows that lie together touch one page of a row group; the others and the dictionary, be
// its values unique, stay as they are stored.
TEST_F(ParquetRewrite, ClusteredDeletesLeaveDictionariesAndOtherPagesAsTheyAre) {
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

// A file of one required column whose one page holds `count` times the one entry of its dictionary,
// in indices of no bit.
// check: DATA-4
TEST_F(ParquetRewrite, IndicesOfNoBitAreRead) {
  const auto schema = arrow::schema({arrow::field("s", arrow::utf8(), false)});
  arrow::StringBuilder other;
  ASSERT_TRUE(other.AppendValues({"a", "b", "a"}).ok());
  Write("other", {arrow::RecordBatch::Make(schema, 3, {other.Finish().ValueOrDie()})},
        {.columns = {{.path = "s", .dictionary = DictionaryChoice::kAlways}}});
  const auto input = Input("other");

  const auto bytes = Create("one");
  auto file = ParquetAssembler::Make(input->schema(), {.file_name = "one"}, *bytes);
  ASSERT_TRUE(file.ok());
  auto compressor = PageCompressor::Make(0, std::nullopt);
  std::string pages;
  ASSERT_TRUE(WriteDictionaryPage(std::string("\x01\0\0\0z", 5), 1, *compressor, pages).ok());
  const auto data_page = static_cast<int64_t>(pages.size());
  ASSERT_TRUE(WriteDataPage({.num_values = 5,
                             .encoding = static_cast<int>(PageEncoding::kRleDictionary),
                             .values = std::string_view("\0", 1)},
                            file->columns()[0], *compressor, pages)
                  .ok());
  using namespace parquet_field::column_metadata;  // NOLINT: a list of fields follows
  ThriftValue metadata = ThriftValue::Struct();
  metadata.Set(kType, ThriftValue::I32(6));
  metadata.Set(kEncodings, ThriftValue::List(ThriftType::kI32, {ThriftValue::I32(8)}));
  metadata.Set(kCodec, ThriftValue::I32(0));
  metadata.Set(kNumValues, ThriftValue::I64(5));
  metadata.Set(kTotalUncompressedSize, ThriftValue::I64(static_cast<int64_t>(pages.size())));
  metadata.Set(kTotalCompressedSize, ThriftValue::I64(static_cast<int64_t>(pages.size())));
  metadata.Set(kDataPageOffset, ThriftValue::I64(4 + data_page));
  metadata.Set(kDictionaryPageOffset, ThriftValue::I64(4));
  EncodedChunk chunk;
  chunk.chunk.Set(parquet_field::column_chunk::kMetaData, std::move(metadata));
  chunk.pages_began_at = 4;
  ASSERT_TRUE(file->BeginRowGroup(ctx_, 5).ok());
  ASSERT_TRUE(file->AppendPages(ctx_, std::as_bytes(std::span(pages))).ok());
  ASSERT_TRUE(file->EndChunk(std::move(chunk)).ok());
  ASSERT_TRUE(file->EndRowGroup(ctx_).ok());
  const auto finished = file->Finish(ctx_);
  ASSERT_TRUE(finished.ok()) << finished.status().ToString();
  ASSERT_TRUE(bytes->Close(ctx_).ok());

  StitchCounts counts;
  const StitchedRun run({{.input = input, .row_group = 0}, {.input = Input("one"), .row_group = 0}},
                        {}, memory_, counts);
  WriteEncoded("out", schema, *input, {&run});
  EXPECT_EQ(counts.pages_remapped, 1);
  const auto rows = Read("out", schema);
  const auto& texts = static_cast<const arrow::StringArray&>(*rows->column(0)->chunk(0));
  ASSERT_EQ(texts.length(), 8);
  EXPECT_EQ(texts.GetView(1), "b");
  for (int64_t i = 3; i < 8; ++i) EXPECT_EQ(texts.GetView(i), "z");
}

// check: DATA-12
// check: DATA-13
TEST_F(ParquetRewrite, ColumnsOfOtherPageBoundariesAndNestedOnesLoseTheSameRows) {
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
TEST_F(ParquetRewrite, PositionsAfterADeleteAreCountedRight) {
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

TEST_F(ParquetRewrite, StatisticsOfStitchedFilesEqualARecount) {
  const auto schema = arrow::schema(
      {arrow::field("i", arrow::int64()), arrow::field("d", arrow::float64()),
       arrow::field("s", arrow::utf8()), arrow::field("x", arrow::decimal128(30, 3))});
  for (int round = 0; round < 10; ++round) {
    Batches batches;
    std::vector<StitchPart> parts;
    for (int f = 0; f < 3; ++f) {
      batches.push_back(RandomBatch(random_, schema, 200));
      const std::string key = fmt::format("in{}", f);
      Write(key, {batches.back()}, {.row_group_rows = 90});
      const auto input = Input(key);
      for (int g = 0; g < 3; ++g) parts.push_back({.input = input, .row_group = g});
    }
    const WrittenFile whole = Write("whole", batches);
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    const WrittenFile file = WriteEncoded("out", schema, *parts[0].input, {&run});
    for (size_t c = 0; c < 4; ++c) {
      const ColumnMetrics& got = file.metrics.columns[c];
      const ColumnMetrics& wanted = whole.metrics.columns[c];
      EXPECT_EQ(got.value_count, wanted.value_count);
      EXPECT_EQ(got.null_count, wanted.null_count);
      // One input without a bound (all NaN) leaves the result without: never half.
      if (!got.lower || !wanted.lower) continue;
      EXPECT_EQ(got.lower->value, wanted.lower->value) << got.path;
      EXPECT_EQ(got.upper->value, wanted.upper->value) << got.path;
    }
  }
}

// check: DATA-7
TEST_F(ParquetRewrite, JoinedBloomFiltersMissNothing) {
  const auto schema = arrow::schema({arrow::field("k", arrow::utf8())});
  for (const bool by_dictionary : {false, true}) {
    std::vector<StitchPart> parts;
    for (int f = 0; f < 4; ++f) {
      arrow::StringBuilder builder;
      for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(
            builder.Append(fmt::format("k{}", by_dictionary ? i % 40 + f : i * 4 + f)).ok());
      }
      const std::string key = fmt::format("in{}", f);
      Write(key, {arrow::RecordBatch::Make(schema, 500, {builder.Finish().ValueOrDie()})},
            {.columns = {{.path = "k",
                          .dictionary =
                              by_dictionary ? DictionaryChoice::kAlways : DictionaryChoice::kNever,
                          .bloom_distinct_count = by_dictionary ? 50 : 3000,
                          .bloom_false_positive_rate = 0.01}}});
      parts.push_back({.input = Input(key), .row_group = 0});
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    WriteEncoded("out", schema, *parts[0].input, {&run});
    const auto out = Input("out");
    const auto view = ViewChunk(out->footer.chunk(0, 0), "out");
    const auto filter = ReadBloomFilter(ctx_, *out->source, *view, "out");
    ASSERT_TRUE(filter.ok() && filter->has_value());
    const auto rows = Read("out", schema);
    const auto& texts = static_cast<const arrow::StringArray&>(*rows->column(0)->chunk(0));
    for (int64_t i = 0; i < texts.length(); ++i) {
      ASSERT_TRUE(MayContain(**filter, texts.GetView(i)));
    }
    int64_t wrong = 0;
    for (int i = 0; i < 10'000; ++i) wrong += MayContain(**filter, fmt::format("other{}", i));
    EXPECT_LE(wrong, 200);
  }
}

// Filters that are as full as they may be are not joined: what came out would find nearly anything.
// Where dictionaries tell the values a larger one is made.
// check: DATA-7
TEST_F(ParquetRewrite, BloomFiltersThatAreFullAreLeftOutOrMadeAnew) {
  const auto schema = arrow::schema({arrow::field("k", arrow::utf8())});
  for (const bool by_dictionary : {false, true}) {
    SCOPED_TRACE(by_dictionary);
    std::vector<StitchPart> parts;
    for (int f = 0; f < 8; ++f) {
      arrow::StringBuilder builder;
      for (int i = 0; i < 2000; ++i) {
        ASSERT_TRUE(builder.Append(fmt::format("k{}", f * 2000 + i % 400)).ok());
      }
      const std::string key = fmt::format("in{}", f);
      Write(key, {arrow::RecordBatch::Make(schema, 2000, {builder.Finish().ValueOrDie()})},
            {.columns = {{.path = "k",
                          .dictionary =
                              by_dictionary ? DictionaryChoice::kAlways : DictionaryChoice::kNever,
                          .bloom_distinct_count = 400,
                          .bloom_false_positive_rate = 0.01}}});
      parts.push_back({.input = Input(key), .row_group = 0});
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    WriteEncoded("out", schema, *parts[0].input, {&run});
    const auto out = Input("out");
    const auto filter =
        ReadBloomFilter(ctx_, *out->source, *ViewChunk(out->footer.chunk(0, 0), "out"), "out");
    ASSERT_TRUE(filter.ok()) << filter.status().ToString();
    EXPECT_EQ(filter->has_value(), by_dictionary);
    if (!filter->has_value()) continue;
    for (int f = 0; f < 8; ++f) {
      for (int i = 0; i < 400; ++i) {
        ASSERT_TRUE(MayContain(**filter, fmt::format("k{}", f * 2000 + i)));
      }
    }
    EXPECT_LE(FalsePositiveRate(**filter), 0.02);
  }
}

TEST_F(ParquetRewrite, PlanPicksTheCheapestStepAndTheRunKeepsAllRows) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const auto schema = RandomSchema(random_, 4, round % 3 == 2);
    std::vector<RewriteInput> inputs;
    std::vector<std::unique_ptr<RowFilter>> filters;
    Batches all;
    std::vector<int64_t> kept;
    int64_t row = 0;
    for (int f = 0; f < 4; ++f) {
      const auto batch = RandomBatch(random_, schema, 500);
      const std::string key = fmt::format("in{}", f);
      Write(key, {batch}, {.row_group_rows = f % 2 == 0 ? 500 : 90, .page_rows = 50});
      Positions deleted;
      for (uint64_t i = 0; i < 500; ++i, ++row) {
        const bool is_deleted = f == 1 ? random_.Next() % 20 == 0 : f == 2 && i < 100;
        if (is_deleted) deleted.Add(i);
        if (!is_deleted) kept.push_back(row);
      }
      filters.push_back(std::make_unique<RowFilter>(std::move(deleted)));
      inputs.push_back({.file = Input(key), .deleted = filters.back().get()});
      all.push_back(batch);
    }
    RewriteTarget target;
    target.copy.schema = &inputs[0].file->schema();
    target.copy.row_group_bytes = round % 2 == 0 ? 20'000 : 1 << 20;
    target.decodes_always = round == 11;
    const auto steps = PlanRewrite(inputs, target);
    ASSERT_TRUE(steps.ok()) << steps.status().ToString();
    ASSERT_FALSE(steps->empty());
    EXPECT_NE((*steps)[0].kind == StepKind::kDecode, round != 11);
    const auto factory = [&](const Context& ctx, int64_t number) -> Result<RollingSink::Opened> {
      RollingSink::Opened opened{.key = fmt::format("out/{}", number), .sink = nullptr};
      PF_ASSIGN(auto bytes, store_.Create(ctx, opened.key, -1));
      ParquetSinkOptions options;
      options.schema_of = &inputs[0].file->footer;
      PF_ASSIGN(opened.sink,
                ParquetSink::Open(ctx, std::move(bytes), opened.key, schema, options, memory_));
      return opened;
    };
    RollingSink sink(store_, factory, {.size_bytes = round % 4 == 0 ? 30'000 : 1 << 30});
    RewriteCounts counts;
    const Status status =
        RunRewrite(ctx_, inputs, *steps, target, schema, {}, sink, memory_, counts);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto files = sink.Close(ctx_);
    ASSERT_TRUE(files.ok());
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (const WrittenFile& file : *files) {
      ScanSpec spec;
      spec.wanted = schema;
      sources.push_back(Open(file.key, spec));
    }
    ConcatenatedBatches joined(std::move(sources));
    ExpectSameRows(*ReadAll(ctx_, joined), *TakeRows(*ToTable(all), kept));
    if (HasFailure()) return;
  }
}

// The quick way is what is counted: requests to the store do not grow with row groups, and no row
// is decoded. check: DATA-8
TEST_F(ParquetRewrite, ManyRowGroupsOfOneRowBecomeFew) {
  constexpr int64_t kRows = 10'000;
  const auto schema = arrow::schema({WithFieldId(arrow::field("a", arrow::int64(), false), 1),
                                     WithFieldId(arrow::field("b", arrow::utf8(), false), 2)});
  arrow::Int64Builder numbers;
  arrow::StringBuilder texts;
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_TRUE(numbers.Append(i * 7).ok() && texts.Append(fmt::format("text {:06}", i)).ok());
  }
  const auto batch = arrow::RecordBatch::Make(
      schema, kRows, {numbers.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
  parquet::WriterProperties::Builder builder;
  builder.disable_write_page_index()->disable_dictionary();
  WriteByLibrary("in", *ToTable({batch}), 1, builder);
  partforge::testing::FaultyStore counting(store_);
  auto object = counting.Open(ctx_, "in");
  ASSERT_TRUE(object.ok());
  auto input = OpenParquetInput(ctx_, std::move(*object), "in");
  ASSERT_TRUE(input.ok());
  const std::vector<RewriteInput> inputs{{.file = *input}};
  // All row groups are of one size: a run takes as many as the target does.
  const int64_t group_bytes = inputs[0].file->CompressedBytes(0);
  constexpr int64_t kGroupsOfARun = 1500;
  RewriteTarget target;
  target.copy.schema = &inputs[0].file->schema();
  target.copy.row_group_bytes = group_bytes * kGroupsOfARun;
  const auto steps = PlanRewrite(inputs, target);
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 7U);  // 10,000 by 1,500, rounded up
  std::vector<std::unique_ptr<StitchedRun>> runs;
  std::vector<const EncodedRows*> rows;
  StitchCounts counts;
  for (const RewriteStep& step : *steps) {
    std::vector<StitchPart> parts;
    for (const GroupRef& group : step.groups) {
      parts.push_back({.input = inputs[0].file, .row_group = group.row_group});
    }
    runs.push_back(std::make_unique<StitchedRun>(parts, StitchOptions{}, memory_, counts));
    rows.push_back(runs.back().get());
  }
  const WrittenFile file = WriteEncoded("out", schema, *inputs[0].file, rows);
  EXPECT_EQ(file.split_offsets.size(), steps->size());
  EXPECT_EQ(counts.columns_decoded, 0);
  EXPECT_EQ(counts.pages_copied, 2 * kRows);
  EXPECT_LT(counting.request_count(), 200);
  ExpectSameRows(*Read("out", schema), *ToTable({batch}));
}

TEST_F(ParquetRewrite, DamagedInputsAreErrorsAndNothingElse) {
  const auto schema = RandomSchema(random_, 4, true);
  Write("in", {RandomBatch(random_, schema, 300)}, {.row_group_rows = 100, .page_rows = 30});
  const std::string bytes = *ReadObject(ctx_, store_, "in");
  const auto bodies = PageBodies("in");
  // What is damaged under a checksum is always seen, whether its page is copied or not.
  const auto rewrite = [&](const std::string& damaged) -> Status {
    PF_TRY(WriteObject(ctx_, store_, "d", damaged));
    PF_ASSIGN(const auto input, OpenParquetInput(ctx_, Object("d"), "d"));
    std::vector<StitchPart> parts;
    Positions deleted;
    deleted.Add(5);
    deleted.Add(150);
    const RowFilter filter(std::move(deleted));
    for (int g = 0; g < input->footer.row_group_count(); ++g) {
      parts.push_back({.input = input, .row_group = g, .deleted = &filter});
    }
    ParquetSinkOptions options;
    options.schema_of = &input->footer;
    PF_ASSIGN(auto sink, ParquetSink::Open(ctx_, Create("o"), "o", schema, options, memory_));
    StitchCounts counts;
    PF_TRY(sink->AppendEncoded(ctx_, StitchedRun(parts, {}, memory_, counts)));
    return sink->AppendEncoded(ctx_, CopiedRowGroup(input, 0, {}));
  };
  for (int round = 0; round < 300; ++round) {
    if (round % 3 == 0) {
      EXPECT_FALSE(rewrite(FlipBitsOfOne(bytes, bodies)).ok()) << round;
    } else {
      const Status status =
          rewrite(FlipBits(bytes, round % 3 == 1 ? 0 : bytes.size() / 2, bytes.size()));
      EXPECT_TRUE(status.ok() || status.code() != Code::kInternal) << status.ToString();
    }
  }
}

}  // namespace
}  // namespace partforge::data
