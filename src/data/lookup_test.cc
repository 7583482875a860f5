#include <fmt/format.h>

#include <fstream>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "base/hash.h"
#include "data/lookup_pool.h"
#include "data/memory_bytes.h"
#include "data/parquet_rig.h"

namespace partforge::data {
namespace {

using data::testing::ParquetFixture;
using data::testing::RandomArray;

// Keys 10, 20, 30 …, each with its number in text, in one Parquet file.
class Lookup : public ParquetFixture {
 protected:
  static constexpr int64_t kRows = 5000;

  void SetUp() override {
    schema_ = arrow::schema({WithFieldId(arrow::field("k", arrow::int64(), false), 1),
                             WithFieldId(arrow::field("text", arrow::utf8()), 2),
                             WithFieldId(arrow::field("l", arrow::list(arrow::int32())), 3)});
    row_schema_ = *schema_->AddField(3, arrow::field("_pos", arrow::int64(), false));
    keys_ = MakeKeyEncoder(schema_, {{.name = "k"}}).value();
    for (const char* key : {"a", "b", "c", "d"}) Write(key, {Rows(kRows)}, {.row_group_rows = 777});
  }

  std::shared_ptr<arrow::RecordBatch> Rows(int64_t count) {
    arrow::Int64Builder keys;
    arrow::StringBuilder texts;
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(keys.Append((i + 1) * 10).ok());
      EXPECT_TRUE(texts.Append(fmt::format("row {} {}", i, std::string(80, 'x'))).ok());
    }
    return arrow::RecordBatch::Make(
        schema_, count,
        {keys.Finish().ValueOrDie(), texts.Finish().ValueOrDie(),
         RandomArray(random_, arrow::list(arrow::int32()), count, true)});
  }

  LookupRows RowsOf(const std::string& key) {
    return [this, key](const Context& ctx) -> Result<std::unique_ptr<BatchSource>> {
      PF_ASSIGN(auto object, store_.Open(ctx, key));
      ScanSpec spec;
      spec.wanted = schema_;
      spec.position_column = "_pos";
      PF_ASSIGN(auto source,
                ParquetSource::Open(ctx, std::move(object), key, std::move(spec), memory_));
      return std::unique_ptr<BatchSource>(std::move(source));
    };
  }

  LookupIdentity Identity(const std::string& key, BlockCodec codec = BlockCodec::kLz4) {
    return {.data_file = key,
            .size_bytes = store_.Stat(ctx_, key)->size_bytes,
            .codec = codec,
            .has_positions = true};
  }

  std::string KeyOf(int64_t value) {
    arrow::Int64Builder builder;
    EXPECT_TRUE(builder.Append(value).ok());
    const auto batch = arrow::RecordBatch::Make(arrow::schema({schema_->field(0)}), 1,
                                                {builder.Finish().ValueOrDie()});
    return std::string((*keys_->Encode(*batch))[0]);
  }

  std::unique_ptr<LookupPool> OpenPool(int64_t bytes_max = int64_t{1} << 30,
                                       LookupLimits limits = {}) {
    auto pool = LookupPool::Open(
        ctx_, {.directory = dir_.path(), .bytes_max = bytes_max, .limits = limits}, memory_);
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    return std::move(*pool);
  }
  Result<std::unique_ptr<LookupReader>> Acquire(LookupPool& pool, const std::string& key,
                                                BlockCodec codec = BlockCodec::kLz4) {
    return pool.Acquire(ctx_, Identity(key, codec), row_schema_, *keys_, RowsOf(key));
  }

  // The row of the key must be the `wanted`-th of the data file; none below 0.
  void ExpectRow(LookupReader& reader, int64_t key, int64_t wanted) {
    const auto found = reader.Find(ctx_, KeyOf(key));
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    ASSERT_EQ(found->has_value(), wanted >= 0) << key;
    if (wanted < 0) return;
    const auto& batch = *(*found)->batch;
    const int64_t row = (*found)->row;
    EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch.column(0)).Value(row), key);
    const std::string_view text =
        static_cast<const arrow::StringArray&>(*batch.column(1)).GetView(row);
    EXPECT_TRUE(text.starts_with(fmt::format("row {} ", wanted))) << text;
    EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch.GetColumnByName("_pos")).Value(row),
              wanted);
  }

  std::vector<std::filesystem::path> Files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      files.push_back(entry.path());
    }
    return files;
  }
  // Changes a byte in the middle of the first block of every lookup file.
  void DamageFiles() {
    for (const auto& path : Files()) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(100);
      file.put('\x55');
      file.put('\xaa');
    }
  }

  std::shared_ptr<arrow::Schema> schema_, row_schema_;
  std::unique_ptr<KeyEncoder> keys_;
  partforge::testing::TempDir dir_;
};

