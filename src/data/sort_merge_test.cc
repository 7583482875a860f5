#include "data/sort_merge.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "data/random_batches.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::RandomArray;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

class SortMerge : public ::testing::Test {
 protected:
  std::unique_ptr<BatchSource> Source(const Batches& batches) {
    return std::make_unique<MemoryBatches>(batches.at(0)->schema(), batches);
  }

  // Row numbers of the table in the order of the keys, ties by number.
  std::vector<int64_t> Order(const arrow::Table& table, const KeyEncoder& keys) {
    const auto batch = table.CombineChunksToBatch().ValueOrDie();
    const auto encoded = keys.Encode(*batch);
    EXPECT_TRUE(encoded.ok());
    std::vector<int64_t> rows(static_cast<size_t>(table.num_rows()));
    std::iota(rows.begin(), rows.end(), 0);
    std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) {
      return (*encoded)[static_cast<size_t>(a)] < (*encoded)[static_cast<size_t>(b)];
    });
    return rows;
  }

  // Key, where it came from, and something to carry.
  static std::shared_ptr<arrow::Schema> KeySchema() {
    return arrow::schema({arrow::field("k", arrow::int64()), arrow::field("s", arrow::int32()),
                          arrow::field("text", arrow::utf8()),
                          arrow::field("l", arrow::list(arrow::int32()))});
  }

  // A sorted source: keys below `limit`, in batches of random sizes.
  Batches SortedBatches(int source, int64_t rows, int64_t limit) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < rows; ++i) {
      keys.push_back(static_cast<int64_t>(random_.Next() % static_cast<uint64_t>(limit)));
    }
    std::sort(keys.begin(), keys.end());
    return BatchesOf(source, keys);
  }

  Batches BatchesOf(int source, const std::vector<int64_t>& keys) {
    Batches batches;
    for (size_t at = 0; at < keys.size();) {
      const size_t count = std::min<size_t>(1 + random_.Next() % 90, keys.size() - at);
      arrow::Int64Builder key;
      arrow::Int32Builder number;
      for (size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(key.Append(keys[at + i]).ok());
        EXPECT_TRUE(number.Append(source).ok());
      }
      const auto n = static_cast<int64_t>(count);
      batches.push_back(
          arrow::RecordBatch::Make(KeySchema(), n,
                                   {key.Finish().ValueOrDie(), number.Finish().ValueOrDie(),
                                    RandomArray(random_, arrow::utf8(), n, true),
                                    RandomArray(random_, arrow::list(arrow::int32()), n, true)}));
      at += count;
    }
    return batches;
  }

  const uint64_t seed_ = partforge::testing::TestSeed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  partforge::testing::SeededRandom random_{seed_};
  partforge::testing::TestWorld world_;
  Context ctx_ = world_.context();
  ArrowMemory memory_{ctx_.memory};
  partforge::testing::TempDir dir_;
  SpillSpace space_{dir_.path(), int64_t{1} << 30};
};

template <class ArrayType>
int CompareValues(const arrow::Array& array, int64_t a, int64_t b) {
  const auto& typed = static_cast<const ArrayType&>(array);
  const auto x = typed.GetView(a), y = typed.GetView(b);
  return x < y ? -1 : y < x ? 1 : 0;
}

// IEEE total order: by sign and magnitude of the bits.
template <class ArrayType, class Bits>
int CompareFloats(const arrow::Array& array, int64_t a, int64_t b) {
  const auto rank = [&](int64_t row) {
    const auto bits = std::bit_cast<Bits>(static_cast<const ArrayType&>(array).Value(row));
    return bits < 0 ? std::numeric_limits<Bits>::min() - bits - 1 : bits;
  };
  return rank(a) < rank(b) ? -1 : rank(b) < rank(a) ? 1 : 0;
}

template <class ArrayType, class Decimal>
int CompareDecimals(const arrow::Array& array, int64_t a, int64_t b) {
  const auto& typed = static_cast<const ArrayType&>(array);
  const Decimal x(typed.GetValue(a)), y(typed.GetValue(b));
  return x < y ? -1 : y < x ? 1 : 0;
}

