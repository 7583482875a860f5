#include "data/orc_pruning.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/hash.h"
#include "data/counting_source.h"
#include "data/memory_bytes.h"
#include "data/metrics_collector.h"
#include "data/orc_sink.h"
#include "data/orc_source.h"
#include "data/parquet_rig.h"

namespace partforge::data {
namespace {

using data::testing::CountingSource;
using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;
using BatchRef = std::shared_ptr<arrow::RecordBatch>;

std::shared_ptr<arrow::Field> Id(const char* name, const std::shared_ptr<arrow::DataType>& type,
                                 int id) {
  return WithFieldId(arrow::field(name, type), id);
}

class OrcPruning : public ParquetFixture {
 protected:
  static constexpr int64_t kRows = 2000, kBatchRows = 100;

  static std::shared_ptr<arrow::Schema> Schema() {
    return arrow::schema(
        {Id("i", arrow::int32(), 1), Id("l", arrow::int64(), 2), Id("d", arrow::float64(), 3),
         Id("nan", arrow::float64(), 4), Id("f", arrow::float32(), 5), Id("s", arrow::utf8(), 6),
         Id("day", arrow::date32(), 7), Id("at", arrow::timestamp(arrow::TimeUnit::MICRO), 8),
         Id("utc", arrow::timestamp(arrow::TimeUnit::MILLI, "UTC"), 9),
         Id("x", arrow::decimal128(12, 2), 10), Id("w", arrow::decimal128(30, 5), 11),
         Id("b", arrow::boolean(), 12), Id("y", arrow::binary(), 13),
         Id("r", arrow::struct_({Id("p", arrow::int32(), 15)}), 14)});
  }