// check: DATA-18
TEST_F(Lookup, RowsAreFoundByKeyWithTheirPositions) {
  const auto pool = OpenPool();
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4, BlockCodec::kZstd}) {
    auto reader = Acquire(*pool, "a", codec);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    ExpectRow(**reader, 5, -1);                  // before all
    ExpectRow(**reader, 10, 0);                  // the first
    ExpectRow(**reader, 15, -1);                 // between two
    ExpectRow(**reader, kRows * 10, kRows - 1);  // the last
    ExpectRow(**reader, kRows * 10 + 1, -1);     // behind all
    for (int i = 0; i < 300; ++i) {
      const auto key = static_cast<int64_t>(random_.Next() % (kRows * 10 + 20));
      ExpectRow(**reader, key, key % 10 == 0 && key > 0 && key <= kRows * 10 ? key / 10 - 1 : -1);
    }
  }
  EXPECT_EQ(pool->files_built(), 3);
}

TEST_F(Lookup, AscendingKeysReadEachBlockOnce) {
  const auto pool = OpenPool();
  auto reader = Acquire(*pool, "a");
  ASSERT_TRUE(reader.ok());
  for (int64_t row = 0; row < kRows; row += 3) ExpectRow(**reader, (row + 1) * 10, row);
  const int64_t size = pool->used_bytes();
  EXPECT_GT((*reader)->blocks_read(), 5);
  // About 120 bytes a row, and blocks of at most 64 KiB.
  EXPECT_LT((*reader)->blocks_read(), 40) << size;
}

// check: DATA-18
TEST_F(Lookup, ADamagedFileIsMadeAnewOnceAndNeverMeansAbsent) {
  const auto pool = OpenPool();
  {
    auto reader = Acquire(*pool, "a");
    ASSERT_TRUE(reader.ok());
    DamageFiles();
    ExpectRow(**reader, 10, 0);
    EXPECT_EQ(pool->files_built(), 2);
    ExpectRow(**reader, kRows * 10, kRows - 1);  // leaves the first block
    DamageFiles();
    const auto found = (*reader)->Find(ctx_, KeyOf(10));
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), Code::kCorruption);
    EXPECT_EQ(pool->files_built(), 2);
  }
  EXPECT_EQ(Files().size(), 1U);
  // Damage that shows when the file is opened: cut short.
  std::filesystem::resize_file(Files()[0], 1000);
  auto reader = Acquire(*pool, "a");
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  ExpectRow(**reader, 10, 0);
  EXPECT_EQ(pool->files_built(), 3);
}

TEST_F(Lookup, AFileThatCouldNotBeMadeAnewIsTriedAgain) {
  const auto pool = OpenPool();
  bool fails = false;
  const auto rows = [&](const Context& ctx) -> Result<std::unique_ptr<BatchSource>> {
    if (fails) return Status(Code::kUnavailable, "no rows today");
    return RowsOf("a")(ctx);
  };
  auto reader = pool->Acquire(ctx_, Identity("a"), row_schema_, *keys_, rows);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  DamageFiles();
  fails = true;
  EXPECT_FALSE((*reader)->Find(ctx_, KeyOf(10)).ok());
  EXPECT_FALSE((*reader)->Find(ctx_, KeyOf(10)).ok());
  EXPECT_EQ((*reader)->blocks_read(), 0);
  fails = false;
  ExpectRow(**reader, 10, 0);
}

