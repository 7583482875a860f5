#include <arrow/json/from_string.h>

#include "data/orc_sink.h"
#include "data/orc_source.h"
#include "data/parquet_rig.h"
#include "testing/faulty_store.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;

class Orc : public ParquetFixture {
 protected:
  WrittenFile WriteOrc(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                       OrcSinkOptions options) {
    auto sink = OpenOrcSink(ctx_, Create("f"), "f", batches.at(0)->schema(), std::move(options));
    EXPECT_TRUE(sink.ok()) << sink.status().ToString();
    for (const auto& batch : batches) {
      const Status status = (*sink)->Write(ctx_, *batch);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    auto written = (*sink)->Close(ctx_);
    EXPECT_TRUE(written.ok()) << written.status().ToString();
    return *written;
  }

  std::unique_ptr<BatchSource> OpenOrc(ScanSpec spec) {
    auto source = OpenOrcSource(ctx_, Object("f"), "f", std::move(spec), {.id = "x.id"}, memory_);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return std::move(*source);
  }

  // What ORC has: no fixed types, no time of day.
  static bool IsOrcType(const arrow::DataType& type) {
    switch (type.id()) {
      case arrow::Type::TIMESTAMP:  // not all random ones: TimesBefore1970AreWholeSecondsOrRefused
      case arrow::Type::TIME64:
      case arrow::Type::FIXED_SIZE_BINARY:
        return false;
      default:
        return std::all_of(type.fields().begin(), type.fields().end(),
                           [](const auto& field) { return IsOrcType(*field->type()); });
    }
  }
  std::shared_ptr<arrow::Schema> RandomOrcSchema(int columns) {
    while (true) {
      const auto schema = RandomSchema(random_, columns, true);
      const auto& fields = schema->fields();
      if (std::all_of(fields.begin(), fields.end(),
                      [](const auto& field) { return IsOrcType(*field->type()); })) {
        return schema;
      }
    }
  }
};

TEST_F(Orc, RandomSchemasComeBackEqual) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const auto schema = RandomOrcSchema(3);
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    for (int i = 0; i < 3; ++i) batches.push_back(RandomBatch(random_, schema, 1 + i * 400));
    const WrittenFile file =
        WriteOrc(batches, {.attributes = {.id = "x.id", .required = "x.required"},
                           .codec = static_cast<OrcCodec>(round % 5),
                           .stripe_bytes = 10'000,
                           .row_index_rows = 100});
    EXPECT_EQ(file.size_bytes, store_.Stat(ctx_, "f")->size_bytes);
    const auto wanted = ToTable(batches);
    EXPECT_EQ(file.row_count, wanted->num_rows());
    ScanSpec spec;
    spec.wanted = schema;
    ExpectSameRows(*ReadAll(ctx_, *OpenOrc(spec)), *wanted);
    if (HasFailure()) return;
  }
}

TEST_F(Orc, ColumnsAreFoundByIdAndInnerFieldsLeftOut) {
  const auto id = [](const char* name, std::shared_ptr<arrow::DataType> type, int number) {
    return WithFieldId(arrow::field(name, std::move(type)), number);
  };
  const auto schema = arrow::schema(
      {id("a", arrow::int32(), 1),
       id("s", arrow::struct_({id("x", arrow::int64(), 3), id("y", arrow::utf8(), 4)}), 2),
       id("m",
          std::make_shared<arrow::MapType>(
              WithFieldId(arrow::field("key", arrow::utf8(), false), 6),
              id("value", arrow::struct_({id("p", arrow::int32(), 8), id("q", arrow::utf8(), 9)}),
                 7)),
          5)});
  const auto batch = arrow::RecordBatch::FromStructArray(
                         arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()),
                                                          R"([{"a": 1, "s": {"x": 5, "y": "u"},
                                                "m": [["k", {"p": 1, "q": "z"}]]},
                                               {"a": null, "s": null, "m": null}])")
                             .ValueOrDie())
                         .ValueOrDie();
  WriteOrc({batch}, {.attributes = {.id = "x.id"}});
  ScanSpec spec;
  spec.wanted = arrow::schema({id("map",
                                  std::make_shared<arrow::MapType>(
                                      WithFieldId(arrow::field("key", arrow::utf8(), false), 6),
                                      id("value", arrow::struct_({id("q2", arrow::utf8(), 9)}), 7)),
                                  5),
                               id("rec", arrow::struct_({id("y2", arrow::utf8(), 4)}), 2),
                               id("long", arrow::int64(), 1), id("none", arrow::utf8(), 99)});
  const auto wanted =
      arrow::RecordBatch::FromStructArray(
          arrow::json::ArrayFromJSONString(arrow::struct_(spec.wanted->fields()),
                                           R"([{"map": [["k", {"q2": "z"}]], "rec": {"y2": "u"},
                                                "long": 1, "none": null},
                                               {"map": null, "rec": null, "long": null,
                                                "none": null}])")
              .ValueOrDie())
          .ValueOrDie();
  ExpectSameRows(*ReadAll(ctx_, *OpenOrc(spec)), *ToTable({wanted}));
}

