// Whatever request to the store fails, and however, while files are read, looked into, merged or
// joined: what comes of it is that failure or the right rows, and no half of a file.
// (Copying, joining and filtering of row groups: parquet_conformance_test.cc; ORC: orc_test.cc.)

#include <fmt/format.h>

#include "base/hash.h"
#include "data/avro_sink.h"
#include "data/avro_source.h"
#include "data/bitmap.h"
#include "data/file_concat.h"
#include "data/file_inspect.h"
#include "data/file_merge.h"
#include "data/file_verify.h"
#include "data/lookup_pool.h"
#include "data/parquet_rig.h"
#include "data/puffin.h"
#include "testing/faulty_store.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::ToTable;
using partforge::testing::FaultyStore;
using partforge::testing::StoreFault;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

// All rows of a source, or its failure.
Result<std::shared_ptr<arrow::Table>> RowsOf(const Context& ctx, BatchSource& source) {
  Batches batches;
  while (true) {
    PF_ASSIGN(auto batch, source.Next(ctx));
    if (batch == nullptr) break;
    batches.push_back(std::move(batch));
  }
  PF_ARROW_ASSIGN(const auto table, arrow::Table::FromRecordBatches(source.schema(), batches));
  PF_ARROW_ASSIGN(auto whole, table->CombineChunks());
  return whole;
}

class StoreFailures : public ParquetFixture {
 protected:
  // Runs again and again, each time with the next request failing, until none is left to fail. What
  // was read ahead is asked for again when it is needed: those runs succeed.
  void FailEach(
      const std::function<Status()>& run, int64_t failures_min,
      const std::function<void()>& expect_nothing_left = [] {}) {
    const int64_t held_before = memory_.allocated_bytes();
    for (const StoreFault fault : {StoreFault::kRefused, StoreFault::kCut}) {
      SCOPED_TRACE(static_cast<int>(fault));
      int64_t failed = 0;
      for (int64_t nth = 1;; ++nth) {
        SCOPED_TRACE(nth);
        faulty_.FailAt(nth, fault);
        const Status status = run();
        if (HasFailure()) return;
        if (!faulty_.has_fired()) {
          EXPECT_TRUE(status.ok()) << status.ToString();
          break;
        }
        if (status.ok()) continue;
        EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
        expect_nothing_left();
        ++failed;
      }
      EXPECT_GE(failed, failures_min);
    }
    EXPECT_EQ(memory_.allocated_bytes(), held_before);
    if (held_before == 0) {
      EXPECT_EQ(ctx_.memory.used_bytes(), 0);
    }
  }

  Result<std::unique_ptr<BatchSource>> OpenFaulty(const Context& ctx, const std::string& key,
                                                  ScanSpec spec) {
    PF_ASSIGN(auto object, faulty_.Open(ctx, key));
    PF_ASSIGN(auto source,
              ParquetSource::Open(ctx, std::move(object), key, std::move(spec), memory_));
    return std::unique_ptr<BatchSource>(std::move(source));
  }

  // Leaves the inputs "1" to "3", and "old".
  Status Clear() {
    PF_ASSIGN(const auto there, ListAll(ctx_, store_, ""));
    std::vector<std::string> keys;
    for (const ObjectInfo& object : there) {
      if (object.key.size() > 1) keys.push_back(object.key);
    }
    PF_TRY(store_.Delete(ctx_, keys));
    PF_TRY(WriteObject(ctx_, store_, "old", kOldBytes));
    return {};
  }
  static constexpr std::string_view kOldBytes = "what was there before";

  FaultyStore faulty_{store_};
};

TEST_F(StoreFailures, ScansOfParquet) {
  const auto schema =
      arrow::schema({WithFieldId(arrow::field("k", arrow::int64(), false), 1),
                     WithFieldId(arrow::field("t", arrow::utf8()), 2),
                     WithFieldId(arrow::field("l", arrow::list(arrow::int32())), 3)});
  arrow::Int64Builder ascending;
  for (int64_t i = 0; i < 900; ++i) ASSERT_TRUE(ascending.Append(i * 5).ok());
  const std::shared_ptr<arrow::RecordBatch> batch =
      *RandomBatch(random_, schema, 900)
           ->SetColumn(0, schema->field(0), ascending.Finish().ValueOrDie());
  Write("f", {batch},
        {.columns = {{.path = "k", .bloom_distinct_count = 300}},
         .row_group_rows = 300,
         .page_rows = 50});
  ColumnRange range{.column = {.id = 1, .name = {}}};
  range.equals = {Scalar::Int64(5 * 450)};
  for (const bool prunes : {false, true}) {
    for (const bool reads_ahead : {false, true}) {
      ScanSpec spec{.wanted = schema, .position_column = "_pos"};
      if (prunes) spec.ranges = {range};
      if (!reads_ahead) spec.read_ahead.held_bytes_max = 0;
      const auto wanted = ReadAll(ctx_, *Open("f", spec));
      ASSERT_GT(wanted->num_rows(), 0);
      ASSERT_EQ(wanted->num_rows() < 900, prunes);
      FailEach(
          [&]() -> Status {
            PF_ASSIGN(const auto source, OpenFaulty(ctx_, "f", spec));
            PF_ASSIGN(const auto rows, RowsOf(ctx_, *source));
            ExpectSameRows(*rows, *wanted);
            return {};
          },
          reads_ahead ? 1 : 4);
    }
  }
}