  // A value of a column that grows with `n`.
  static arrow::Status Append(arrow::ArrayBuilder& builder, int64_t n, bool is_nan) {
    switch (builder.type()->id()) {
      case arrow::Type::INT32:
        return static_cast<arrow::Int32Builder&>(builder).Append(static_cast<int32_t>(n - 500));
      case arrow::Type::INT64:
        return static_cast<arrow::Int64Builder&>(builder).Append((n - 500) * 1'000'000'007);
      case arrow::Type::DOUBLE:
        return static_cast<arrow::DoubleBuilder&>(builder).Append(
            is_nan ? std::numeric_limits<double>::quiet_NaN()
                   : static_cast<double>(n - 500) * 0.25);
      case arrow::Type::FLOAT:
        return static_cast<arrow::FloatBuilder&>(builder).Append(static_cast<float>(n - 500));
      case arrow::Type::STRING:
        return static_cast<arrow::StringBuilder&>(builder).Append(
            fmt::format("{}{:06}", n > 1000 ? "\xC3\xA9" : "e", n));
      case arrow::Type::BINARY:
        return static_cast<arrow::BinaryBuilder&>(builder).Append(fmt::format("{:06}", n));
      case arrow::Type::DATE32:
        return static_cast<arrow::Date32Builder&>(builder).Append(static_cast<int32_t>(n));
      case arrow::Type::TIMESTAMP: {
        const bool is_milli = static_cast<const arrow::TimestampType&>(*builder.type()).unit() ==
                              arrow::TimeUnit::MILLI;
        // Hours, and a bit.
        return static_cast<arrow::TimestampBuilder&>(builder).Append(is_milli ? n * 3'600'001
                                                                              : n * 3'600'000'777);
      }
      case arrow::Type::DECIMAL128:
        return static_cast<arrow::Decimal128Builder&>(builder).Append(
            arrow::Decimal128((n - 500) * 137));
      case arrow::Type::BOOL:
        return static_cast<arrow::BooleanBuilder&>(builder).Append(n > 800);
      case arrow::Type::STRUCT:
        ARROW_RETURN_NOT_OK(static_cast<arrow::StructBuilder&>(builder).Append());
        return Append(*builder.child(0), n, is_nan);
      default:
        return arrow::Status::NotImplemented(builder.type()->ToString());
    }
  }

  // Values that drift, with nulls, some batches of nothing but nulls, and NaN at the beginning of
  // some: their bounds must not be believed.
  std::vector<BatchRef> Drifting() {
    const auto schema = Schema();
    std::vector<BatchRef> batches;
    for (int64_t begin = 0; begin < kRows; begin += kBatchRows) {
      arrow::ArrayVector columns;
      for (const auto& field : schema->fields()) {
        auto builder = arrow::MakeBuilder(field->type()).ValueOrDie();
        const bool is_all_null = random_.Next() % 12 == 0;
        const bool has_nan = field->name() == "nan" && random_.Next() % 3 == 0;
        for (int64_t row = begin; row < begin + kBatchRows; ++row) {
          const auto noise = static_cast<int64_t>(random_.Next() % 150);
          const bool is_nan = has_nan && (row == begin || random_.Next() % 20 == 0);
          const bool is_null = is_all_null || random_.Next() % 15 == 0;
          const arrow::Status status =
              is_null ? builder->AppendNull() : Append(*builder, row + noise, is_nan);
          PF_CHECK(status.ok(), status.ToString());
        }
        columns.push_back(builder->Finish().ValueOrDie());
      }
      batches.push_back(arrow::RecordBatch::Make(schema, kBatchRows, columns));
    }
    return batches;
  }

  void WriteOrc(const std::vector<BatchRef>& batches, OrcSinkOptions options) {
    auto sink = OpenOrcSink(ctx_, Create("f"), "f", batches.at(0)->schema(), std::move(options));
    ASSERT_TRUE(sink.ok()) << sink.status().ToString();
    for (const auto& batch : batches) ASSERT_TRUE((*sink)->Write(ctx_, *batch).ok());
    ASSERT_TRUE((*sink)->Close(ctx_).ok());
  }

  std::unique_ptr<OrcSource> OpenOrc(ScanSpec spec, CountingSource::Counts* counts = nullptr) {
    auto object = Object("f");
    if (counts != nullptr) {
      object = std::make_unique<CountingSource>(std::move(object), *counts);
    }
    auto source =
        OpenOrcSource(ctx_, std::move(object), "f", std::move(spec), {.id = "x.id"}, memory_);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return std::move(*source);
  }

  // The values of a flat column as scalars; NaN, which has no bound, apart.
  struct Value {
    std::optional<Scalar> scalar = std::nullopt;
    bool is_null = false;
  };
  static std::vector<Value> ValuesOf(const std::vector<BatchRef>& batches, int column) {
    std::vector<Value> values;
    const auto schema = arrow::schema({batches[0]->schema()->field(column)});
    for (const auto& batch : batches) {
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        MetricsCollector collector(*schema);
        const auto one =
            arrow::RecordBatch::Make(schema, 1, {batch->column(column)->Slice(row, 1)});
        PF_CHECK(collector.Add(*one).ok(), "a row");
        const auto metrics = collector.Metrics().columns[0];
        Value value{.is_null = metrics.null_count == 1};
        if (metrics.lower) value.scalar = metrics.lower->value;
        values.push_back(std::move(value));
      }
    }
    return values;
  }
  static bool IsWanted(const ColumnRange& range, const Value& value) {
    if (value.is_null) return range.null_is_wanted;
    if (!value.scalar) return range.nan_is_wanted;
    if (range.lower && *value.scalar < *range.lower) return false;
    if (range.upper && *value.scalar > *range.upper) return false;
    if (range.equals.empty()) return true;
    return std::find(range.equals.begin(), range.equals.end(), *value.scalar) != range.equals.end();
  }
};

TEST_F(OrcPruning, NoRowThatIsWantedIsLeftOut) {
  int64_t pruned = 0;
  std::set<int> columns_pruned;
  const auto batches = Drifting();
  WriteOrc(batches, {.attributes = {.id = "x.id"},
                     .codec = OrcCodec::kNone,
                     .stripe_bytes = 20'000,
                     .row_index_rows = 100});
  const auto table = ToTable(batches);
  for (int column = 0; column < Schema()->num_fields() - 1; ++column) {
    SCOPED_TRACE(Schema()->field(column)->name());
    const std::vector<Value> values = ValuesOf(batches, column);
    const auto some = [&] {
      while (true) {
        const Value& value = values[random_.Next() % values.size()];
        if (value.scalar) return *value.scalar;
      }
    };
    for (int kind = 0; kind < 6; ++kind) {
      ColumnRange range{.column = {.id = column + 1}};
      if (kind == 0 || kind == 1 || kind == 4) range.lower = some();
      if (kind == 0 || kind == 2 || kind == 5) range.upper = some();
      if (kind == 0 && *range.upper < *range.lower) std::swap(range.lower, range.upper);
      if (kind == 3) range.equals = {some(), some()};
      range.null_is_wanted = kind == 4;
      range.nan_is_wanted = kind == 5;
      ScanSpec spec;
      spec.wanted = Schema();
      spec.position_column = "_pos";
      spec.ranges = {range};
      const auto source = OpenOrc(spec);
      const auto got = ReadAll(ctx_, *source);
      if (source->counts().stripes_pruned > 0) columns_pruned.insert(column);
      pruned += source->counts().stripes_pruned;
      std::vector<int64_t> rows;
      if (got->num_rows() > 0) {
        const auto& positions =
            static_cast<const arrow::Int64Array&>(*got->GetColumnByName("_pos")->chunk(0));
        rows.assign(positions.raw_values(), positions.raw_values() + positions.length());
        ExpectSameRows(*got->RemoveColumn(got->num_columns() - 1).ValueOrDie(),
                       *TakeRows(*table, rows));
      }
      const std::set<int64_t> there(rows.begin(), rows.end());
      for (int64_t row = 0; row < kRows; ++row) {
        ASSERT_TRUE(!IsWanted(range, values[static_cast<size_t>(row)]) || there.contains(row))
            << "kind " << kind << ", row " << row;
      }
      if (HasFailure()) return;
    }
  }
  // Bytes have no bounds, only stripes of nulls; all others do their work.
  EXPECT_GE(columns_pruned.size(), 10U);
  EXPECT_GT(pruned, 50);
}

TEST_F(OrcPruning, AllRangesMustHoldAndWithoutAnyNothingIsLeftOut) {
  WriteOrc(Drifting(), {.attributes = {.id = "x.id"},
                        .codec = OrcCodec::kNone,
                        .stripe_bytes = 10'000,
                        .row_index_rows = 100});
  const auto read = [&](std::vector<ColumnRange> ranges) {
    ScanSpec spec;
    spec.wanted = Schema();
    spec.ranges = std::move(ranges);
    const auto source = OpenOrc(spec);
    ReadAll(ctx_, *source);
    return source->counts();
  };
  const OrcReadCounts all = read({});
  EXPECT_EQ(all.stripes_pruned, 0);
  EXPECT_GT(all.stripes_read, 5);
  const ColumnRange low{.column = {.id = 1}, .upper = Scalar::Int32(0)};
  const ColumnRange high{.column = {.id = 2}, .lower = Scalar::Int64(int64_t{1000} << 30)};
  const OrcReadCounts one = read({low});
  EXPECT_GT(one.stripes_pruned, 0);
  EXPECT_EQ(one.stripes_pruned + one.stripes_read, all.stripes_read);
  EXPECT_GE(read({low, high}).stripes_pruned, one.stripes_pruned);
  // What is not there, is nested or is a list of bytes is no reason to leave anything out.
  EXPECT_EQ(read({{.column = {.id = 99}, .lower = Scalar::Int32(7)}}).stripes_pruned, 0);
  EXPECT_EQ(read({{.column = {.id = 15}, .upper = Scalar::Int32(-5000)}}).stripes_pruned, 0);
  EXPECT_EQ(read({{.column = {.id = 13}, .upper = Scalar::Bytes(""), .null_is_wanted = true}})
                .stripes_pruned,
            0);
}

TEST_F(OrcPruning, StripesAreFetchedAheadInFewRequestsAndColumnsAlone) {
  const auto schema = arrow::schema({Id("a", arrow::utf8(), 1), Id("b", arrow::int64(), 2)});
  std::vector<BatchRef> batches;
  for (int i = 0; i < 30; ++i) {
    batches.push_back(testing::RandomBatch(random_, schema, 2000));
  }
  WriteOrc(batches,
           {.attributes = {.id = "x.id"}, .codec = OrcCodec::kNone, .stripe_bytes = 400'000});
  const int64_t size = store_.Stat(ctx_, "f")->size_bytes;
  const auto read = [&](const std::shared_ptr<arrow::Schema>& wanted,
                        std::vector<ColumnRange> ranges, ReadAheadOptions read_ahead,
                        CountingSource::Counts& counts) {
    ScanSpec spec;
    spec.wanted = wanted;
    spec.ranges = std::move(ranges);
    spec.read_ahead = read_ahead;
    const auto source = OpenOrc(spec, &counts);
    const auto got = ReadAll(ctx_, *source);
    EXPECT_EQ(source->counts().requests, counts.requests.load());
    if (source->counts().stripes_pruned == 0) {
      EXPECT_EQ(got->num_rows(), 60'000);
    }
    return source->counts();
  };
  CountingSource::Counts all, one, none, ahead_off;
  const OrcReadCounts whole = read(schema, {}, {}, all);
  ASSERT_GE(whole.stripes_read, 4);
  EXPECT_LE(all.requests, 2 * whole.stripes_read + 3);
  EXPECT_LE(all.bytes, size + (int64_t{100} << 10));
  // One column: the bytes of the other stay where they are.
  read(arrow::schema({schema->field(1)}), {}, {.hole_bytes_max = 1000}, one);
  EXPECT_LE(one.requests, 4 * whole.stripes_read + 3);
  EXPECT_LT(one.bytes, size * 3 / 4);
  // Nothing can be there: only the tail is read.
  read(schema, {{.column = {.id = 1}, .lower = Scalar::String("\xF4\x8F\xBF\xBF\xF4\x8F\xBF\xBF")}},
       {}, none);
  EXPECT_LE(none.requests, 2);
  // Without room everything is read when it is asked for.
  read(schema, {}, {.held_bytes_max = 1000}, ahead_off);
  EXPECT_GT(ahead_off.requests, all.requests);
}

// A stripe that is too large to be fetched is read a piece of each stream at a time.
TEST_F(OrcPruning, StripesWithoutRoomAreReadInWindows) {
  const auto schema = arrow::schema({Id("a", arrow::utf8(), 1), Id("b", arrow::int64(), 2)});
  std::vector<BatchRef> batches;
  for (int i = 0; i < 40; ++i) batches.push_back(testing::RandomBatch(random_, schema, 2000));
  WriteOrc(batches, {.attributes = {.id = "x.id"}, .codec = OrcCodec::kNone});
  const auto table = ToTable(batches);
  int64_t requests_before = 0;
  for (const int64_t stream_bytes : {int64_t{0}, int64_t{16} << 20}) {
    for (const int columns : {1, 2}) {
      ScanSpec spec;
      spec.wanted = columns == 2 ? schema : arrow::schema({schema->field(0)});
      spec.read_ahead.held_bytes_max = 1000;
      spec.stream_bytes_max = stream_bytes;
      CountingSource::Counts counts;
      const auto source = OpenOrc(spec, &counts);
      const auto got = ReadAll(ctx_, *source);
      ExpectSameRows(*got, columns == 2 ? *table : *table->SelectColumns({0}).ValueOrDie());
      if (columns == 1) continue;
      if (stream_bytes > 0) {
        EXPECT_LT(counts.requests, requests_before);
      }
      requests_before = counts.requests;
    }
  }
}

// Tails of a good file, cut and changed: an error or other statistics, never more than that.
TEST_F(OrcPruning, DamagedTailsAreErrorsAndNothingElse) {
  for (int codec = 0; codec < 5; ++codec) {
    WriteOrc(Drifting(), {.attributes = {.id = "x.id"},
                          .codec = static_cast<OrcCodec>(codec),
                          .stripe_bytes = 50'000,
                          .row_index_rows = 100});
    const std::string bytes = *ReadObject(ctx_, store_, "f");
    MemorySource good(AsBytes(bytes));
    const auto tail = ReadOrcTail(ctx_, good, "f");
    ASSERT_TRUE(tail.ok()) << tail.status().ToString();
    EXPECT_EQ((*tail)->row_count, kRows);
    EXPECT_EQ((*tail)->types.size(), 16U);
    EXPECT_EQ((*tail)->FileStatistics().size(), 16U);
    EXPECT_EQ((*tail)->types[1].attributes.at(0),
              (std::pair<std::string, std::string>("x.id", "1")));
    const auto begin = static_cast<size_t>((*tail)->stripes.back().end());
    for (int round = 0; round < 300; ++round) {
      std::string damaged = bytes;
      for (uint64_t n = random_.Next() % 3; n < 3; ++n) {
        damaged[begin + random_.Next() % (bytes.size() - begin)] ^=
            static_cast<char>(1 << (random_.Next() % 8));
      }
      if (round % 5 == 0) damaged.resize(begin + random_.Next() % (bytes.size() - begin));
      MemorySource source(AsBytes(damaged));
      const auto other = ReadOrcTail(ctx_, source, "f");
      if (!other.ok()) {
        EXPECT_NE(other.status().message().find("ORC f"), std::string::npos);
        continue;
      }
      for (size_t i = 0; i < (*other)->stripes.size(); ++i) {
        (*other)->StripeStatistics(i);
        const auto footer = ReadOrcStripeFooter(ctx_, source, **other, i, "f");
        EXPECT_TRUE(footer.ok() || footer.status().code() == Code::kCorruption);
      }
    }
  }
}

}  // namespace
}  // namespace partforge::data
