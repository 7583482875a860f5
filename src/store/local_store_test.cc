#include "store/local_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "base/hash.h"
#include "testing/object_store_contract.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

using ::testing::ElementsAre;
using testing::FailNth;
using ::testing::IsEmpty;
using testing::TempDir;
using testing::TestWorld;

class LocalStoreTest : public ::testing::Test {
 protected:
  Context ctx() { return world_.context(); }
  std::filesystem::path root() const { return folder_ / "bucket"; }
  std::vector<std::string> Keys(const std::string& prefix = "") {
    const Result<std::vector<ObjectInfo>> objects = ListAll(ctx(), store_, prefix);
    EXPECT_TRUE(objects.ok()) << objects.status().ToString();
    std::vector<std::string> keys;
    if (objects.ok()) {
      for (const ObjectInfo& object : *objects) keys.push_back(object.key);
    }
    return keys;
  }
  void Write(const std::string& key, const std::string& bytes) {
    const Result<ObjectInfo> info = WriteObject(ctx(), store_, key, bytes);
    ASSERT_TRUE(info.ok()) << info.status().ToString();
  }
  std::string Read(const std::string& key) {
    const Result<std::string> bytes = ReadObject(ctx(), store_, key);
    return bytes.ok() ? *bytes : bytes.status().ToString();
  }
  size_t TempFileCount() {
    size_t count = 0;
    std::error_code ignored;
    for (const auto& entry :
         std::filesystem::directory_iterator(root() / ".partforge-tmp", ignored)) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }

  TempDir folder_;
  TestWorld world_;
  LocalStore store_{folder_ / "bucket"};
};

// Runs `action` with a failure at its 1st, 2nd, … fault point until it meets none; after each
// failure `check` looks at what is there, and the same action without faults must succeed.
template <class Action, class Check>
void FailEachPoint(TestWorld& world, const Action& action, const Check& check) {
  std::set<std::string> points;
  for (int64_t nth = 1;; ++nth) {
    ASSERT_LT(nth, 100);
    FailNth faults(nth, "store.");
    world.UseFaults(faults);
    const Status status = action();
    NoFaults none;
    world.UseFaults(none);
    if (!faults.has_fired()) {
      EXPECT_TRUE(status.ok()) << status.ToString();
      break;
    }
    points.insert(faults.fired_point());
    EXPECT_FALSE(status.ok()) << faults.fired_point();
    check(faults.fired_point());
    const Status again = action();
    EXPECT_TRUE(again.ok()) << "again after " << faults.fired_point() << ": " << again.ToString();
  }
  NoFaults none;
  world.UseFaults(none);
  EXPECT_FALSE(points.empty());
}

TEST_F(LocalStoreTest, CreateFailedAnywhereShowsOldOrNewWhole) {
  const std::string old(1000, 'o'), fresh(2000, 'n');
  Write("a/b", old);
  FailEachPoint(
      world_,
      [&]() -> Status {
        PF_TRY(WriteObject(ctx(), store_, "a/b", fresh));
        return {};
      },
      [&](const std::string& point) {
        EXPECT_THAT(Keys(), ElementsAre("a/b")) << point;
        const std::string now = Read("a/b");
        EXPECT_TRUE(now == old || now == fresh) << point;
      });
  EXPECT_EQ(Read("a/b"), fresh);
}

TEST_F(LocalStoreTest, PutIfAbsentFailedAnywhereIsDecidedOnce) {
  int calls = 0;
  std::string key;
  FailEachPoint(
      world_,
      [&]() -> Status {
        key = "s/" + std::to_string(++calls);
        PF_ASSIGN(const PutOutcome outcome, store_.PutIfAbsent(ctx(), key, AsBytes("mine")));
        EXPECT_EQ(outcome, PutOutcome::kCreated);
        return {};
      },
      [&](const std::string& point) {
        const bool was_there = store_.Stat(ctx(), key).ok();
        const Result<PutOutcome> second = store_.PutIfAbsent(ctx(), key, AsBytes("theirs"));
        ASSERT_TRUE(second.ok()) << point;
        EXPECT_EQ(*second, was_there ? PutOutcome::kAlreadyThere : PutOutcome::kCreated) << point;
        EXPECT_EQ(Read(key), was_there ? "mine" : "theirs") << point;
      });
}

TEST_F(LocalStoreTest, LinkFailedAnywhereShowsOldOrNew) {
  Write("from", "new");
  Write("to", "old");
  FailEachPoint(
      world_, [&] { return store_.Link(ctx(), "from", "to"); },
      [&](const std::string& point) {
        EXPECT_THAT(Keys(), ElementsAre("from", "to")) << point;
        EXPECT_EQ(Read("from"), "new");
        EXPECT_TRUE(Read("to") == "old" || Read("to") == "new") << point;
      });
  EXPECT_EQ(Read("to"), "new");
  EXPECT_EQ(TempFileCount(), 0u);
}