TEST_F(StoreFailures, ScansOfAvro) {
  const auto batch = RandomBatch(random_, RandomSchema(random_, 4, true), 500);
  auto sink = OpenAvroSink(ctx_, Create("a"), "a", batch->schema(), {});
  ASSERT_TRUE(sink.ok()) << sink.status().ToString();
  ASSERT_TRUE((*sink)->Write(ctx_, *batch).ok() && (*sink)->Close(ctx_).ok());
  const auto scan = [&](ObjectStore& store,
                        const ScanSpec& spec) -> Result<std::shared_ptr<arrow::Table>> {
    PF_ASSIGN(auto object, store.Open(ctx_, "a"));
    PF_ASSIGN(const auto source,
              OpenAvroSource(ctx_, std::move(object), "a", spec, AvroTimestamps::kAvro, memory_));
    return RowsOf(ctx_, *source);
  };
  for (const bool reads_ahead : {false, true}) {
    ScanSpec spec;
    if (!reads_ahead) spec.read_ahead.held_bytes_max = 0;
    const auto wanted = scan(store_, spec);
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    FailEach(
        [&]() -> Status {
          PF_ASSIGN(const auto rows, scan(faulty_, spec));
          ExpectSameRows(*rows, **wanted);
          return {};
        },
        reads_ahead ? 1 : 2);
  }
}

TEST_F(StoreFailures, Inspection) {
  const auto batch = RandomBatch(random_, RandomSchema(random_, 4, true), 400);
  Write("parquet", {batch}, {.row_group_rows = 150, .page_rows = 40});
  auto sink = OpenAvroSink(ctx_, Create("avro"), "avro", batch->schema(), {});
  ASSERT_TRUE(sink.ok() && (*sink)->Write(ctx_, *batch).ok() && (*sink)->Close(ctx_).ok());
  Positions positions;
  positions.AddRun({.begin = 3, .end = 90});
  const auto bytes = Create("puffin");
  const auto puffin = PuffinWriter::Open(ctx_, *bytes);
  ASSERT_TRUE(puffin.ok());
  const std::string vector = *EncodeVector(positions, VectorLayout::kBits64);
  ASSERT_TRUE((*puffin)
                  ->Append(ctx_,
                           {.type = "deletion-vector-v1",
                            .snapshot_id = -1,
                            .sequence_number = -1,
                            .properties = {{"cardinality", "87"}}},
                           AsBytes(vector))
                  .ok());
  ASSERT_TRUE((*puffin)->Finish(ctx_, {}).ok() && bytes->Close(ctx_).ok());
  for (const std::string key : {"parquet", "avro", "puffin"}) {
    SCOPED_TRACE(key);
    for (const auto inspection : {Inspection::kFooter, Inspection::kPages, Inspection::kDecode}) {
      FailEach(
          [&]() -> Status {
            PF_ASSIGN(const auto object, faulty_.Open(ctx_, key));
            PF_ASSIGN(const auto report, InspectFile(ctx_, *object, key, inspection, memory_));
            EXPECT_EQ(report.size_bytes, object->size_bytes());
            return {};
          },
          2);
    }
  }
}