TEST_F(Orc, WhatNullStructsHideIsNotWritten) {
  const auto inner = arrow::struct_({WithFieldId(arrow::field("f", arrow::int16(), false), 3)});
  const auto schema = arrow::schema({WithFieldId(
      arrow::field("c", arrow::struct_({WithFieldId(arrow::field("s", inner), 2)})), 1)});
  const auto f = arrow::json::ArrayFromJSONString(arrow::int16(), "[1, 77, 2]").ValueOrDie();
  const auto validity =
      arrow::json::ArrayFromJSONString(arrow::boolean(), "[true, false, true]").ValueOrDie();
  const auto s = std::make_shared<arrow::StructArray>(inner, 3, arrow::ArrayVector{f},
                                                      validity->data()->buffers[1], 1);
  const auto c =
      std::make_shared<arrow::StructArray>(schema->field(0)->type(), 3, arrow::ArrayVector{s});
  const auto batch = arrow::RecordBatch::Make(schema, 3, {c});
  WriteOrc({batch, batch->Slice(1)}, {.attributes = {.id = "x.id"}});
  ScanSpec spec;
  spec.wanted = schema;
  ExpectSameRows(*ReadAll(ctx_, *OpenOrc(spec)), *ToTable({batch, batch->Slice(1)}));
}

TEST_F(Orc, DeletedRowsAndPositionsWorkOverStripes) {
  const auto schema = RandomOrcSchema(2);
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (int i = 0; i < 6; ++i) batches.push_back(RandomBatch(random_, schema, 300));
  WriteOrc(batches, {.attributes = {.id = "x.id"}, .stripe_bytes = 4000, .row_index_rows = 100});
  Positions deleted;
  std::vector<int64_t> kept;
  for (int64_t row = 0; row < 1800; ++row) {
    if (random_.Next() % 3 == 0) {
      deleted.Add(static_cast<uint64_t>(row));
    } else {
      kept.push_back(row);
    }
  }
  const RowFilter filter(std::move(deleted));
  ScanSpec spec;
  spec.wanted = schema;
  spec.deleted = &filter;
  spec.position_column = "_pos";
  const auto got = ReadAll(ctx_, *OpenOrc(spec));
  const auto& positions =
      static_cast<const arrow::Int64Array&>(*got->GetColumnByName("_pos")->chunk(0));
  ASSERT_EQ(positions.length(), static_cast<int64_t>(kept.size()));
  for (int64_t i = 0; i < positions.length(); ++i) {
    ASSERT_EQ(positions.Value(i), kept[static_cast<size_t>(i)]);
  }
  ExpectSameRows(*got->RemoveColumn(got->num_columns() - 1).ValueOrDie(),
                 *TakeRows(*ToTable(batches), kept));
}

TEST_F(Orc, TimesBefore1970AreWholeSecondsOrRefused) {
  for (const auto unit : {arrow::TimeUnit::MILLI, arrow::TimeUnit::MICRO, arrow::TimeUnit::NANO}) {
    const auto type = arrow::timestamp(unit);
    const auto schema = arrow::schema(
        {WithFieldId(arrow::field("t", type), 1),
         WithFieldId(arrow::field("r", arrow::struct_({WithFieldId(arrow::field("t", type), 3)})),
                     2)});
    const auto batch = [&](const std::string& time) {
      return arrow::RecordBatch::FromStructArray(
                 arrow::json::ArrayFromJSONString(
                     arrow::struct_(schema->fields()),
                     R"([{"t": "2024-02-29 12:34:56.789", "r": {"t": "1970-01-01 00:00:00.001"}},
                         {"t": "1969-12-31 23:59:59", "r": null}, {"t": null, "r": {"t": ")" +
                         time + R"("}}])")
                     .ValueOrDie())
          .ValueOrDie();
    };
    WriteOrc({batch("1950-06-01 01:02:03")}, {.attributes = {.id = "x.id"}});
    ScanSpec spec;
    spec.wanted = schema;
    ExpectSameRows(*ReadAll(ctx_, *OpenOrc(spec)), *ToTable({batch("1950-06-01 01:02:03")}));
    auto sink = OpenOrcSink(ctx_, Create("g"), "g", schema, {});
    ASSERT_TRUE(sink.ok());
    const Status status = (*sink)->Write(ctx_, *batch("1950-06-01 01:02:03.5"));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), Code::kRefused);
    EXPECT_NE(status.message().find("column r"), std::string::npos) << status.ToString();
    sink->reset();
    EXPECT_EQ(store_.Stat(ctx_, "g").status().code(), Code::kNotFound);
  }
}