// Random values of a type that can be a key. What is rare has the bytes of another type's values.
std::shared_ptr<arrow::Array> RandomKeys(Random& random,
                                         const std::shared_ptr<arrow::DataType>& type, int64_t rows,
                                         bool nullable) {
  std::shared_ptr<arrow::DataType> like = type;
  switch (type->id()) {
    case arrow::Type::UINT8:
      like = arrow::int8();
      break;
    case arrow::Type::UINT16:
      like = arrow::int16();
      break;
    case arrow::Type::TIME32:
    case arrow::Type::DECIMAL32:
      like = arrow::int32();
      break;
    case arrow::Type::DATE64:
    case arrow::Type::DECIMAL64:
      like = arrow::int64();
      break;
    case arrow::Type::DECIMAL256:
      like = arrow::fixed_size_binary(32);
      break;
    case arrow::Type::LARGE_STRING:
      like = arrow::utf8();
      break;
    case arrow::Type::LARGE_BINARY:
      like = arrow::binary();
      break;
    default:
      break;
  }
  const auto array = RandomArray(random, like, rows, nullable, {.distinct_max = 7});
  if (like == type) return array;
  if (type->id() == arrow::Type::LARGE_STRING || type->id() == arrow::Type::LARGE_BINARY) {
    EXPECT_TRUE(EnsureArrowCompute().ok());
    return arrow::compute::Cast(*array, type).ValueOrDie();
  }
  return array->View(type).ValueOrDie();
}

// The order of two values, told without keys.
int Compare(const arrow::Array& array, int64_t a, int64_t b, const SortColumn& column) {
  if (array.IsNull(a) || array.IsNull(b)) {
    if (array.IsNull(a) == array.IsNull(b)) return 0;
    return array.IsNull(a) == (column.nulls == NullOrder::kNullsFirst) ? -1 : 1;
  }
  int order = 0;
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      order = CompareValues<arrow::BooleanArray>(array, a, b);
      break;
    case arrow::Type::INT8:
      order = CompareValues<arrow::Int8Array>(array, a, b);
      break;
    case arrow::Type::INT16:
      order = CompareValues<arrow::Int16Array>(array, a, b);
      break;
    case arrow::Type::INT32:
      order = CompareValues<arrow::Int32Array>(array, a, b);
      break;
    case arrow::Type::INT64:
      order = CompareValues<arrow::Int64Array>(array, a, b);
      break;
    case arrow::Type::UINT32:
      order = CompareValues<arrow::UInt32Array>(array, a, b);
      break;
    case arrow::Type::UINT64:
      order = CompareValues<arrow::UInt64Array>(array, a, b);
      break;
    case arrow::Type::DATE32:
      order = CompareValues<arrow::Date32Array>(array, a, b);
      break;
    case arrow::Type::TIME64:
      order = CompareValues<arrow::Time64Array>(array, a, b);
      break;
    case arrow::Type::TIMESTAMP:
      order = CompareValues<arrow::TimestampArray>(array, a, b);
      break;
    case arrow::Type::FLOAT:
      order = CompareFloats<arrow::FloatArray, int32_t>(array, a, b);
      break;
    case arrow::Type::DOUBLE:
      order = CompareFloats<arrow::DoubleArray, int64_t>(array, a, b);
      break;
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      order = CompareValues<arrow::BinaryArray>(array, a, b);
      break;
    case arrow::Type::FIXED_SIZE_BINARY:
      order = CompareValues<arrow::FixedSizeBinaryArray>(array, a, b);
      break;
    case arrow::Type::UINT8:
      order = CompareValues<arrow::UInt8Array>(array, a, b);
      break;
    case arrow::Type::UINT16:
      order = CompareValues<arrow::UInt16Array>(array, a, b);
      break;
    case arrow::Type::DATE64:
      order = CompareValues<arrow::Date64Array>(array, a, b);
      break;
    case arrow::Type::TIME32:
      order = CompareValues<arrow::Time32Array>(array, a, b);
      break;
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      order = CompareValues<arrow::LargeBinaryArray>(array, a, b);
      break;
    case arrow::Type::DECIMAL32:
      order = CompareDecimals<arrow::Decimal32Array, arrow::Decimal32>(array, a, b);
      break;
    case arrow::Type::DECIMAL64:
      order = CompareDecimals<arrow::Decimal64Array, arrow::Decimal64>(array, a, b);
      break;
    case arrow::Type::DECIMAL128:
      order = CompareDecimals<arrow::Decimal128Array, arrow::Decimal128>(array, a, b);
      break;
    case arrow::Type::DECIMAL256:
      order = CompareDecimals<arrow::Decimal256Array, arrow::Decimal256>(array, a, b);
      break;
    default:
      ADD_FAILURE() << array.type()->ToString();
  }
  return column.direction == SortDirection::kAscending ? order : -order;
}

