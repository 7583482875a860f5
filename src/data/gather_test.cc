#include "data/gather.h"

#include <fmt/format.h>

#include "data/parquet_rig.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::TakeRows;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;
using Gathering = data::testing::ParquetFixture;

// check: DATA-17
TEST_F(Gathering, GatheredRowsDoNotDependOnHowRunsAreCut) {
  for (int round = 0; round < 10; ++round) {
    const auto schema = RandomSchema(random_, 6, true);
    Batches batches;
    for (int i = 0; i < 3; ++i) batches.push_back(RandomBatch(random_, schema, 200));
    const auto table = ToTable(batches);
    RowRuns runs;
    std::vector<int64_t> rows;
    for (int i = 0; i < 40; ++i) {
      const size_t b = random_.Next() % 3;
      constexpr int64_t kCounts[] = {1, 2, 31, 32, 33, 200};
      const int64_t count = kCounts[random_.Next() % 6];
      const auto begin =
          static_cast<int64_t>(random_.Next() % static_cast<uint64_t>(200 - count + 1));
      // A slice has an offset of its own.
      const int64_t cut = begin / 2;
      runs.Add(runs.AddBatch(batches[b]->Slice(cut)), begin - cut, count);
      for (int64_t r = 0; r < count; ++r) rows.push_back(static_cast<int64_t>(b) * 200 + begin + r);
    }
    const auto gathered = Gather(schema, runs, memory_);
    ASSERT_TRUE(gathered.ok()) << gathered.status().ToString();
    ASSERT_TRUE((*gathered)->ValidateFull().ok());
    ExpectSameRows(*ToTable({*gathered}), *TakeRows(*table, rows));
    if (HasFailure()) return;
  }
}

// check: DATA-17
TEST_F(Gathering, DictionariesAreGatheredByTheirValues) {
  const auto type = arrow::dictionary(arrow::int32(), arrow::utf8());
  const auto schema = arrow::schema({arrow::field("d", type)});
  RowRuns runs;
  std::vector<std::optional<std::string>> wanted;
  for (int b = 0; b < 3; ++b) {
    arrow::StringDictionary32Builder builder;
    std::vector<std::optional<std::string>> values;
    for (int i = 0; i < 50; ++i) {
      if (random_.Next() % 5 == 0) {
        ASSERT_TRUE(builder.AppendNull().ok());
        values.push_back(std::nullopt);
      } else {
        values.push_back(fmt::format("v{}", random_.Next() % 9));
        ASSERT_TRUE(builder.Append(*values.back()).ok());
      }
    }
    const auto batch = arrow::RecordBatch::Make(schema, 50, {builder.Finish().ValueOrDie()});
    const uint32_t number = runs.AddBatch(batch);
    for (const auto& [begin, count] : {std::pair(3, 1), std::pair(10, 33), std::pair(0, 50)}) {
      runs.Add(number, begin, count);
      for (int i = 0; i < count; ++i) wanted.push_back(values[static_cast<size_t>(begin + i)]);
    }
  }
  const auto gathered = Gather(schema, runs, memory_);
  ASSERT_TRUE(gathered.ok()) << gathered.status().ToString();
  const auto& got = static_cast<const arrow::DictionaryArray&>(*(*gathered)->column(0));
  const auto& dictionary = static_cast<const arrow::StringArray&>(*got.dictionary());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    ASSERT_EQ(got.IsNull(row), !wanted[i].has_value());
    ASSERT_TRUE(!wanted[i] || dictionary.GetView(got.GetValueIndex(row)) == *wanted[i]);
  }
}

TEST_F(Gathering, IndicesThatHaveNoRoomForAllValuesAreRefused) {
  const auto type = arrow::dictionary(arrow::int8(), arrow::utf8());
  const auto schema = arrow::schema({arrow::field("d", type)});
  RowRuns runs;
  for (int b = 0; b < 2; ++b) {
    arrow::StringBuilder values;
    arrow::Int8Builder indices;
    for (int8_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(values.Append(fmt::format("v{}", b * 100 + i)).ok());
      ASSERT_TRUE(indices.Append(i).ok());
    }
    const auto array = std::make_shared<arrow::DictionaryArray>(type, indices.Finish().ValueOrDie(),
                                                                values.Finish().ValueOrDie());
    runs.Add(runs.AddBatch(arrow::RecordBatch::Make(schema, 100, {array})), 0, 100);
  }
  const auto gathered = Gather(schema, runs, memory_);
  ASSERT_FALSE(gathered.ok());
  EXPECT_EQ(gathered.status().code(), Code::kRefused);
}

}  // namespace
}  // namespace partforge::data
