#include "data/read_ahead.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/hash.h"
#include "data/memory_bytes.h"
#include "testing/memory_store.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

TEST(CoalesceRanges, HolesAreFilledAndRequestsStayShort) {
  const ReadAheadOptions options{.hole_bytes_max = 10, .request_bytes_max = 100};
  const auto requests = CoalesceRanges({{.offset = 200, .length = 5},
                                        {.offset = 0, .length = 20},
                                        {.offset = 25, .length = 10},
                                        {.offset = 30, .length = 2},
                                        {.offset = 60, .length = 0},
                                        {.offset = 300, .length = 250}},
                                       options);
  const std::vector<FileRange> wanted{{.offset = 0, .length = 35},
                                      {.offset = 200, .length = 5},
                                      {.offset = 300, .length = 100},
                                      {.offset = 400, .length = 100},
                                      {.offset = 500, .length = 50}};
  EXPECT_EQ(requests, wanted);
}

class ReadAhead : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 10'000; ++i) bytes_.push_back(static_cast<char>(random_.Next()));
    ASSERT_TRUE(WriteObject(ctx_, store_, "o", bytes_).ok());
  }
  partforge::testing::SeededRandom random_{partforge::testing::TestSeed()};
  partforge::testing::TestWorld world_;
  Context ctx_ = world_.context();
  partforge::testing::MemoryStore store_;
  std::string bytes_;
};

TEST_F(ReadAhead, WhateverIsFetchedReadsAreRight) {
  auto object = store_.Open(ctx_, "o");
  ReadAheadSource source(std::move(*object),
                         {.hole_bytes_max = 50, .request_bytes_max = 300, .held_bytes_max = 4000});
  for (int round = 0; round < 300; ++round) {
    const auto at = static_cast<int64_t>(random_.Next() % 9000);
    if (round % 7 == 0) {
      source.Fetch(ctx_, {{.offset = at, .length = 700}, {.offset = at + 720, .length = 200}});
    }
    if (round % 31 == 0) source.DropBefore(at);
    std::string got(random_.Next() % 1000, '\0');
    ASSERT_TRUE(source.ReadAt(ctx_, at, std::as_writable_bytes(std::span(got))).ok());
    ASSERT_EQ(got, bytes_.substr(static_cast<size_t>(at), got.size()));
  }
}

TEST_F(ReadAhead, WithoutMemoryItReadsWhenAsked) {
  partforge::testing::TestWorld small(1000);
  const Context ctx = small.context();
  auto object = store_.Open(ctx, "o");
  ReadAheadSource source(std::move(*object), {});
  EXPECT_FALSE(source.Fetch(ctx, {{.offset = 0, .length = 5000}}));
  std::string got(5000, '\0');
  ASSERT_TRUE(source.ReadAt(ctx, 0, std::as_writable_bytes(std::span(got))).ok());
  EXPECT_EQ(got, bytes_.substr(0, 5000));
}

TEST_F(ReadAhead, ViewsAreOfWhatOneRequestHolds) {
  std::string bytes(1'000'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 >> 3);
  ReadAheadSource source(std::make_unique<MemorySource>(AsBytes(bytes)),
                         {.hole_bytes_max = 10, .request_bytes_max = 100'000});
  EXPECT_FALSE(source.View({.offset = 0, .length = 10}));
  ASSERT_TRUE(source.Fetch(
      ctx_, {{.offset = 1000, .length = 50'000}, {.offset = 400'000, .length = 150'000}}));
  std::vector<std::jthread> readers;
  for (int64_t t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      for (int64_t i = 0; i < 200; ++i) {
        const FileRange range{.offset = 1000 + (i * 241 + t * 17) % 49'000, .length = 1000};
        const auto view = source.View(range);
        ASSERT_TRUE(view);
        ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(view->data()), view->size()),
                  std::string_view(bytes).substr(static_cast<size_t>(range.offset), 1000));
      }
    });
  }
  readers.clear();
  // Across two requests, beyond them, and after they were dropped there is nothing to be seen.
  EXPECT_TRUE(source.View({.offset = 400'000, .length = 100'000}));
  EXPECT_FALSE(source.View({.offset = 400'000, .length = 100'001}));
  EXPECT_FALSE(source.View({.offset = 900'000, .length = 1}));
  source.DropBefore(1'000'000);
  EXPECT_FALSE(source.View({.offset = 1000, .length = 10}));
}

}  // namespace
}  // namespace partforge::data
