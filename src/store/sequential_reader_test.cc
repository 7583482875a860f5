#include "store/sequential_reader.h"

#include <gtest/gtest.h>

#include <cstring>

#include "testing/faulty_store.h"
#include "testing/memory_store.h"
#include "testing/object_store_contract.h"

namespace partforge {
namespace {

using testing::FaultyStore;
using testing::MemoryStore;
using testing::TestWorld;

constexpr int64_t kObjectBytes = 100'000;

class SequentialReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteObject(world_.context(), memory_, "x", bytes_).ok());
    Result<std::unique_ptr<ByteSource>> source = store_.Open(world_.context(), "x");
    ASSERT_TRUE(source.ok());
    source_ = std::move(source).value();
  }
  Result<std::string> ReadAll(TestWorld& world, const SequentialReader::Options& options) {
    PF_ASSIGN(const auto reader, SequentialReader::Open(world.context(), *source_, options));
    std::string got;
    while (true) {
      PF_ASSIGN(const auto block, reader->Next(world.context()));
      if (block.empty()) return got;
      got.append(reinterpret_cast<const char*>(block.data()), block.size());
    }
  }

  const std::string bytes_ = testing::TestBytes(kObjectBytes, 1);
  TestWorld world_;
  MemoryStore memory_;
  FaultyStore store_{memory_};
  std::unique_ptr<ByteSource> source_;
};

TEST_F(SequentialReaderTest, ReadsWholeObjectAndEmptyRanges) {
  const Result<std::string> whole = ReadAll(world_, {.block_bytes = 999});
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_TRUE(*whole == bytes_);
  EXPECT_EQ(*ReadAll(world_, {.offset = kObjectBytes}), "");
  EXPECT_EQ(*ReadAll(world_, {.offset = 5, .size_bytes = 0}), "");
  EXPECT_EQ(ReadAll(world_, {.offset = 5, .size_bytes = kObjectBytes}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(ReadAll(world_, {.offset = -1}).status().code(), Code::kInvalidArgument);
}

TEST_F(SequentialReaderTest, WindowFitsIntoASmallBudget) {
  TestWorld small(4096);
  const Result<std::string> whole = ReadAll(small, {.block_bytes = 1 << 20, .blocks_in_flight = 8});
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_TRUE(*whole == bytes_);
  EXPECT_LE(small.context().memory.peak_bytes(), 4096);
  EXPECT_EQ(small.context().memory.used_bytes(), 0);
}

TEST_F(SequentialReaderTest, FailureOfABlockEndsTheRead) {
  for (int64_t nth = 1; nth <= 10; ++nth) {
    store_.FailAt(nth, testing::StoreFault::kCut);
    const Result<std::string> whole =
        ReadAll(world_, {.block_bytes = 10'000, .blocks_in_flight = 3});
    EXPECT_EQ(whole.status().code(), Code::kUnavailable) << nth;
  }
}

TEST_F(SequentialReaderTest, DroppedReaderGivesItsMemoryBack) {
  {
    const auto reader = SequentialReader::Open(world_.context(), *source_, {.block_bytes = 1000});
    ASSERT_TRUE(reader.ok());
    ASSERT_TRUE((*reader)->Next(world_.context()).ok());
    EXPECT_GT(world_.context().memory.used_bytes(), 0);
  }
  EXPECT_EQ(world_.context().memory.used_bytes(), 0);
}

}  // namespace
}  // namespace partforge