TEST_F(StoreFailures, JoiningVerifyingAndReplacing) {
  const auto schema = RandomSchema(random_, 3, true);
  Batches batches;
  for (const char* key : {"1", "2", "3"}) {
    batches.push_back(RandomBatch(random_, schema, 60));
    Write(key, {batches.back()}, {.row_group_rows = 40, .page_rows = 20});
  }
  const auto wanted = ToTable(batches);
  for (const bool replaces : {false, true}) {
    const std::string out = replaces ? "old" : "out";
    for (const bool decodes : {false, true}) {
      const VerifyMode verify = decodes ? VerifyMode::kFull : VerifyMode::kSample;
      SCOPED_TRACE(fmt::format("{} decodes {} verify {}", out, decodes, VerifyModeName(verify)));
      const auto run = [&]() -> Status {
        PF_TRY(Clear());
        PF_ASSIGN(const auto report,
                  ConcatFiles(ctx_, faulty_, {"1", "2", "3"}, out,
                              {.decodes_always = decodes, .verify = verify, .overwrites = replaces},
                              memory_));
        EXPECT_EQ(report.output.row_count, 180);
        ScanSpec spec;
        spec.wanted = schema;
        ExpectSameRows(*ReadAll(ctx_, *Open(out, spec)), *wanted);
        return {};
      };
      FailEach(run, 6, [&] {
        EXPECT_EQ(*ReadObject(ctx_, store_, "old"), kOldBytes);
        const auto left = ListAll(ctx_, store_, "");
        ASSERT_TRUE(left.ok());
        std::vector<std::string> names;
        for (const ObjectInfo& object : *left) names.push_back(object.key);
        EXPECT_EQ(names, (std::vector<std::string>{"1", "2", "3", "old"}));
      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(StoreFailures, MergesOfFiles) {
  const auto schema =
      arrow::schema({arrow::field("k", arrow::int64(), false), arrow::field("t", arrow::utf8())});
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  constexpr int kFiles = 4;
  for (int f = 0; f < kFiles; ++f) {
    const auto rows = RandomBatch(random_, schema, 300);
    arrow::Int64Builder ascending;
    for (int64_t i = 0; i < 300; ++i) ASSERT_TRUE(ascending.Append(i * 3 + f).ok());
    Write(std::to_string(f),
          {*rows->SetColumn(0, schema->field(0), ascending.Finish().ValueOrDie())},
          {.row_group_rows = 100});
  }
  partforge::testing::TempDir dir;
  for (const int64_t memory_bytes : {int64_t{64} << 20, int64_t{1}}) {
    SCOPED_TRACE(memory_bytes);
    SpillSpace space(dir.path(), int64_t{1} << 30);
    FailEach(
        [&]() -> Status {
          std::vector<MergeFile> files;
          for (int f = 0; f < kFiles; ++f) {
            files.push_back({.scan = {.wanted = schema, .mapping = {.match = MatchBy::kName}},
                             .open = [this, f](const Context& ctx, ScanSpec scan) {
                               return OpenFaulty(ctx, std::to_string(f), std::move(scan));
                             }});
          }
          PF_ASSIGN(const auto merged, MergeFiles(ctx_, std::move(files), **keys, nullptr,
                                                  {.memory_bytes = memory_bytes}, space, memory_));
          PF_ASSIGN(const auto rows, RowsOf(ctx_, *merged));
          EXPECT_EQ(rows->num_rows(), 300 * kFiles);
          const auto& got = static_cast<const arrow::Int64Array&>(*rows->column(0)->chunk(0));
          for (int64_t i = 1; i < got.length(); ++i) EXPECT_LE(got.Value(i - 1), got.Value(i));
          return {};
        },
        1, [&] { EXPECT_EQ(space.used_bytes(), 0); });
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

// The file of rows found by key is made of the data file when it is first asked for.
TEST_F(StoreFailures, LookupsOfRows) {
  const auto schema =
      arrow::schema({arrow::field("k", arrow::int64(), false), arrow::field("t", arrow::utf8())});
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  const auto rows = RandomBatch(random_, schema, 500);
  arrow::Int64Builder ascending;
  for (int64_t i = 0; i < 500; ++i) ASSERT_TRUE(ascending.Append(i * 2).ok());
  const auto key_column = ascending.Finish().ValueOrDie();
  Write("f", {*rows->SetColumn(0, schema->field(0), key_column)}, {.row_group_rows = 120});
  const auto encoded = (*keys)->Encode(
      *arrow::RecordBatch::Make(arrow::schema({schema->field(0)}), 500, {key_column}));
  ASSERT_TRUE(encoded.ok());
  partforge::testing::TempDir dir;
  FailEach(
      [&]() -> Status {
        std::filesystem::remove_all(dir.path());
        std::filesystem::create_directory(dir.path());
        PF_ASSIGN(const auto pool, LookupPool::Open(ctx_, {.directory = dir.path()}, memory_));
        PF_ASSIGN(const auto reader,
                  pool->Acquire(ctx_, {.data_file = "f", .size_bytes = 1}, schema, **keys,
                                [&](const Context& ctx) {
                                  return OpenFaulty(
                                      ctx, "f",
                                      {.wanted = schema, .mapping = {.match = MatchBy::kName}});
                                }));
        PF_ASSIGN(const auto found, reader->Find(ctx_, (*encoded)[321]));
        EXPECT_TRUE(found.has_value());
        return {};
      },
      1, [&] { EXPECT_TRUE(std::filesystem::is_empty(dir.path())); });
}

}  // namespace
}  // namespace partforge::data