// check: DATA-15
TEST_F(SortMerge, KeysOrderAsTheirValuesDo) {
  const std::vector<std::shared_ptr<arrow::DataType>> types = {
      arrow::boolean(),
      arrow::int8(),
      arrow::int16(),
      arrow::int32(),
      arrow::int64(),
      arrow::uint32(),
      arrow::uint64(),
      arrow::float32(),
      arrow::float64(),
      arrow::utf8(),
      arrow::binary(),
      arrow::fixed_size_binary(5),
      arrow::decimal128(30, 4),
      arrow::date32(),
      arrow::timestamp(arrow::TimeUnit::MICRO),
      arrow::time64(arrow::TimeUnit::MICRO),
      arrow::uint8(),
      arrow::uint16(),
      arrow::date64(),
      arrow::time32(arrow::TimeUnit::MILLI),
      arrow::large_utf8(),
      arrow::large_binary(),
      arrow::decimal32(9, 2),
      arrow::decimal64(18, 2),
      arrow::decimal256(76, 2)};
  for (int round = 0; round < 75; ++round) {  // each is the first column three times
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    std::vector<SortColumn> columns;
    for (int i = 0; i < 3; ++i) {
      const size_t turn = static_cast<size_t>(round + i);
      const auto& type = i == 0 ? types[turn % types.size()] : types[random_.Next() % types.size()];
      const bool nullable = random_.Next() % 2 == 0;
      fields.push_back(arrow::field(fmt::format("c{}", i), type, nullable));
      arrays.push_back(RandomKeys(random_, type, 60, nullable));
      columns.push_back(
          {.name = fields.back()->name(),
           .direction =
               random_.Next() % 2 == 0 ? SortDirection::kAscending : SortDirection::kDescending,
           .nulls = random_.Next() % 2 == 0 ? NullOrder::kNullsFirst : NullOrder::kNullsLast});
    }
    const auto schema = arrow::schema(fields);
    const auto batch = arrow::RecordBatch::Make(schema, 60, arrays);
    const auto encoder = MakeKeyEncoder(schema, columns);
    ASSERT_TRUE(encoder.ok());
    const auto keys = (*encoder)->Encode(*batch);
    for (size_t a = 0; a < 60; ++a) {
      for (size_t b = 0; b < 60; ++b) {
        int wanted = 0;
        for (size_t c = 0; c < 3 && wanted == 0; ++c) {
          wanted =
              Compare(*arrays[c], static_cast<int64_t>(a), static_cast<int64_t>(b), columns[c]);
        }
        const int got = (*keys)[a].compare((*keys)[b]);
        ASSERT_EQ(got < 0, wanted < 0) << a << " " << b << " " << schema->ToString();
        ASSERT_EQ(got > 0, wanted > 0);
        const uint64_t prefix_a = KeyPrefix((*keys)[a]), prefix_b = KeyPrefix((*keys)[b]);
        ASSERT_TRUE(prefix_a == prefix_b || (prefix_a < prefix_b) == (got < 0));
      }
    }
  }
}

