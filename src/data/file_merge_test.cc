#include "data/file_merge.h"

#include <arrow/api.h>
#include <fmt/format.h>

#include "data/parquet_rig.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::ReadAll;

constexpr int kFiles = 40;
constexpr int64_t kRows = 3'000;

std::shared_ptr<arrow::Schema> Schema() {
  return arrow::schema({arrow::field("k", arrow::int64(), false),
                        arrow::field("file", arrow::int32(), false),
                        arrow::field("text", arrow::utf8(), false)});
}

// Of the rows of one key the first, as the merge has them.
class KeepsFirst final : public MergeFunction {
 public:
  Result<Reduced> Reduce(const Context&, std::span<const RowAt> rows) override {
    return Reduced{.kind = Reduced::Kind::kRow, .at = rows[0]};
  }
  bool sees_single_rows() const override { return false; }
};

class FileMerge : public ParquetFixture {
 protected:
  void SetUp() override {
    for (int f = 0; f < kFiles; ++f) {
      arrow::Int64Builder keys;
      arrow::Int32Builder files;
      arrow::StringBuilder texts;
      int64_t key = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        key += static_cast<int64_t>(random_.Next() % 4);
        ASSERT_TRUE(keys.Append(key).ok() && files.Append(f).ok());
        ASSERT_TRUE(texts.Append(fmt::format("{:016x}{}", random_.Next(), row)).ok());
      }
      batches_.push_back(arrow::RecordBatch::Make(
          Schema(), kRows,
          {keys.Finish().ValueOrDie(), files.Finish().ValueOrDie(), texts.Finish().ValueOrDie()}));
      Write(fmt::format("{}", f), {batches_.back()}, {.row_group_rows = 1000, .page_rows = 200});
    }
  }

  std::vector<MergeFile> Files() {
    std::vector<MergeFile> files;
    for (int f = 0; f < kFiles; ++f) {
      files.push_back({.scan = {.wanted = Schema(), .mapping = {.match = MatchBy::kName}},
                       .open = [this, f](const Context& ctx,
                                         ScanSpec scan) -> Result<std::unique_ptr<BatchSource>> {
                         const std::string key = fmt::format("{}", f);
                         PF_ASSIGN(auto object, store_.Open(ctx, key));
                         PF_ASSIGN(auto source, ParquetSource::Open(ctx, std::move(object), key,
                                                                    std::move(scan), memory_));
                         return std::unique_ptr<BatchSource>(std::move(source));
                       }});
    }
    return files;
  }

  std::unique_ptr<KeyEncoder> keys_ = MakeKeyEncoder(Schema(), {{.name = "k"}}).value();
  partforge::testing::TempDir dir_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

// Whether all files fit or runs are made on the way: the same rows in the same order.
TEST_F(FileMerge, RunsOnTheWayChangeNothing) {
  for (const TieOrder ties : {TieOrder::kFirstSourceFirst, TieOrder::kLastSourceFirst}) {
    for (const bool reduces : {false, true}) {
      SCOPED_TRACE(fmt::format("ties {}, reduces {}", static_cast<int>(ties), reduces));
      KeepsFirst first;
      MergeFunction* const function = reduces ? &first : nullptr;
      std::vector<std::unique_ptr<BatchSource>> whole;
      for (const auto& batch : batches_) {
        whole.push_back(std::make_unique<MemoryBatches>(
            Schema(), std::vector<std::shared_ptr<arrow::RecordBatch>>{batch}));
      }
      const auto wanted = ReadAll(
          ctx_, **MergeSorted(ctx_, std::move(whole), *keys_, function, {.ties = ties}, memory_));
      for (const int64_t memory_bytes : {int64_t{256} << 20, int64_t{6} << 20}) {
        SCOPED_TRACE(memory_bytes);
        SpillSpace space(dir_.path(), int64_t{1} << 30);
        const auto merged =
            MergeFiles(ctx_, Files(), *keys_, function,
                       {.merge = {.ties = ties}, .memory_bytes = memory_bytes}, space, memory_);
        ASSERT_TRUE(merged.ok()) << merged.status().ToString();
        ExpectSameRows(*ReadAll(ctx_, **merged), *wanted);
        EXPECT_EQ(space.total_bytes() > 0, memory_bytes < int64_t{100} << 20);
      }
    }
  }
  EXPECT_EQ(ctx_.memory.used_bytes(), 0);
}

TEST_F(FileMerge, TooManyFilesAreRefused) {
  SpillSpace space(dir_.path(), int64_t{1} << 30);
  EXPECT_EQ(MergeFiles(ctx_, {}, *keys_, nullptr, {}, space, memory_).status().code(),
            Code::kInvalidArgument);
  std::vector<MergeFile> many(LoserTree::kSourcesMax + 1);
  EXPECT_EQ(MergeFiles(ctx_, std::move(many), *keys_, nullptr, {}, space, memory_).status().code(),
            Code::kInvalidArgument);
}

TEST_F(FileMerge, AFullDiskAndADamagedFileAreTheResult) {
  SpillSpace full(dir_.path(), 1000);
  EXPECT_EQ(
      MergeFiles(ctx_, Files(), *keys_, nullptr, {.memory_bytes = int64_t{6} << 20}, full, memory_)
          .status()
          .code(),
      Code::kExhausted);
  SpillSpace space(dir_.path(), int64_t{1} << 30);
  const std::string key[] = {"7"};
  ASSERT_TRUE(store_.Delete(ctx_, key).ok());
  ASSERT_TRUE(WriteObject(ctx_, store_, "7", "PAR1 no more").ok());
  EXPECT_EQ(MergeFiles(ctx_, Files(), *keys_, nullptr, {}, space, memory_).status().code(),
            Code::kCorruption);
  EXPECT_EQ(space.used_bytes(), 0);
}

}  // namespace
}  // namespace partforge::data
