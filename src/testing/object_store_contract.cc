#include "testing/object_store_contract.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/hash.h"
#include "base/parallel_for.h"
#include "store/sequential_reader.h"

namespace partforge::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

// Keys that some layer (URL, XML, shell, form encoding) would like to misread.
const std::vector<std::string> kOddKeys = {"a b/c d",
                                           "plus+plus/a+b",
                                           "percent/100%",
                                           "percent/%2F%20",
                                           "amp&/x=y&z",
                                           "lt<gt>",
                                           "quote\"'`",
                                           "hash#/frag",
                                           "query?x=1",
                                           "semi;colon,comma",
                                           "tilde~.dot",
                                           "brackets[{(!)}]",
                                           "star*",
                                           "at@colon:dollar$",
                                           "caret^pipe|",
                                           "täg=ä/ö.txt",
                                           "日本/語.parquet",
                                           "emoji-\xF0\x9F\x98\x80",
                                           " leading",
                                           "trailing ",
                                           "...",
                                           "..a/b..",
                                           "dt=2024-01-01/hour=00/part-0.parquet"};

}  // namespace

std::string StoreCaseName(const ::testing::TestParamInfo<StoreCase>& info) {
  return info.param.name;
}

std::string TestBytes(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  std::string bytes;
  bytes.reserve(size + 8);
  while (bytes.size() < size) {
    const uint64_t word = random.Next();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  bytes.resize(size);
  return bytes;
}

void ObjectStoreContract::Write(const std::string& key, const std::string& bytes) {
  const Result<ObjectInfo> info = WriteObject(ctx(), store(), key, bytes);
  ASSERT_TRUE(info.ok()) << key << ": " << info.status().ToString();
}

std::string ObjectStoreContract::Read(const std::string& key) {
  const Result<std::string> bytes = ReadObject(ctx(), store(), key);
  EXPECT_TRUE(bytes.ok()) << key << ": " << bytes.status().ToString();
  return bytes.ok() ? *bytes : std::string("<absent>");
}

std::vector<std::string> ObjectStoreContract::Keys(const std::string& prefix) {
  const Result<std::vector<ObjectInfo>> objects = ListAll(ctx(), store(), prefix);
  EXPECT_TRUE(objects.ok()) << objects.status().ToString();
  std::vector<std::string> keys;
  if (objects.ok()) {
    for (const ObjectInfo& object : *objects) keys.push_back(object.key);
  }
  return keys;
}

// A binary that wants another fake of this library gets the contract linked in as well.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ObjectStoreContract);

TEST_P(ObjectStoreContract, GivesBackWhatWasWritten) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{300'001}}) {
    const std::string key = "sizes/" + std::to_string(size), bytes = TestBytes(size, size);
    Write(key, bytes);
    EXPECT_TRUE(Read(key) == bytes) << size;
  }
}