// check: DATA-18
TEST_F(Lookup, MemoryAndDiskLimitsAreKept) {
  {
    // Not even the index fits.
    const auto pool = OpenPool(int64_t{1} << 30, {.memory_bytes_max = 500, .option = "an-option"});
    const auto reader = Acquire(*pool, "a");
    ASSERT_FALSE(reader.ok());
    EXPECT_EQ(reader.status().code(), Code::kExhausted);
    EXPECT_NE(reader.status().message().find("an-option"), std::string::npos);
    EXPECT_TRUE(Files().empty());
    EXPECT_EQ(pool->used_bytes(), 0);
  }
  {
    const auto pool = OpenPool(20'000);
    const auto reader = Acquire(*pool, "a");
    ASSERT_FALSE(reader.ok());
    EXPECT_EQ(reader.status().code(), Code::kExhausted);
    EXPECT_TRUE(Files().empty());
    EXPECT_EQ(pool->used_bytes(), 0);
  }
  const int64_t used_before = ctx_.memory.used_bytes();
  {
    const auto pool = OpenPool();
    auto reader = Acquire(*pool, "a");
    ASSERT_TRUE(reader.ok());
    ExpectRow(**reader, 10, 0);
    EXPECT_GT(ctx_.memory.used_bytes(), used_before);
  }
  EXPECT_EQ(ctx_.memory.used_bytes(), used_before);
}

// check: DATA-18
TEST_F(Lookup, WhatIsInUseIsNotEvicted) {
  int64_t one = 0;
  {
    const auto pool = OpenPool();
    ASSERT_TRUE(Acquire(*pool, "a").ok());
    one = pool->used_bytes();
  }
  const auto pool = OpenPool(one * 5 / 2);
  auto a = Acquire(*pool, "a");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(pool->files_built(), 0);  // of the pool before
  ASSERT_TRUE(Acquire(*pool, "b").ok());
  ASSERT_TRUE(Acquire(*pool, "c").ok());  // b goes
  EXPECT_EQ(pool->files_evicted(), 1);
  auto c = Acquire(*pool, "c");
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(pool->files_built(), 2);
  EXPECT_EQ(Files().size(), 2U);
  ExpectRow(**a, 10, 0);
  // Two in use leave no room for a third.
  const auto d = Acquire(*pool, "d");
  ASSERT_FALSE(d.ok());
  EXPECT_EQ(d.status().code(), Code::kExhausted);
  ExpectRow(**a, 20, 1);
  ExpectRow(**c, 30, 2);
  a->reset();
  EXPECT_TRUE(Acquire(*pool, "d").ok());
  EXPECT_LE(pool->used_bytes(), one * 5 / 2);
}

// check: DATA-18
TEST_F(Lookup, TwoReadersShareOneFile) {
  const auto pool = OpenPool();
  std::vector<std::jthread> threads;
  std::mutex mutex;
  int64_t wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto reader = Acquire(*pool, "a");
      int64_t own = reader.ok() ? 0 : 1;
      for (int64_t row = t; row < kRows && own == 0; row += 97) {
        const auto found = (*reader)->Find(ctx_, KeyOf((row + 1) * 10));
        if (!found.ok() || !found->has_value()) ++own;
      }
      const std::lock_guard lock(mutex);
      wrong += own;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool->files_built(), 1);
}

TEST_F(Lookup, ACrashLeavesNothingThatCounts) {
  for (int64_t nth = 1; nth <= 2; ++nth) {
    partforge::testing::FailNth faults(nth, "data.");
    partforge::testing::TestWorld world;
    world.UseFaults(faults);
    const auto pool = OpenPool();
    const auto reader =
        pool->Acquire(world.context(), Identity("a"), row_schema_, *keys_, RowsOf("a"));
    EXPECT_FALSE(reader.ok());
    EXPECT_TRUE(faults.has_fired());
    EXPECT_TRUE(Files().empty());
  }
  // What a process that died leaves: half of a file, under the name of one.
  std::ofstream(dir_ / "abc.1.pflk.tmp.7") << "half";
  const auto pool = OpenPool();
  EXPECT_TRUE(Files().empty());
}

TEST_F(Lookup, FilesOfOtherRowsAreNotRead) {
  std::string bytes;
  MemorySink sink(bytes);
  const auto rows = RowsOf("a")(ctx_);
  ASSERT_TRUE(WriteLookupFile(ctx_, **rows, *keys_, Identity("a"), {}, sink, memory_).ok());
  const auto open = [&](LookupIdentity identity) {
    return LookupFile::Open(ctx_, std::make_unique<MemorySource>(AsBytes(bytes)), identity,
                            row_schema_, {})
        .status()
        .code();
  };
  EXPECT_TRUE(LookupFile::Open(ctx_, std::make_unique<MemorySource>(AsBytes(bytes)), Identity("a"),
                               row_schema_, {})
                  .ok());
  LookupIdentity other = Identity("a");
  other.schema_id = 9;
  EXPECT_EQ(open(other), Code::kNotFound);
  other = Identity("a");
  other.has_positions = false;
  EXPECT_EQ(open(other), Code::kNotFound);
  EXPECT_EQ(open(Identity("b")), Code::kNotFound);
  bytes[bytes.size() - 12] = 2;  // the version
  EXPECT_EQ(open(Identity("a")), Code::kNotFound);
}

TEST_F(Lookup, RowsOutOfOrderAreRefused) {
  const auto rows = Rows(10);
  MemoryBatches source(schema_, {rows->Slice(5), rows->Slice(0, 5)});
  std::string bytes;
  MemorySink sink(bytes);
  EXPECT_EQ(WriteLookupFile(ctx_, source, *keys_, Identity("a"), {}, sink, memory_).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace partforge::data