TEST_F(Orc, FilesCutShortAreErrorsAndNothingElse) {
  const auto schema = RandomOrcSchema(3);
  WriteOrc({RandomBatch(random_, schema, 500)}, {.attributes = {.id = "x.id"}});
  const std::string bytes = *ReadObject(ctx_, store_, "f");
  for (int round = 0; round < 60; ++round) {
    ASSERT_TRUE(
        WriteObject(ctx_, store_, "d", bytes.substr(0, random_.Next() % bytes.size())).ok());
    ScanSpec spec;
    spec.wanted = schema;
    EXPECT_FALSE(OpenOrcSource(ctx_, Object("d"), "d", spec, {.id = "x.id"}, memory_).ok());
  }
}

// ORC has no checksums, and the library trusts lengths: files with flipped bits end the process
// that decodes them. That must not be ours, and no more than an error that names the file.
TEST_F(Orc, FlippedBitsAreErrorsOrOtherRowsAndNothingElse) {
  const auto schema = RandomOrcSchema(4);
  int64_t refused = 0;
  for (int round = 0; round < 60; ++round) {
    if (round % 12 == 0) {
      WriteOrc({RandomBatch(random_, schema, 500)},
               {.attributes = {.id = "x.id"}, .codec = static_cast<OrcCodec>(round / 12 % 5)});
    }
    std::string bytes = *ReadObject(ctx_, store_, "f");
    for (uint64_t n = 1 + random_.Next() % 3; n > 0; --n) {
      bytes[random_.Next() % bytes.size()] ^= static_cast<char>(1 << (random_.Next() % 8));
    }
    ASSERT_TRUE(WriteObject(ctx_, store_, "d", bytes).ok());
    auto source =
        OpenOrcSource(ctx_, Object("d"), "d", {}, {.id = "x.id"}, memory_,
                      {.memory_bytes_max = int64_t{128} << 20, .batch_cpu_seconds_max = 5});
    Status status = source.ok() ? Status() : source.status();
    while (status.ok()) {
      const auto batch = (*source)->Next(ctx_);
      status = batch.ok() ? Status() : batch.status();
      if (batch.ok() && *batch == nullptr) break;
    }
    if (status.ok()) continue;
    ++refused;
    EXPECT_NE(status.message().find("read ORC d"), std::string::npos) << status.ToString();
    EXPECT_NE(status.code(), Code::kInternal) << status.ToString();
    EXPECT_NE(status.code(), Code::kUnavailable) << status.ToString();
  }
  EXPECT_GT(refused, 5);
}

TEST_F(Orc, AStoreThatDoesNotAnswerIsNoDamagedFile) {
  const auto batch = RandomBatch(random_, RandomOrcSchema(2), 300);
  WriteOrc({batch}, {.attributes = {.id = "x.id"}});
  partforge::testing::FaultyStore faulty(store_);
  // What could not be fetched ahead is asked for once more when it is needed.
  for (const bool reads_ahead : {true, false}) {
    ScanSpec spec;
    if (!reads_ahead) spec.read_ahead.held_bytes_max = 0;
    int64_t failed = 0, helped = 0;
    for (int64_t nth = 2;; ++nth) {
      faulty.FailAt(nth, partforge::testing::StoreFault::kRefused);
      auto object = faulty.Open(ctx_, "f");
      ASSERT_TRUE(object.ok());
      auto source = OpenOrcSource(ctx_, std::move(*object), "f", spec, {.id = "x.id"}, memory_);
      Status status = source.ok() ? Status() : source.status();
      int64_t rows = 0;
      while (status.ok()) {
        const auto next = (*source)->Next(ctx_);
        status = next.ok() ? Status() : next.status();
        if (next.ok() && *next == nullptr) break;
        if (next.ok()) rows += (*next)->num_rows();
      }
      if (!faulty.has_fired()) break;
      if (status.ok()) {
        EXPECT_EQ(rows, batch->num_rows());
        ++helped;
        continue;
      }
      ++failed;
      EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
    }
    EXPECT_GE(reads_ahead ? helped : failed, 1);
  }
}

// A program that is no decoder, or ends: the file is told from its reader.
TEST_F(Orc, ADecoderThatDoesNotWorkIsAnError) {
  WriteOrc({RandomBatch(random_, RandomOrcSchema(2), 300)}, {.attributes = {.id = "x.id"}});
  const auto open = [&](std::vector<std::string> argv) {
    return OpenOrcSource(ctx_, Object("f"), "f", {}, {}, memory_, {.argv = std::move(argv)})
        .status();
  };
  EXPECT_EQ(open({"/bin/no-such-program"}).code(), Code::kNotFound);
  EXPECT_FALSE(open({"/bin/true"}).ok());
  EXPECT_EQ(open({"/bin/sh", "-c", "kill -9 $$"}).code(), Code::kUnavailable);
  EXPECT_EQ(open({"/bin/sh", "-c", "kill -11 $$"}).code(), Code::kCorruption);
  EXPECT_EQ(open({"/bin/sh", "-c", "exec cat <&0 >&0"}).code(), Code::kCorruption);
}

}  // namespace
}  // namespace partforge::data