TEST_P(ObjectStoreContract, JoinsAppendsOfAnySize) {
  const std::string bytes = TestBytes(700'000, 1);
  const auto sink = store().Create(ctx(), "joined", -1);
  ASSERT_TRUE(sink.ok()) << sink.status().ToString();
  for (size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 3 + 1) {
    const std::string piece = bytes.substr(at, step);
    ASSERT_TRUE((*sink)->Append(ctx(), AsBytes(piece)).ok());
  }
  const Result<ObjectInfo> info = (*sink)->Close(ctx());
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->size_bytes, 700'000);
  EXPECT_TRUE(Read("joined") == bytes);
}

TEST_P(ObjectStoreContract, TakesMoreBytesThanTheHintSays) {
  const std::string bytes = TestBytes(200'000, 2);
  for (const int64_t hint : {int64_t{0}, int64_t{10}, int64_t{1} << 40}) {
    const auto sink = store().Create(ctx(), "hinted", hint);
    ASSERT_TRUE(sink.ok()) << sink.status().ToString();
    ASSERT_TRUE((*sink)->Append(ctx(), AsBytes(bytes)).ok());
    ASSERT_TRUE((*sink)->Close(ctx()).ok());
    EXPECT_TRUE(Read("hinted") == bytes) << hint;
  }
}

TEST_P(ObjectStoreContract, ReadsAnyRange) {
  const std::string bytes = TestBytes(100'000, 3);
  Write("ranges", bytes);
  const auto source = store().Open(ctx(), "ranges");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->size_bytes(), 100'000);
  for (const auto& [offset, size] : std::vector<std::pair<size_t, size_t>>{
           {0, 1}, {0, 100'000}, {99'999, 1}, {12'345, 54'321}, {100'000, 0}, {5, 0}}) {
    std::string out(size, 'x');
    const Status status =
        (*source)->ReadAt(ctx(), static_cast<int64_t>(offset),
                          std::as_writable_bytes(std::span(out.data(), out.size())));
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(out == bytes.substr(offset, size)) << offset << " " << size;
  }
}

TEST_P(ObjectStoreContract, ReadBeyondTheEndIsCorruption) {
  Write("short", "0123456789");
  const auto source = store().Open(ctx(), "short");
  ASSERT_TRUE(source.ok());
  std::byte out[8];
  for (const int64_t offset : {int64_t{3}, int64_t{10}, int64_t{11}, int64_t{-1}, INT64_MAX}) {
    const Status status = (*source)->ReadAt(ctx(), offset, out);
    ASSERT_FALSE(status.ok()) << offset;
    EXPECT_EQ(status.code(), Code::kCorruption) << offset;
  }
}

TEST_P(ObjectStoreContract, ReadsFromManyThreadsAtOnce) {
  const std::string bytes = TestBytes(200'000, 4);
  Write("shared", bytes);
  const auto source = store().Open(ctx(), "shared");
  ASSERT_TRUE(source.ok());
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 5; ++i) {
          const size_t offset = (t * 37 + i * 1013) % 1900 * 100;
          std::string out(5000, 'x');
          const Status status =
              (*source)->ReadAt(ctx(), static_cast<int64_t>(offset),
                                std::as_writable_bytes(std::span(out.data(), out.size())));
          if (!status.ok() || out != bytes.substr(offset, 5000)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(ObjectStoreContract, AbsentIsNotFound) {
  Write("there/file", "x");
  for (const std::string key : {"absent", "there", "there/file/below", "there/other"}) {
    EXPECT_EQ(store().Open(ctx(), key).status().code(), Code::kNotFound) << key;
    EXPECT_EQ(store().Stat(ctx(), key).status().code(), Code::kNotFound) << key;
    EXPECT_EQ(store().Link(ctx(), key, "linked").code(), Code::kNotFound) << key;
  }
  EXPECT_THAT(Keys(""), ElementsAre("there/file"));
}

TEST_P(ObjectStoreContract, UnclosedIsInvisible) {
  {
    const auto sink = store().Create(ctx(), "half", -1);
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE((*sink)->Append(ctx(), AsBytes(TestBytes(300'000, 5))).ok());
    EXPECT_THAT(Keys(""), IsEmpty());
    EXPECT_EQ(store().Stat(ctx(), "half").status().code(), Code::kNotFound);
  }
  EXPECT_THAT(Keys(""), IsEmpty());
  Write("half", "whole");  // and its name is free
  EXPECT_EQ(Read("half"), "whole");
}

TEST_P(ObjectStoreContract, DroppedOverwriteKeepsTheOldObject) {
  Write("kept", "old");
  {
    const auto sink = store().Create(ctx(), "kept", 3);
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE((*sink)->Append(ctx(), AsBytes("new")).ok());
  }
  EXPECT_EQ(Read("kept"), "old");
}

TEST_P(ObjectStoreContract, CreateOverwrites) {
  Write("twice", "first, longer");
  Write("twice", "second");
  EXPECT_EQ(Read("twice"), "second");
  EXPECT_THAT(Keys("twice"), ElementsAre("twice"));
}

TEST_P(ObjectStoreContract, FirstPutIfAbsentWins) {
  const Result<PutOutcome> first = store().PutIfAbsent(ctx(), "snapshot/1", AsBytes("one"));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(*first, PutOutcome::kCreated);
  for (const std::string bytes : {"two", "one", ""}) {  // also with the very same bytes
    const Result<PutOutcome> later = store().PutIfAbsent(ctx(), "snapshot/1", AsBytes(bytes));
    ASSERT_TRUE(later.ok()) << later.status().ToString();
    EXPECT_EQ(*later, PutOutcome::kAlreadyThere);
  }
  EXPECT_EQ(Read("snapshot/1"), "one");
}

TEST_P(ObjectStoreContract, PutIfAbsentSeesObjectsThatWereCreated) {
  Write("written", "by create");
  const Result<PutOutcome> outcome = store().PutIfAbsent(ctx(), "written", AsBytes("x"));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(*outcome, PutOutcome::kAlreadyThere);
  ASSERT_TRUE(store().Delete(ctx(), std::vector<std::string>{"written"}).ok());
  const Result<PutOutcome> again = store().PutIfAbsent(ctx(), "written", AsBytes("x"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, PutOutcome::kCreated);
}

TEST_P(ObjectStoreContract, OneOfManyPutIfAbsentWins) {
  for (int round = 0; round < 5; ++round) {
    const std::string key = "race/" + std::to_string(round);
    std::atomic<int> winners = 0, failures = 0, winner = -1;
    {
      constexpr int kWriters = 8;
      std::vector<std::jthread> threads;
      threads.reserve(kWriters);
      for (int t = 0; t < kWriters; ++t) {
        threads.emplace_back([&, t] {
          const std::string bytes = "writer " + std::to_string(t);
          const Result<PutOutcome> outcome = store().PutIfAbsent(ctx(), key, AsBytes(bytes));
          if (!outcome.ok()) {
            ++failures;
          } else if (*outcome == PutOutcome::kCreated) {
            ++winners;
            winner = t;
          }
        });
      }
    }
    EXPECT_EQ(failures, 0);
    ASSERT_EQ(winners, 1);
    EXPECT_EQ(Read(key), "writer " + std::to_string(winner));
  }
}

TEST_P(ObjectStoreContract, InfoIsTheSameFromCloseStatAndList) {
  const Result<ObjectInfo> closed = WriteObject(ctx(), store(), "info/x", "twelve bytes");
  ASSERT_TRUE(closed.ok());
  const Result<ObjectInfo> stat = store().Stat(ctx(), "info/x");
  ASSERT_TRUE(stat.ok());
  const Result<ListPage> page = store().List(ctx(), "info/", std::nullopt);
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->objects.size(), 1u);
  for (const ObjectInfo& info : {*closed, *stat, page->objects[0]}) {
    EXPECT_EQ(info.key, "info/x");
    EXPECT_EQ(info.size_bytes, 12);
    EXPECT_EQ(info.etag, closed->etag);
    EXPECT_NEAR(static_cast<double>(info.modified_ms), static_cast<double>(stat->modified_ms),
                5000.0);
    EXPECT_GT(info.modified_ms, 1'600'000'000'000);
  }
}

TEST_P(ObjectStoreContract, ListsInTheOrderOfWholeKeys) {
  // A folder sorts by its name with the slash: "a.b" < "a/b" < "a0", whatever a directory says.
  std::vector<std::string> keys = {"a",   "a-b", "a.b",   "a/b",  "a/b/c2", "a0", "a/b.c", "ab",
                                   "b/a", "b/A", "b/a/a", "b/aa", "b/ä",    "Z",  "b/a b", "b/a/b"};
  keys.erase(std::remove_if(keys.begin(), keys.end(),
                            [](const std::string& key) {
                              return key == "a" || key == "a/b" ||
                                     key == "b/a";  // a file system has no file beside a folder
                            }),
             keys.end());
  for (const std::string& key : keys) Write(key, key);
  std::sort(keys.begin(), keys.end());
  EXPECT_THAT(Keys(""), ElementsAreArray(keys));
  for (const std::string prefix : {"a", "a/", "a/b", "b/a", "b/a/", "b/ä", "c", "a.", "b"}) {
    std::vector<std::string> wanted;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(wanted),
                 [&](const std::string& key) { return key.starts_with(prefix); });
    EXPECT_THAT(Keys(prefix), ElementsAreArray(wanted)) << prefix;
  }
}

TEST_P(ObjectStoreContract, ListGoesOnAfterAnyKey) {
  std::vector<std::string> keys = {"p/a/1",   "p/a/2",   "p/b",  "p/c-d",
                                   "p/c/1/x", "p/c/1/y", "p/c0", "q"};
  for (const std::string& key : keys) Write(key, "x");
  for (const std::string after : {"", "p", "p/a", "p/a/1", "p/a/15", "p/a/2", "p/b", "p/c", "p/c/",
                                  "p/c/1/x", "p/c/2", "p/c0", "p/z", "q", "z"}) {
    std::vector<std::string> wanted;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(wanted),
                 [&](const std::string& key) { return key.starts_with("p/") && key > after; });
    const Result<ListPage> page = store().List(ctx(), "p/", after);
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    std::vector<std::string> got;
    for (const ObjectInfo& object : page->objects) got.push_back(object.key);
    EXPECT_THAT(got, ElementsAreArray(wanted)) << "after " << after;
    EXPECT_FALSE(page->next.has_value());
  }
}

TEST_P(ObjectStoreContract, PagesHoldEveryKeyOnce) {
  constexpr int kObjects = 1203;
  std::vector<std::string> keys;
  keys.reserve(kObjects);
  for (int i = 0; i < kObjects; ++i) {
    keys.push_back("many/" + std::to_string(i % 7) + "/" + std::to_string(i));
  }
  const Status put =
      ParallelFor(ctx(), kObjects, 8, [&](const Context& own, int64_t index) -> Status {
        PF_TRY(store().PutIfAbsent(own, keys[static_cast<size_t>(index)], AsBytes("x")));
        return {};
      });
  ASSERT_TRUE(put.ok()) << put.ToString();
  std::sort(keys.begin(), keys.end());
  std::optional<std::string> after;
  std::vector<std::string> got;
  int pages = 0;
  do {
    const Result<ListPage> page = store().List(ctx(), "many/", after);
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    EXPECT_LE(page->objects.size(), 1000u);
    for (const ObjectInfo& object : page->objects) got.push_back(object.key);
    after = page->next;
    ++pages;
  } while (after.has_value());
  EXPECT_THAT(got, ElementsAreArray(keys));
  EXPECT_EQ(pages, 2);
  EXPECT_EQ(ListAll(ctx(), store(), "many/", 1202).status().code(), Code::kExhausted);

  ASSERT_TRUE(store().Delete(ctx(), keys).ok());
  EXPECT_THAT(Keys(""), IsEmpty());
}

TEST_P(ObjectStoreContract, KeysMayBeOdd) {
  std::vector<std::string> keys = kOddKeys;
  for (const std::string& key : keys) Write(key, "bytes of " + key);
  std::sort(keys.begin(), keys.end());
  EXPECT_THAT(Keys(""), ElementsAreArray(keys));
  for (const std::string& key : keys) {
    EXPECT_EQ(Read(key), "bytes of " + key);
    EXPECT_THAT(Keys(key), ElementsAre(key));
    EXPECT_TRUE(store().Link(ctx(), key, "copies/" + key).ok()) << key;
    EXPECT_EQ(Read("copies/" + key), "bytes of " + key);
    const Result<PutOutcome> outcome = store().PutIfAbsent(ctx(), key, AsBytes("x"));
    ASSERT_TRUE(outcome.ok()) << key;
    EXPECT_EQ(*outcome, PutOutcome::kAlreadyThere) << key;
  }
  ASSERT_TRUE(store().Delete(ctx(), keys).ok());
  for (std::string& key : keys) key.insert(0, "copies/");
  EXPECT_THAT(Keys(""), ElementsAreArray(keys));
}

TEST_P(ObjectStoreContract, BadKeysAreRefusedByEveryCall) {
  const std::string long_key(1025, 'k');
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("/a"), std::string("a/"), std::string("a//b"),
        std::string("."), std::string("a/./b"), std::string("a/../b"), std::string(".."),
        std::string("a\\b"), std::string("a\nb"), std::string("a\0b", 3), std::string("\xFF"),
        std::string("\xC3"), long_key, std::string(".partforge-tmp"),
        std::string(".partforge-tmp/x")}) {
    EXPECT_EQ(store().Open(ctx(), key).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().Create(ctx(), key, -1).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().PutIfAbsent(ctx(), key, {}).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().Stat(ctx(), key).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().Link(ctx(), key, "b").code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().Delete(ctx(), std::vector<std::string>{key}).code(), Code::kInvalidArgument)
        << key;
  }
  EXPECT_EQ(store().List(ctx(), "a/../b", std::nullopt).status().code(), Code::kInvalidArgument);
}

TEST_P(ObjectStoreContract, LinkIsAnObjectOfItsOwn) {
  Write("from", "first");
  Write("to", "in the way");
  ASSERT_TRUE(store().Link(ctx(), "from", "to").ok());
  ASSERT_TRUE(store().Link(ctx(), "from", "to").ok());  // twice is once
  ASSERT_TRUE(store().Link(ctx(), "from", "deep/er/to").ok());
  ASSERT_TRUE(store().Link(ctx(), "from", "from").ok());
  Write("from", "second");
  EXPECT_EQ(Read("to"), "first");
  ASSERT_TRUE(store().Delete(ctx(), std::vector<std::string>{"to"}).ok());
  EXPECT_EQ(Read("deep/er/to"), "first");
  EXPECT_EQ(Read("from"), "second");
  EXPECT_THAT(Keys(""), ElementsAre("deep/er/to", "from"));
}

TEST_P(ObjectStoreContract, DeleteTakesOnlyWhatItNames) {
  for (const std::string key : {"d/a", "d/ab", "d/a.b", "d/sub/x", "d/sub/y", "e"}) Write(key, key);
  const std::vector<std::string> keys = {"d/a",   "absent",  "absent/below",
                                         "d/sub", "d/sub/x", "d/a"};
  const Status status = store().Delete(ctx(), keys);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_THAT(Keys(""), ElementsAre("d/a.b", "d/ab", "d/sub/y", "e"));
}

TEST_P(ObjectStoreContract, DeleteGoesOnAfterABadKey) {
  Write("x", "x");
  Write("y", "y");
  const std::vector<std::string> keys = {"x", "../escape", "y"};
  EXPECT_EQ(store().Delete(ctx(), keys).code(), Code::kInvalidArgument);
  EXPECT_THAT(Keys(""), IsEmpty());
}

TEST_P(ObjectStoreContract, StopCancelsAndShowsNothing) {
  const auto sink = store().Create(ctx(), "stopped", -1);
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE((*sink)->Append(ctx(), AsBytes("some")).ok());
  TestWorld stopped;
  stopped.RequestStop();
  const Result<ObjectInfo> closed = (*sink)->Close(stopped.context());
  ASSERT_FALSE(closed.ok());
  EXPECT_EQ(closed.status().code(), Code::kCancelled);
  EXPECT_THAT(Keys(""), IsEmpty());
}

TEST_P(ObjectStoreContract, SequentialReaderReadsFrontToBack) {
  const std::string bytes = TestBytes(1'000'003, 6);
  Write("sequence", bytes);
  const auto source = store().Open(ctx(), "sequence");
  ASSERT_TRUE(source.ok());
  for (const int blocks : {1, 4}) {
    auto reader = SequentialReader::Open(
        ctx(), **source,
        {.offset = 17, .size_bytes = 900'000, .block_bytes = 70'000, .blocks_in_flight = blocks});
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    std::string got;
    while (true) {
      const Result<std::span<const std::byte>> block = (*reader)->Next(ctx());
      ASSERT_TRUE(block.ok()) << block.status().ToString();
      if (block->empty()) break;
      got.append(reinterpret_cast<const char*>(block->data()), block->size());
    }
    EXPECT_TRUE(got == bytes.substr(17, 900'000));
  }
}

}  // namespace partforge::testing