TEST_F(LocalStoreTest, DeleteGoesOnAfterAFailure) {
  const std::vector<std::string> keys = {"d/a", "d/b", "e/c"};
  for (const std::string& key : keys) Write(key, "x");
  FailNth faults(1, "store.object_deleted");
  world_.UseFaults(faults);
  EXPECT_FALSE(store_.Delete(ctx(), keys).ok());
  NoFaults none;
  world_.UseFaults(none);
  EXPECT_TRUE(faults.has_fired());
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(LocalStoreTest, TemporaryFileOfADroppedSinkGoesWithTheNextCreate) {
  {
    const auto sink = store_.Create(ctx(), "x", -1);
    ASSERT_TRUE(sink.ok());
    EXPECT_EQ(TempFileCount(), 1u);
  }
  EXPECT_EQ(TempFileCount(), 1u);  // a destructor leaves the disk alone
  Write("y", "y");
  EXPECT_EQ(TempFileCount(), 0u);
}

TEST_F(LocalStoreTest, LeftoversAreSweptByAgeOnly) {
  const std::filesystem::path temp = root() / ".partforge-tmp";
  std::filesystem::create_directories(temp);
  std::ofstream(temp / "young") << "x";
  std::ofstream(temp / "old") << "x";
  timespec times[2] = {{1'600'000'000, 0}, {1'600'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (temp / "old").c_str(), times, 0), 0);
  Write("z", "z");  // the first Create of a process sweeps
  EXPECT_FALSE(std::filesystem::exists(temp / "old"));
  EXPECT_TRUE(std::filesystem::exists(temp / "young"));
  EXPECT_EQ(*store_.SweepLeftovers(ctx(), "", 3'600'000), 0);
  EXPECT_EQ(*store_.SweepLeftovers(ctx(), "", -3'600'000), 1);
  EXPECT_FALSE(std::filesystem::exists(temp / "young"));
}

TEST_F(LocalStoreTest, EmptiedFoldersGoButNeverTheRoot) {
  Write("a/b/c/1", "x");
  Write("a/b/2", "x");
  ASSERT_TRUE(store_.Delete(ctx(), std::vector<std::string>{"a/b/c/1"}).ok());
  EXPECT_FALSE(std::filesystem::exists(root() / "a/b/c"));
  EXPECT_TRUE(std::filesystem::exists(root() / "a/b"));
  ASSERT_TRUE(store_.Delete(ctx(), std::vector<std::string>{"a/b/2"}).ok());
  EXPECT_FALSE(std::filesystem::exists(root() / "a"));
  EXPECT_TRUE(std::filesystem::exists(root()));
}

TEST_F(LocalStoreTest, WritersSurviveDeletesThatTakeTheirFolder) {
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const std::string key = "shared/folder/" + std::to_string(t);
        for (int i = 0; i < 25; ++i) {
          const Result<PutOutcome> put = store_.PutIfAbsent(ctx(), key, AsBytes("x"));
          if (!put.ok() || *put != PutOutcome::kCreated) ++failures;
          if (!store_.Delete(ctx(), std::vector<std::string>{key}).ok()) ++failures;
        }
      });
    }
  }
  EXPECT_EQ(failures, 0);
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(LocalStoreTest, ListPassesOverFilesThatVanishMeanwhile) {
  for (int i = 0; i < 50; ++i) Write("stay/" + std::to_string(100 + i), "x");
  std::atomic<bool> is_over = false;
  std::jthread churn([&] {
    while (!is_over) {
      std::ofstream(root() / "stay" / "1zz") << "x";
      std::filesystem::create_directories(root() / "stay" / "125dir" / "deep");
      std::ofstream(root() / "stay" / "125dir" / "deep" / "f") << "x";
      std::filesystem::remove(root() / "stay" / "1zz");
      std::filesystem::remove_all(root() / "stay" / "125dir");
    }
  });
  for (int i = 0; i < 200; ++i) {
    const Result<std::vector<ObjectInfo>> objects = ListAll(ctx(), store_, "stay/");
    ASSERT_TRUE(objects.ok()) << objects.status().ToString();
    EXPECT_GE(objects->size(), 50u);
    EXPECT_LE(objects->size(), 52u);
  }
  is_over = true;
}