// check: DATA-15
TEST_F(SortMerge, SortIsStableWithAndWithoutSpilling) {
  const auto schema = arrow::schema(
      {arrow::field("a", arrow::utf8()), arrow::field("b", arrow::int32()),
       arrow::field("n", arrow::int64(), false), arrow::field("l", arrow::list(arrow::utf8()))});
  Batches batches;
  int64_t number = 0;
  for (int i = 0; i < 65; ++i) {
    const int64_t rows = 1 + static_cast<int64_t>(random_.Next() % 60);
    arrow::Int64Builder numbers;
    for (int64_t r = 0; r < rows; ++r) ASSERT_TRUE(numbers.Append(number++).ok());
    batches.push_back(arrow::RecordBatch::Make(
        schema, rows,
        {RandomArray(random_, arrow::utf8(), rows, true, {.distinct_max = 9}),
         RandomArray(random_, arrow::int32(), rows, true, {.distinct_max = 9}),
         numbers.Finish().ValueOrDie(),
         RandomArray(random_, arrow::list(arrow::utf8()), rows, true)}));
  }
  const auto keys = MakeKeyEncoder(
      schema, {{.name = "a"}, {.name = "b", .direction = SortDirection::kDescending}});
  const auto table = ToTable(batches);
  const auto wanted = TakeRows(*table, Order(*table, **keys));
  const auto joined = [&](size_t begin, size_t end) {
    const auto at = [&](size_t i) { return batches.begin() + static_cast<std::ptrdiff_t>(i); };
    return ToTable(Batches(at(begin), at(end)))->CombineChunksToBatch().ValueOrDie();
  };
  struct Case {
    Batches input;
    int64_t run_bytes;
  };
  const std::vector<Case> cases = {{batches, int64_t{1} << 30},           // one run, in memory
                                   {{joined(0, 30), joined(30, 65)}, 1},  // two on disk
                                   {batches, 40'000},                     // some
                                   {batches, 1}};  // 65, merged in several passes
  for (const Case& one : cases) {
    const auto input = Source(one.input);
    SortOptions options{.run_bytes = one.run_bytes, .fan_in_max = 8};
    options.merge.batch_rows_max = 100;
    const auto sorted = Sort(ctx_, *input, **keys, options, space_, memory_);
    ASSERT_TRUE(sorted.ok()) << sorted.status().ToString();
    ExpectSameRows(*ReadAll(ctx_, **sorted), *wanted);
  }
  EXPECT_GT(space_.total_bytes(), 0);
  EXPECT_EQ(space_.used_bytes(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(SortMerge, SortAndWideMergeStayWithinASmallBudget) {
  partforge::testing::TestWorld small(int64_t{24} << 20);
  const Context ctx = small.context();
  ArrowMemory memory(ctx.memory);
  const auto schema = KeySchema();
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  Batches batches;
  for (int i = 0; i < 40; ++i) {
    for (auto& batch : SortedBatches(i, 2000, 1'000'000)) batches.push_back(std::move(batch));
  }
  std::reverse(batches.begin(), batches.end());
  const auto input = Source(batches);
  // A run for nearly each batch: some two hundred at once.
  const auto sorted =
      Sort(ctx, *input, **keys, {.run_bytes = 40'000, .fan_in_max = 256}, space_, memory);
  ASSERT_TRUE(sorted.ok()) << sorted.status().ToString();
  const auto table = ReadAll(ctx, **sorted);
  EXPECT_EQ(table->num_rows(), 80'000);
  EXPECT_GT(space_.total_bytes(), 0);
  EXPECT_LE(ctx.memory.peak_bytes(), int64_t{24} << 20);
}

TEST_F(SortMerge, SortInSeveralPassesStaysWithinASmallBudget) {
  constexpr int64_t kBudgetBytes = int64_t{12} << 20;
  partforge::testing::TestWorld small(kBudgetBytes);
  const Context ctx = small.context();
  ArrowMemory memory(ctx.memory);
  const auto keys = MakeKeyEncoder(KeySchema(), {{.name = "k"}});
  Batches batches;
  for (int i = 0; i < 200; ++i) {
    for (auto& batch : SortedBatches(i, 2000, 1'000'000)) batches.push_back(std::move(batch));
  }
  const auto input = Source(batches);
  // What one pass makes of eight runs is itself a run, read in batches as small as theirs: eight of
  // these as a whole would take more than there is.
  const auto sorted =
      Sort(ctx, *input, **keys, {.run_bytes = 640'000, .fan_in_max = 8}, space_, memory);
  ASSERT_TRUE(sorted.ok()) << sorted.status().ToString();
  int64_t rows = 0, last = 0;
  while (true) {
    const auto batch = (*sorted)->Next(ctx);
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    if (*batch == nullptr) break;
    const auto& key = static_cast<const arrow::Int64Array&>(*(*batch)->column(0));
    for (int64_t i = 0; i < key.length(); ++i) {
      ASSERT_LE(last, key.Value(i));
      last = key.Value(i);
    }
    rows += key.length();
  }
  EXPECT_EQ(rows, 400'000);
  EXPECT_LE(ctx.memory.peak_bytes(), kBudgetBytes);
}

// Rows of any types, nested ones too, follow their keys.
TEST_F(SortMerge, RowsOfRandomSchemasAreSortedAndMerged) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    auto schema = RandomSchema(random_, 4, true);
    schema = *schema->AddField(0, arrow::field("k", arrow::int16()));
    Batches all;
    for (int i = 0; i < 9; ++i) {
      const auto batch =
          RandomBatch(random_, schema, 1 + static_cast<int64_t>(random_.Next() % 80));
      const auto key = RandomArray(random_, arrow::int16(), batch->num_rows(), true,
                                   {.null_share = 0.1, .distinct_max = 25});
      all.push_back(*batch->SetColumn(0, schema->field(0), key));
    }
    const auto keys = MakeKeyEncoder(schema, {{.name = "k", .nulls = NullOrder::kNullsLast}});
    ASSERT_TRUE(keys.ok());
    const auto table = ToTable(all);
    const auto wanted = TakeRows(*table, Order(*table, **keys));
    for (const int64_t run_bytes : {int64_t{1} << 30, int64_t{1}}) {
      const auto input = Source(all);
      SortOptions options{.run_bytes = run_bytes, .fan_in_max = 4};
      options.merge.batch_rows_max = 50;
      const auto sorted = Sort(ctx_, *input, **keys, options, space_, memory_);
      ASSERT_TRUE(sorted.ok()) << sorted.status().ToString();
      ExpectSameRows(*ReadAll(ctx_, **sorted), *wanted);
    }
    // The same rows as sorted sources: ties by source are ties by place.
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (const auto& batch : all) {
      const auto one = ToTable({batch});
      const auto rows = TakeRows(*one, Order(*one, **keys))->CombineChunksToBatch().ValueOrDie();
      sources.push_back(
          Source({rows->Slice(0, rows->num_rows() / 2), rows->Slice(rows->num_rows() / 2)}));
    }
    const auto merged =
        MergeSorted(ctx_, std::move(sources), **keys, nullptr, {.batch_rows_max = 70}, memory_);
    ASSERT_TRUE(merged.ok()) << merged.status().ToString();
    ExpectSameRows(*ReadAll(ctx_, **merged), *wanted);
    if (HasFailure()) return;
  }
}

// A disk that is full at any moment ends the sort with that, and gives all bytes back.
TEST_F(SortMerge, SpillingFailsAtAnyByteWithoutALeftover) {
  const auto keys = MakeKeyEncoder(KeySchema(), {{.name = "k"}});
  const Batches rows = SortedBatches(0, 600, 1000);
  const auto run = [&](SpillSpace& space) -> Status {
    const auto input = Source(rows);
    SortOptions options{.run_bytes = 1, .fan_in_max = 2};
    PF_ASSIGN(const auto sorted, Sort(ctx_, *input, **keys, options, space, memory_));
    int64_t count = 0;
    while (true) {
      PF_ASSIGN(const auto batch, sorted->Next(ctx_));
      if (batch == nullptr) break;
      count += batch->num_rows();
    }
    EXPECT_EQ(count, 600);
    return {};
  };
  ASSERT_TRUE(run(space_).ok());
  const int64_t total = space_.total_bytes();
  const int64_t memory_before = ctx_.memory.used_bytes();
  int64_t failed = 0;
  for (int64_t bytes_max = 0; bytes_max <= total; bytes_max += total / 60 + 1) {
    SpillSpace small(dir_.path(), bytes_max);
    const Status status = run(small);
    EXPECT_EQ(small.used_bytes(), 0);
    EXPECT_EQ(ctx_.memory.used_bytes(), memory_before);
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), Code::kExhausted) << status.ToString();
    ++failed;
  }
  EXPECT_GT(failed, 10);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

// A source that fails at its n-th batch ends sort and merge with that failure.
TEST_F(SortMerge, AFailingSourceIsTheResult) {
  class Failing final : public BatchSource {
   public:
    Failing(Batches batches, int64_t nth) : rows_(batches.at(0)->schema(), batches), left_(nth) {}
    const std::shared_ptr<arrow::Schema>& schema() const override { return rows_.schema(); }
    Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override {
      if (--left_ == 0) return Status(Code::kUnavailable, "the store does not answer");
      return rows_.Next(ctx);
    }

   private:
    MemoryBatches rows_;
    int64_t left_;
  };
  const auto keys = MakeKeyEncoder(KeySchema(), {{.name = "k"}});
  const Batches rows = SortedBatches(0, 500, 1000);
  for (int64_t nth = 1; nth <= static_cast<int64_t>(rows.size()) + 1; ++nth) {
    for (const bool sorts : {true, false}) {
      const auto run = [&]() -> Status {
        std::unique_ptr<BatchSource> out;
        Failing input(rows, nth);
        if (sorts) {
          PF_ASSIGN(out, Sort(ctx_, input, **keys, {.run_bytes = 20'000}, space_, memory_));
        } else {
          std::vector<std::unique_ptr<BatchSource>> sources;
          sources.push_back(Source(rows));
          sources.push_back(std::make_unique<Failing>(rows, nth));
          PF_ASSIGN(out, MergeSorted(ctx_, std::move(sources), **keys, nullptr, {}, memory_));
        }
        while (true) {
          PF_ASSIGN(const auto batch, out->Next(ctx_));
          if (batch == nullptr) return {};
        }
      };
      const Status status = run();
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.code(), Code::kUnavailable);
      EXPECT_EQ(space_.used_bytes(), 0);
    }
  }
}

TEST_F(SortMerge, FullSpillSpaceIsAnErrorThatSaysSo) {
  const auto schema = KeySchema();
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  SpillSpace tiny(dir_.path(), 1000);
  const auto input = Source(SortedBatches(0, 3000, 100));
  const auto sorted = Sort(ctx_, *input, **keys, {.run_bytes = 1}, tiny, memory_);
  ASSERT_FALSE(sorted.ok());
  EXPECT_EQ(sorted.status().code(), Code::kExhausted);
  EXPECT_EQ(tiny.used_bytes(), 0);
}

// check: DATA-16
TEST_F(SortMerge, MergeOfManySourcesKeepsOrderAndTies) {
  const auto keys = MakeKeyEncoder(KeySchema(), {{.name = "k"}});
  using Make = std::function<Batches(int source, int count, int64_t rows)>;
  const auto random_keys = [&](int64_t limit) -> Make {
    return
        [this, limit](int source, int, int64_t rows) { return SortedBatches(source, rows, limit); };
  };
  // The i-th key of a source.
  const auto made_keys =
      [&](const std::function<int64_t(int source, int count, int64_t i)>& key) -> Make {
    return [this, key](int source, int count, int64_t rows) {
      std::vector<int64_t> made;
      for (int64_t i = 0; i < rows; ++i) made.push_back(key(source, count, i));
      return BatchesOf(source, made);
    };
  };
  const std::vector<std::pair<const char*, Make>> shapes = {
      {"all equal", random_keys(1)},
      {"many ties", random_keys(50)},
      {"mixed", random_keys(1'000'000)},
      {"disjoint", made_keys([](int source, int, int64_t i) { return source * 1000 + i; })},
      {"disjoint, the last first",
       made_keys([](int source, int count, int64_t i) { return (count - source) * 1000 + i; })},
      {"one by one",
       made_keys([](int source, int count, int64_t i) { return i * count + source; })}};
  for (const int count : {1, 2, 3, 64, 256}) {
    for (const auto& [shape, make] : shapes) {
      SCOPED_TRACE(fmt::format("{} sources, {}", count, shape));
      std::vector<Batches> inputs;
      Batches all;
      for (int i = 0; i < count; ++i) {
        inputs.push_back(make(i, count, 1 + static_cast<int64_t>(random_.Next() % 300)));
        all.insert(all.end(), inputs.back().begin(), inputs.back().end());
      }
      const auto table = ToTable(all);
      const auto wanted = TakeRows(*table, Order(*table, **keys));
      for (const Galloping galloping : {Galloping::kOn, Galloping::kOff}) {
        std::vector<std::unique_ptr<BatchSource>> sources;
        for (const Batches& input : inputs) sources.push_back(Source(input));
        const auto merged = MergeSorted(ctx_, std::move(sources), **keys, nullptr,
                                        {.galloping = galloping, .batch_rows_max = 333}, memory_);
        ASSERT_TRUE(merged.ok()) << merged.status().ToString();
        ExpectSameRows(*ReadAll(ctx_, **merged), *wanted);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(SortMerge, LastSourceFirstTurnsTiesRound) {
  const auto keys = MakeKeyEncoder(KeySchema(), {{.name = "k"}});
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (int i = 0; i < 5; ++i) sources.push_back(Source(SortedBatches(i, 40, 1)));
  const auto merged = MergeSorted(ctx_, std::move(sources), **keys, nullptr,
                                  {.ties = TieOrder::kLastSourceFirst}, memory_);
  const auto table = ReadAll(ctx_, **merged);
  const auto& source = static_cast<const arrow::Int32Array&>(*table->column(1)->chunk(0));
  for (int64_t i = 1; i < source.length(); ++i) ASSERT_GE(source.Value(i - 1), source.Value(i));
}

TEST_F(SortMerge, DisjointSourcesPassThroughWithoutACopy) {
  const auto schema = arrow::schema({arrow::field("k", arrow::int64(), false)});
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (int64_t i = 0; i < 4; ++i) {
    arrow::Int64Builder builder;
    for (int64_t r = 0; r < 100; ++r) ASSERT_TRUE(builder.Append(i * 1000 + r).ok());
    batches.push_back(arrow::RecordBatch::Make(schema, 100, {builder.Finish().ValueOrDie()}));
    sources.push_back(Source({batches.back()}));
  }
  const auto merged =
      MergeSorted(ctx_, std::move(sources), **keys, nullptr, {.batch_rows_max = 100}, memory_);
  for (const auto& batch : batches) EXPECT_EQ(*(*merged)->Next(ctx_), batch);
}

TEST_F(SortMerge, UnsortedSourceIsFound) {
  const auto keys = MakeKeyEncoder(KeySchema(), {{.name = "k"}});
  Batches batches = SortedBatches(0, 300, 100'000);
  ASSERT_GT(batches.size(), 2U);
  std::swap(batches[0], batches[1]);
  std::vector<std::unique_ptr<BatchSource>> sources;
  sources.push_back(Source(batches));
  auto merged = MergeSorted(ctx_, std::move(sources), **keys, nullptr, {}, memory_);
  ASSERT_TRUE(merged.ok());
  const auto batch = (*merged)->Next(ctx_);
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.status().code(), Code::kCorruption);
}

// Up to the next foreign key a source has keys alone: there its bytes can be copied.
TEST_F(SortMerge, TheNextKeyOfAnotherSourceIsKnown) {
  const auto schema = arrow::schema({arrow::field("k", arrow::int64(), false)});
  const auto batch = [&](const std::vector<int64_t>& values) {
    arrow::Int64Builder builder;
    EXPECT_TRUE(builder.AppendValues(values).ok());
    return arrow::RecordBatch::Make(schema, static_cast<int64_t>(values.size()),
                                    {builder.Finish().ValueOrDie()});
  };
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  std::vector<std::unique_ptr<BatchSource>> sources;
  sources.push_back(Source({batch({1, 2, 3}), batch({4, 40})}));
  sources.push_back(Source({batch({20, 30})}));
  auto tree = LoserTree::Make(ctx_, sources, **keys, TieOrder::kFirstSourceFirst);
  ASSERT_TRUE(tree.ok());
  const auto key_of = [&](int64_t value) {
    return std::string((*(*keys)->Encode(*batch({value})))[0]);
  };
  std::vector<int64_t> rows;
  std::vector<std::string> foreign;
  while (true) {
    foreign.emplace_back(tree->NextForeignKey().value_or("none"));
    const auto run = tree->Next(ctx_, 100);
    ASSERT_TRUE(run.ok());
    if (*run == nullptr) break;
    const auto& values = static_cast<const arrow::Int64Array&>(*(*run)->batch->column(0));
    for (int64_t i = 0; i < (*run)->count; ++i) rows.push_back(values.Value((*run)->begin + i));
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{1, 2, 3, 4, 20, 30, 40}));
  EXPECT_EQ(foreign.front(), key_of(20));
  EXPECT_EQ(foreign.back(), "none");
  EXPECT_TRUE(std::count(foreign.begin(), foreign.end(), key_of(40)) > 0);
}

// Of most rows nothing comes out: the batches they lie in are let go of all the same.
TEST_F(SortMerge, RowsLeftOutHoldNoMemory) {
  class NoneButFew final : public MergeFunction {
   public:
    Result<Reduced> Reduce(const Context&, std::span<const RowAt> rows) override {
      if (++seen % 1000 != 0) return Reduced{};
      return Reduced{.kind = Reduced::Kind::kRow, .at = rows[0]};
    }
    bool sees_single_rows() const override { return true; }
    int64_t seen = 0;
  };
  // Makes 400 batches of a megabyte.
  class Wide final : public BatchSource {
   public:
    explicit Wide(ArrowMemory& memory) : memory_(memory) {}
    const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
    Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context&) override {
      if (made_ == 400) return std::shared_ptr<arrow::RecordBatch>();
      arrow::Int64Builder key(memory_.pool());
      arrow::StringBuilder text(memory_.pool());
      for (int i = 0; i < 1000; ++i) {
        PF_ARROW_TRY(key.Append(made_ * 1000 + i));
        PF_ARROW_TRY(text.Append(std::string(1000, 'x')));
      }
      ++made_;
      return arrow::RecordBatch::Make(schema_, 1000,
                                      {key.Finish().ValueOrDie(), text.Finish().ValueOrDie()});
    }

   private:
    ArrowMemory& memory_;
    const std::shared_ptr<arrow::Schema> schema_ = arrow::schema(
        {arrow::field("k", arrow::int64(), false), arrow::field("text", arrow::utf8(), false)});
    int64_t made_ = 0;
  };
  partforge::testing::TestWorld small(int64_t{64} << 20);
  ArrowMemory memory(small.context().memory);
  std::vector<std::unique_ptr<BatchSource>> sources;
  sources.push_back(std::make_unique<Wide>(memory));
  const auto schema = sources[0]->schema();
  const auto keys = MakeKeyEncoder(schema, {{.name = "k"}});
  NoneButFew function;
  const auto merged =
      MergeSorted(small.context(), std::move(sources), **keys, &function, {}, memory);
  ASSERT_TRUE(merged.ok());
  int64_t rows = 0;
  while (true) {
    const auto batch = (*merged)->Next(small.context());
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    if (*batch == nullptr) break;
    rows += (*batch)->num_rows();
  }
  EXPECT_EQ(rows, 400);
}

// The last row of a key wins; keys divisible by five disappear.
class LastWins final : public MergeFunction {
 public:
  Result<Reduced> Reduce(const Context&, std::span<const RowAt> rows) override {
    const auto& keys = static_cast<const arrow::Int64Array&>(*rows.back().batch->column(0));
    if (keys.Value(rows.back().row) % 5 == 0) return Reduced{};
    for (const RowAt& row : rows) largest_group = std::max(largest_group, rows.size() + row.source);
    return Reduced{.kind = Reduced::Kind::kRow, .at = rows.back()};
  }
  bool sees_single_rows() const override { return true; }
  size_t largest_group = 0;
};

class FirstOfMany final : public MergeFunction {
 public:
  Result<Reduced> Reduce(const Context&, std::span<const RowAt> rows) override {
    EXPECT_GE(rows.size(), 2U);
    return Reduced{.kind = Reduced::Kind::kRow, .at = rows.front()};
  }
  bool sees_single_rows() const override { return false; }
};

TEST_F(SortMerge, GroupsOfOneKeyAreReducedAcrossBatchesAndSources) {
  const auto keys = MakeKeyEncoder(KeySchema(), {{.name = "k"}});
  for (const int64_t limit : {int64_t{3}, int64_t{200}, int64_t{100'000}}) {
    std::vector<Batches> inputs;
    Batches all;
    for (int i = 0; i < 6; ++i) {
      inputs.push_back(SortedBatches(i, 250, limit));
      all.insert(all.end(), inputs.back().begin(), inputs.back().end());
    }
    const auto table = ToTable(all);
    const auto order = Order(*table, **keys);
    const auto& key = static_cast<const arrow::Int64Array&>(*table->column(0)->chunk(0));
    std::vector<int64_t> last, first;
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t value = key.Value(order[i]);
      const bool ends = i + 1 == order.size() || key.Value(order[i + 1]) != value;
      const bool begins = i == 0 || key.Value(order[i - 1]) != value;
      if (ends && value % 5 != 0) last.push_back(order[i]);
      if (begins) first.push_back(order[i]);
    }
    const auto merge = [&](MergeFunction& function) {
      std::vector<std::unique_ptr<BatchSource>> sources;
      for (const Batches& input : inputs) sources.push_back(Source(input));
      const auto merged =
          MergeSorted(ctx_, std::move(sources), **keys, &function, {.batch_rows_max = 57}, memory_);
      EXPECT_TRUE(merged.ok());
      return ReadAll(ctx_, **merged);
    };
    LastWins last_wins;
    ExpectSameRows(*merge(last_wins), *TakeRows(*table, last));
    FirstOfMany first_of_many;
    ExpectSameRows(*merge(first_of_many), *TakeRows(*table, first));
  }
}

// The same rows with dictionaries behind some columns, a dictionary of its own in each batch.
TEST_F(SortMerge, DictionariesAreSortedByTheirValuesWithAndWithoutSpilling) {
  ASSERT_TRUE(EnsureArrowCompute().ok());
  const auto plain =
      arrow::schema({arrow::field("k", arrow::utf8()), arrow::field("v", arrow::utf8()),
                     arrow::field("n", arrow::int64(), false)});
  const auto type = arrow::dictionary(arrow::int32(), arrow::utf8());
  const auto schema =
      arrow::schema({arrow::field("k", type), arrow::field("v", type), plain->field(2)});
  Batches rows, encoded;
  for (int b = 0; b < 20; ++b) {
    rows.push_back(RandomBatch(random_, plain, 50));
    arrow::ArrayVector columns = rows.back()->columns();
    for (size_t i = 0; i < 2; ++i) {
      columns[i] = arrow::compute::DictionaryEncode(columns[i]).ValueOrDie().make_array();
    }
    encoded.push_back(arrow::RecordBatch::Make(schema, 50, columns));
  }
  const std::vector<SortColumn> order = {{.name = "k", .nulls = NullOrder::kNullsLast},
                                         {.name = "n"}};
  const auto plain_keys = MakeKeyEncoder(plain, order);
  const auto keys = MakeKeyEncoder(schema, order);
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  const auto table = ToTable(rows);
  const auto wanted = TakeRows(*table, Order(*table, **plain_keys));
  for (const int64_t run_bytes : {int64_t{64} << 20, int64_t{10'000}}) {
    const auto input = Source(encoded);
    const auto sorted = Sort(ctx_, *input, **keys, {.run_bytes = run_bytes}, space_, memory_);
    ASSERT_TRUE(sorted.ok()) << sorted.status().ToString();
    Batches got;
    while (true) {
      const auto batch = (*sorted)->Next(ctx_);
      ASSERT_TRUE(batch.ok()) << batch.status().ToString();
      if (*batch == nullptr) break;
      ASSERT_TRUE((*batch)->ValidateFull().ok());
      arrow::ArrayVector columns = (*batch)->columns();
      for (size_t i = 0; i < 2; ++i) {
        columns[i] = arrow::compute::Cast(*columns[i], arrow::utf8()).ValueOrDie();
      }
      got.push_back(arrow::RecordBatch::Make(plain, (*batch)->num_rows(), columns));
    }
    ExpectSameRows(*ToTable(got), *wanted);
  }
  EXPECT_GT(space_.total_bytes(), 0);
}

}  // namespace
}  // namespace partforge::data