TEST_F(LocalStoreTest, FollowsNoLinkBelowTheRoot) {
  Write("real", "x");
  std::filesystem::create_directories(folder_ / "outside");
  std::ofstream(folder_ / "outside" / "secret") << "secret";
  std::filesystem::create_directory_symlink(folder_ / "outside", root() / "link");
  std::filesystem::create_symlink(folder_ / "outside" / "secret", root() / "file-link");
  for (const std::string key : {"link/secret", "file-link"}) {
    EXPECT_FALSE(store_.Stat(ctx(), key).ok()) << key;
    EXPECT_FALSE(store_.Open(ctx(), key).ok()) << key;
  }
  EXPECT_FALSE(WriteObject(ctx(), store_, "link/new", "x").ok());
  EXPECT_FALSE(store_.PutIfAbsent(ctx(), "link/new2", AsBytes("x")).ok());
  EXPECT_FALSE(store_.Delete(ctx(), std::vector<std::string>{"link/secret"}).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "outside" / "secret"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "outside" / "new"));
  EXPECT_THAT(Keys(), ElementsAre("real"));
}

TEST_F(LocalStoreTest, ForeignNamesAreNotListed) {
  Write("good", "x");
  std::ofstream(root() / "bad\xFF") << "x";
  std::ofstream(root() / "back\\slash") << "x";
  std::filesystem::create_directories(root() / "dir\xFF" / "sub");
  ASSERT_EQ(mkfifo((root() / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(Keys(), ElementsAre("good"));
  EXPECT_EQ(store_.Open(ctx(), "fifo").status().code(), Code::kNotFound);
}

TEST_F(LocalStoreTest, ObjectAndFolderOfOneNameCannotBe) {
  Write("name/below", "x");
  Write("object", "x");
  EXPECT_EQ(WriteObject(ctx(), store_, "name", "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(WriteObject(ctx(), store_, "object/below", "x").status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(WriteObject(ctx(), store_, std::string(300, 'n'), "x").status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(store_.Stat(ctx(), std::string(300, 'n')).status().code(), Code::kNotFound);
  EXPECT_THAT(Keys(), ElementsAre("name/below", "object"));
}

TEST_F(LocalStoreTest, AbsentRootIsAnEmptyStore) {
  EXPECT_THAT(Keys(), IsEmpty());
  EXPECT_EQ(store_.Stat(ctx(), "x").status().code(), Code::kNotFound);
  EXPECT_TRUE(store_.Delete(ctx(), std::vector<std::string>{"x"}).ok());
  EXPECT_EQ(*store_.SweepLeftovers(ctx(), "", 0), 0);
  EXPECT_FALSE(std::filesystem::exists(root()));
  EXPECT_EQ(LocalStore::Open("relative/path").status().code(), Code::kInvalidArgument);
}

std::vector<std::string> MakeFiles(const std::filesystem::path& folder, int count,
                                   const std::string& prefix) {
  std::filesystem::create_directories(folder);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(prefix + std::to_string(1000 + i));
    std::ofstream(folder / names.back()) << "x";
  }
  return names;
}

TEST(LocalListing, KeptNamesOfALargeFolderStayTrue) {
  TempDir root;
  TestWorld world;
  const std::vector<std::string> names = MakeFiles(root / "flat", 300, "");
  timespec times[2] = {{1'600'000'000, 0}, {1'600'000'000, 0}};  // settled long ago
  ASSERT_EQ(utimensat(AT_FDCWD, (root / "flat").c_str(), times, 0), 0);
  const Result<UniqueFd> root_fd = OpenFile(root.path(), O_PATH | O_DIRECTORY);
  ASSERT_TRUE(root_fd.ok());

  LocalListing listing(/*remember_names_min=*/100);
  std::vector<std::string> got;
  std::optional<std::string> after;
  for (int page_number = 0; page_number == 0 || after.has_value(); ++page_number) {
    if (page_number == 2) {  // names come and go between two pages
      std::ofstream(root / "flat" / "1150x") << "x";
      std::filesystem::remove(root / "flat" / "1151");
    }
    const Result<ListPage> page = listing.List(world.context(), root_fd->get(), "flat/", after, 50);
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    EXPECT_LE(page->objects.size(), 50u);
    for (const ObjectInfo& object : page->objects) got.push_back(object.key);
    after = page->next;
  }
  std::set<std::string> wanted;
  for (const std::string& name : names) wanted.insert("flat/" + name);
  wanted.insert("flat/1150x");
  wanted.erase("flat/1151");
  EXPECT_THAT(got, ::testing::ElementsAreArray(wanted));
}

TEST(LocalListing, TakesItsMemoryFromTheBudget) {
  TempDir root;
  TestWorld small(10'000);
  MakeFiles(root.path(), 300, std::string(200, 'n'));
  const Result<UniqueFd> root_fd = OpenFile(root.path(), O_PATH | O_DIRECTORY);
  LocalListing listing;
  EXPECT_EQ(listing.List(small.context(), root_fd->get(), "", std::nullopt, 10).status().code(),
            Code::kExhausted);
  EXPECT_EQ(small.context().memory.used_bytes(), 0);
}

}  // namespace
}  // namespace partforge
