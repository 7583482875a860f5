#include "store/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/hash.h"
#include "store/s3_upload.h"
#include "testing/object_store_contract.h"
#include "testing/s3_fake.h"

namespace partforge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::S3Fake;
using testing::S3FakeOptions;
using testing::S3Fault;
using testing::TestBytes;
using testing::TestWorld;

constexpr int64_t kPartBytes = 64 << 10;

S3StoreOptions SmallParts(const S3Fake& fake) {
  S3StoreOptions options = fake.store_options();
  options.part_bytes = options.part_bytes_min = kPartBytes;
  options.copy_bytes_max = 2 * kPartBytes;
  options.copy_part_bytes = kPartBytes;
  return options;
}

std::vector<std::string> KeysOf(const Context& ctx, ObjectStore& store) {
  const Result<std::vector<ObjectInfo>> objects = ListAll(ctx, store, "");
  EXPECT_TRUE(objects.ok()) << objects.status().ToString();
  std::vector<std::string> keys;
  if (objects.ok()) {
    for (const ObjectInfo& object : *objects) keys.push_back(object.key);
  }
  return keys;
}

// Everything a store does, once: a large object, a small one, copies of both, a conditional put, a
// list, deletions.
Status DoEverything(const Context& ctx, ObjectStore& store) {
  const std::string large = TestBytes(3 * kPartBytes + 5, 1);
  PF_TRY(WriteObject(ctx, store, "large", large));
  PF_TRY(WriteObject(ctx, store, "small", "small bytes"));
  PF_ASSIGN(const PutOutcome first, store.PutIfAbsent(ctx, "once", AsBytes("mine")));
  EXPECT_EQ(first, PutOutcome::kCreated);
  PF_ASSIGN(const PutOutcome second, store.PutIfAbsent(ctx, "once", AsBytes("mine")));
  EXPECT_EQ(second, PutOutcome::kAlreadyThere);
  PF_TRY(store.Link(ctx, "large", "copies/large"));
  PF_TRY(store.Link(ctx, "small", "copies/small"));
  PF_ASSIGN(const std::string back, ReadObject(ctx, store, "copies/large"));
  EXPECT_TRUE(back == large);
  PF_ASSIGN(const std::string small, ReadObject(ctx, store, "copies/small"));
  EXPECT_EQ(small, "small bytes");
  EXPECT_THAT(KeysOf(ctx, store),
              ElementsAre("copies/large", "copies/small", "large", "once", "small"));
  PF_TRY(store.Delete(ctx, std::vector<std::string>{"copies/large", "copies/small", "large"}));
  PF_TRY(store.Delete(ctx, std::vector<std::string>{"small"}));
  EXPECT_THAT(KeysOf(ctx, store), ElementsAre("once"));
  return {};
}

struct FaultCase {
  S3Fault fault;
  std::string op;
  int64_t skip = 0;
};

const std::vector<std::string> kOperations = {"put",         "get",  "head",          "delete",
                                              "delete_many", "list", "create_upload", "part",
                                              "complete",    "copy", "copy_part"};

// Runs everything against a fresh server with one fault, and says how many faults were met.
int64_t RunWith(const FaultCase& c) {
  SCOPED_TRACE("fault " + std::to_string(static_cast<int>(c.fault)) + " at " + c.op + " after " +
               std::to_string(c.skip));
  S3Fake fake({.part_bytes_min = kPartBytes});
  fake.Inject(c.fault, c.op, 1, c.skip);
  TestWorld world;
  S3Store store(SmallParts(fake));
  const Status status = DoEverything(world.context(), store);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(fake.object("once"), "mine");
  return fake.fault_count();
}

TEST(S3Store, OneFaultAnywhereChangesNothing) {
  for (const std::string& op : kOperations) {
    for (const S3Fault fault : {S3Fault::kDropped, S3Fault::kLostReply, S3Fault::kSlowDown,
                                S3Fault::kLateError, S3Fault::kCutBody}) {
      if (fault == S3Fault::kCutBody && op == "head") continue;  // has no body
      int64_t met = 0;
      while (met < 6 && RunWith({fault, op, met}) == 1)
        ++met;  // at the 1st, 2nd, … until there are no more
      EXPECT_GT(met, 0) << op;
    }
  }
  for (const std::string op :
       {"list", "create_upload", "complete", "copy", "copy_part", "delete_many"}) {
    EXPECT_EQ(RunWith({S3Fault::kErrorIn200, op}), 1) << op;
  }
  EXPECT_EQ(RunWith({S3Fault::kKeyError, "delete_many"}), 1);
}

TEST(S3Store, ManyFaultsEverywhereChangeNothing) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  for (int round = 0; round < 10; ++round) {
    S3Fake fake({.part_bytes_min = kPartBytes});
    for (int i = 0; i < 12; ++i) {
      const S3Fault faults[] = {S3Fault::kDropped, S3Fault::kLostReply, S3Fault::kSlowDown,
                                S3Fault::kLateError};
      fake.Inject(faults[RandomBelow(random, 4)], "", 1,
                  static_cast<int64_t>(RandomBelow(random, 8)));
    }
    TestWorld world;
    S3StoreOptions options = SmallParts(fake);
    options.client.tries_max = 16;
    S3Store store(options);
    const Status status = DoEverything(world.context(), store);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(S3Store, TriesEndAndSayWhy) {
  S3Fake fake;
  fake.Inject(S3Fault::kSlowDown, "list", 1000);
  TestWorld world;
  S3Store store(fake.store_options());
  const Result<ListPage> page = store.List(world.context(), "", std::nullopt);
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.status().code(), Code::kUnavailable);
  EXPECT_EQ(page.status().explanation().pf_number, 7001);
  EXPECT_THAT(page.status().message(), HasSubstr("SlowDown"));
  EXPECT_THAT(page.status().message(), HasSubstr("FAKE0001"));
  EXPECT_EQ(fake.request_count("list"), fake.store_options().client.tries_max);
}

TEST(S3Store, NobodyThereIsUnavailable) {
  S3StoreOptions options;
  {
    S3Fake gone;
    options = gone.store_options();
  }
  options.client.tries_max = 2;
  TestWorld world;
  S3Store store(options);
  const Result<ObjectInfo> info = store.Stat(world.context(), "x");
  ASSERT_FALSE(info.ok());
  EXPECT_EQ(info.status().code(), Code::kUnavailable);
  EXPECT_EQ(info.status().explanation().pf_number, 7001);
  EXPECT_EQ(store.PutIfAbsent(world.context(), "x", AsBytes("x")).status().code(),
            Code::kUnavailable);
}

TEST(S3Store, EveryReplyOfAConditionalPutLostIsResolvedByAsking) {
  S3Fake fake;
  TestWorld world;
  S3StoreOptions options = fake.store_options();
  options.probes_conditional_put = false;
  S3Store store(options);
  fake.Inject(S3Fault::kLostReply, "put", 1000);
  const Result<PutOutcome> ours = store.PutIfAbsent(world.context(), "ours", AsBytes("a"));
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  EXPECT_EQ(*ours, PutOutcome::kCreated);
}

TEST(S3Store, LostReplyOfALostRaceIsAlreadyThere) {
  S3Fake fake;
  TestWorld world;
  S3Store store(fake.store_options());
  ASSERT_TRUE(WriteObject(world.context(), store, "theirs", "same bytes").ok());
  fake.Inject(S3Fault::kLostReply, "put", 1, 2);  // after the two of the probe
  const Result<PutOutcome> outcome =
      store.PutIfAbsent(world.context(), "theirs", AsBytes("same bytes"));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(*outcome, PutOutcome::kAlreadyThere);
}

TEST(S3Store, ConditionalPutThatCannotBeResolvedIsUnknown) {
  S3Fake fake;
  TestWorld world;
  S3StoreOptions options = fake.store_options();
  options.probes_conditional_put = false;
  S3Store store(options);
  fake.Inject(S3Fault::kLostReply, "put", 1000);
  fake.Inject(S3Fault::kDropped, "head", 1000);
  EXPECT_EQ(store.PutIfAbsent(world.context(), "x", AsBytes("a")).status().code(),
            Code::kUnknownOutcome);

  // Not seen is no proof either: the request may still be on its way.
  S3Fake silent;
  options.client.host = silent.host();
  S3Store other(options);
  silent.Inject(S3Fault::kDropped, "put", 1000);
  EXPECT_EQ(other.PutIfAbsent(world.context(), "x", AsBytes("a")).status().code(),
            Code::kUnknownOutcome);
}

TEST(S3Store, RacesWithLostRepliesHaveOneWinner) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  S3Fake fake;
  TestWorld world;
  S3StoreOptions options = fake.store_options();
  options.client.tries_max = 30;
  S3Store store(options);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 6; ++i) {
      fake.Inject(RandomBelow(random, 2) == 0 ? S3Fault::kLostReply : S3Fault::kLateError, "put", 1,
                  static_cast<int64_t>(RandomBelow(random, 4)));
    }
    const std::string key = "race/" + std::to_string(round);
    std::atomic<int> winners = 0, losers = 0, winner = -1;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 6; ++t) {
        threads.emplace_back([&, t] {
          const Result<PutOutcome> outcome =
              store.PutIfAbsent(world.context(), key, AsBytes(std::to_string(t)));
          if (!outcome.ok()) return;
          if (*outcome == PutOutcome::kAlreadyThere) {
            ++losers;
          } else {
            ++winners;
            winner = t;
          }
        });
      }
    }
    ASSERT_EQ(winners, 1);
    EXPECT_EQ(losers, 5);
    EXPECT_EQ(fake.object(key), std::to_string(winner));
  }
}

TEST(S3Store, StoreWithoutConditionsIsRefusedBeforeItMatters) {
  S3Fake fake({.honours_conditions = false});
  TestWorld world;
  S3Store store(fake.store_options());
  ASSERT_TRUE(WriteObject(world.context(), store, "snapshot-1", "theirs").ok());
  const Result<PutOutcome> outcome =
      store.PutIfAbsent(world.context(), "snapshot-1", AsBytes("ours"));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), Code::kRefused);
  EXPECT_EQ(outcome.status().explanation().pf_number, 7011);
  EXPECT_EQ(fake.object("snapshot-1"), "theirs");
  EXPECT_THAT(KeysOf(world.context(), store), ElementsAre("snapshot-1"));
}

TEST(S3Store, ProbesOnce) {
  S3Fake fake;
  TestWorld world;
  S3Store store(fake.store_options());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store.PutIfAbsent(world.context(), "k" + std::to_string(i), AsBytes("x")).ok());
  }
  EXPECT_EQ(fake.request_count("put"), 5);
  EXPECT_EQ(fake.request_count("delete"), 1);
}

TEST(S3Store, LargeObjectsGoInPartsOfTheGivenSize) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world;
  S3Store store(SmallParts(fake));
  const std::string bytes = TestBytes(5 * kPartBytes + 1, 2);
  const Result<ObjectInfo> info = WriteObject(world.context(), store, "x", bytes);
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_THAT(fake.last_part_sizes(),
              ElementsAre(kPartBytes, kPartBytes, kPartBytes, kPartBytes, kPartBytes, 1));
  EXPECT_TRUE(fake.object("x") == bytes);
  EXPECT_EQ(fake.request_count("put"), 0);
  // One part exactly is one PUT.
  ASSERT_TRUE(WriteObject(world.context(), store, "y", bytes.substr(0, kPartBytes)).ok());
  EXPECT_EQ(fake.request_count("put"), 1);
}

TEST(S3Store, UploadGoesOnWithMemoryForOnePart) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world(kPartBytes + 100);
  S3Store store(SmallParts(fake));
  const std::string bytes = TestBytes(6 * kPartBytes, 3);
  const auto sink = store.Create(world.context(), "x", -1);
  ASSERT_TRUE(sink.ok());
  for (size_t at = 0; at < bytes.size(); at += 10'000) {
    const Status status =
        (*sink)->Append(world.context(), AsBytes(std::string_view(bytes).substr(at, 10'000)));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  ASSERT_TRUE((*sink)->Close(world.context()).ok());
  EXPECT_TRUE(fake.object("x") == bytes);
  EXPECT_LE(world.context().memory.peak_bytes(), kPartBytes + 100);
}

TEST(S3Store, FailedWriteLeavesNoUpload) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world;
  S3StoreOptions options = SmallParts(fake);
  options.client.tries_max = 2;
  S3Store store(options);
  fake.Inject(S3Fault::kSlowDown, "part", 1000, 1);
  const Result<ObjectInfo> info =
      WriteObject(world.context(), store, "x", TestBytes(4 * kPartBytes, 4));
  ASSERT_FALSE(info.ok());
  EXPECT_EQ(info.status().code(), Code::kUnavailable);
  EXPECT_EQ(fake.open_upload_count(), 0u);
  EXPECT_EQ(world.context().memory.used_bytes(), 0);
}

TEST(S3Store, DroppedSinkIsAbortedByTheNextCreate) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world;
  S3Store store(SmallParts(fake));
  {
    const auto sink = store.Create(world.context(), "x", -1);
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE((*sink)->Append(world.context(), AsBytes(TestBytes(3 * kPartBytes, 5))).ok());
  }
  EXPECT_EQ(fake.open_upload_count(), 1u);  // a destructor sends nothing
  ASSERT_TRUE(WriteObject(world.context(), store, "y", "y").ok());
  EXPECT_EQ(fake.open_upload_count(), 0u);
}

TEST(S3Store, StopEndsAnUploadAtOnceAndLeavesItToTheNext) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world, stopped;
  S3Store store(SmallParts(fake));
  {
    const auto sink = store.Create(world.context(), "x", -1);
    ASSERT_TRUE((*sink)->Append(stopped.context(), AsBytes(TestBytes(3 * kPartBytes, 6))).ok());
    stopped.RequestStop();
    EXPECT_EQ((*sink)->Close(stopped.context()).status().code(), Code::kCancelled);
  }
  EXPECT_THAT(KeysOf(world.context(), store), IsEmpty());
  ASSERT_TRUE(WriteObject(world.context(), store, "y", "y").ok());
  EXPECT_EQ(fake.open_upload_count(), 0u);
}

TEST(S3Store, SweepsUploadsOfDeadWritersByAgeAndPrefix) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world;
  for (const std::string key : {"jobs/a b", "other/c"}) {
    S3Store dead(SmallParts(fake));
    const auto sink = dead.Create(world.context(), key, -1);
    ASSERT_TRUE((*sink)->Append(world.context(), AsBytes(TestBytes(2 * kPartBytes, 7))).ok());
  }
  S3Store store(SmallParts(fake));
  EXPECT_EQ(*store.SweepLeftovers(world.context(), "jobs/", 3'600'000), 0);
  EXPECT_EQ(*store.SweepLeftovers(world.context(), "jobs/", -60'000), 1);
  EXPECT_EQ(fake.open_upload_count(), 1u);
}

TEST(S3Store, CompletionThatIsSeenLateIsStillOurs) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world;
  S3StoreOptions options = SmallParts(fake);
  S3Store store(options);
  // The reply is lost, the repetition finds no upload, and the object shows only after three looks.
  fake.Inject(S3Fault::kLostReply, "complete", 1);
  fake.Inject(S3Fault::kHidden, "complete", 1);
  const std::string bytes = TestBytes(3 * kPartBytes, 8);
  const Result<ObjectInfo> info = WriteObject(world.context(), store, "x", bytes);
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->size_bytes, 3 * kPartBytes);
  EXPECT_TRUE(fake.object("x") == bytes);
}

TEST(S3Store, EveryReplyOfACompletionLostIsResolvedByAsking) {
  S3Fake fake({.part_bytes_min = kPartBytes});
  TestWorld world;
  S3Store store(SmallParts(fake));
  fake.Inject(S3Fault::kLostReply, "complete", 1000);
  const Result<ObjectInfo> info =
      WriteObject(world.context(), store, "x", TestBytes(3 * kPartBytes, 9));
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  fake.Inject(S3Fault::kDropped, "head", 1000);
  const Result<ObjectInfo> unknown =
      WriteObject(world.context(), store, "y", TestBytes(3 * kPartBytes, 9));
  EXPECT_EQ(unknown.status().code(), Code::kUnknownOutcome);
}

TEST(S3Store, AnotherRangeThanAskedForIsCorruption) {
  S3Fake fake;
  TestWorld world;
  S3Store store(fake.store_options());
  ASSERT_TRUE(WriteObject(world.context(), store, "x", "0123456789").ok());
  fake.Inject(S3Fault::kWrongRange, "get");
  EXPECT_EQ(ReadObject(world.context(), store, "x").status().code(), Code::kCorruption);
}

TEST(S3Store, ObjectOverwrittenWhileReadIsAConflict) {
  S3Fake fake;
  TestWorld world;
  S3Store store(fake.store_options());
  ASSERT_TRUE(WriteObject(world.context(), store, "x", "0123456789").ok());
  const auto source = store.Open(world.context(), "x");
  ASSERT_TRUE(source.ok());
  ASSERT_TRUE(WriteObject(world.context(), store, "x", "9876543210").ok());
  std::byte out[4];
  const Status changed = (*source)->ReadAt(world.context(), 0, out);
  EXPECT_EQ(changed.code(), Code::kConflict);
  EXPECT_EQ(changed.explanation().pf_number, 7006);
}

TEST(S3Store, LearnsTheServersClock) {
  for (const int64_t offset_ms : {int64_t{-3'600'000}, int64_t{7'200'000}}) {
    S3Fake fake({.clock_offset_ms = offset_ms});
    TestWorld world;
    S3Store store(fake.store_options());
    EXPECT_EQ(store.Stat(world.context(), "x").status().code(),
              Code::kNotFound);  // HEAD tells no reason
    ASSERT_TRUE(WriteObject(world.context(), store, "x", "x").ok());
    EXPECT_EQ(fake.request_count("head"), 2);
    EXPECT_EQ(fake.request_count("put"), 1);
  }
}

TEST(S3Store, FollowsTheBucketToItsRegion) {
  S3Fake fake({.region = "eu-central-1"});
  TestWorld world;
  S3StoreOptions options = fake.store_options();
  options.client.region = "us-east-1";
  S3Store store(options);
  ASSERT_TRUE(WriteObject(world.context(), store, "x", "x").ok());
  EXPECT_EQ(ReadObject(world.context(), store, "x").value(), "x");
  EXPECT_EQ(fake.request_count("put"), 2);
  EXPECT_EQ(fake.request_count("get"), 1);
}

TEST(S3Store, FetchesNewCredentialsOnceWhenTheyExpire) {
  S3Fake fake({.session_token = "first"});
  TestWorld world;
  std::string token = "first";
  S3StoreOptions options = fake.store_options();
  options.client.credentials.given = {};
  options.client.credentials.environment =
      [&](std::string_view name) -> std::optional<std::string> {
    if (name == "AWS_ACCESS_KEY_ID") return "partforgekey";
    if (name == "AWS_SECRET_ACCESS_KEY") return "partforgesecret";
    if (name == "AWS_SESSION_TOKEN") return token;
    return std::nullopt;
  };
  S3Store store(options);
  ASSERT_TRUE(WriteObject(world.context(), store, "x", "x").ok());
  fake.RotateToken("second");
  token = "second";
  ASSERT_TRUE(WriteObject(world.context(), store, "y", "y").ok());
  fake.RotateToken("third");  // and nobody knows it
  const Result<ObjectInfo> refused = WriteObject(world.context(), store, "z", "z");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kRefused);
  EXPECT_EQ(refused.status().explanation().pf_number, 7003);
  EXPECT_EQ(fake.request_count("put"), 5);
}

TEST(S3Store, WrongSecretIsRefusedAndNeverShown) {
  S3Fake fake;
  TestWorld world;
  S3StoreOptions options = fake.store_options();
  options.client.credentials.given.secret_key = Secret("canary-secret");
  S3Store store(options);
  const Result<ListPage> page = store.List(world.context(), "", std::nullopt);
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.status().explanation().pf_number, 7003);
  EXPECT_THAT(page.status().ToString(), ::testing::Not(HasSubstr("canary")));
  for (const std::string& line : world.log_lines())
    EXPECT_THAT(line, ::testing::Not(HasSubstr("canary")));
  EXPECT_EQ(fake.request_count("list"), 1);  // no use in asking again
}

TEST(S3Store, SpeaksVirtualHostStyle) {
  S3Fake fake;
  TestWorld world;
  S3StoreOptions options = fake.store_options();
  options.client.is_path_style = false;
  options.client.host = "localhost" + fake.host().substr(fake.host().find(':'));
  S3Store store(options);
  ASSERT_TRUE(WriteObject(world.context(), store, "a b/c", "x").ok());
  EXPECT_THAT(KeysOf(world.context(), store), ElementsAre("a b/c"));
  ASSERT_TRUE(store.Delete(world.context(), std::vector<std::string>{"a b/c", "d"}).ok());
}

TEST(S3Store, SendsChecksumsWhereAsked) {
  S3Fake fake({.part_bytes_min = kPartBytes, .wants_crc32c = true});
  TestWorld world;
  S3StoreOptions options = SmallParts(fake);
  options.client.sends_crc32c = true;
  S3Store store(options);
  const Status status = DoEverything(world.context(), store);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(S3Store, PagesOfAnySizeAreJoined) {
  S3Fake fake({.keys_per_page = 2});
  TestWorld world;
  S3Store store(fake.store_options());
  for (const std::string key : {"a", "b c", "d+e", "f", "g"}) {
    ASSERT_TRUE(WriteObject(world.context(), store, key, "x").ok());
  }
  EXPECT_THAT(KeysOf(world.context(), store), ElementsAre("a", "b c", "d+e", "f", "g"));
  EXPECT_EQ(fake.request_count("list"), 3);
}

TEST(S3Store, MissingBucketIsNotAMissingObject) {
  S3Fake fake;
  TestWorld world;
  S3StoreOptions options = fake.store_options();
  options.client.bucket = "other";
  S3Store store(options);
  for (const Status& status : {store.List(world.context(), "", std::nullopt).status(),
                               WriteObject(world.context(), store, "x", "x").status()}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
    EXPECT_EQ(status.explanation().pf_number, 7004);
  }
}

TEST(S3Store, CountsRequestsAndBytes) {
  S3Fake fake;
  TestWorld world;
  S3Store store(fake.store_options());
  fake.Inject(S3Fault::kSlowDown, "put");
  ASSERT_TRUE(WriteObject(world.context(), store, "x", "0123456789").ok());
  ASSERT_TRUE(ReadObject(world.context(), store, "x").ok());
  const std::string page = world.metrics().Expose();
  EXPECT_THAT(page, HasSubstr("partforge_object_requests_total{op=\"put\",result=\"ok\"} 1"));
  EXPECT_THAT(page,
              HasSubstr("partforge_object_requests_total{op=\"put\",result=\"unavailable\"} 1"));
  EXPECT_THAT(page, HasSubstr("partforge_object_bytes_total{direction=\"read\"} 10"));
  EXPECT_THAT(page, HasSubstr("partforge_object_bytes_total{direction=\"written\"} 10"));
}

TEST(PartBytes, TenThousandPartsHoldTheLargestObject) {
  constexpr int64_t kLargest = int64_t{5} << 40;
  int64_t unknown = 0;
  for (int64_t number = 1; number <= 10'000; ++number) unknown += PartBytes({}, number);
  EXPECT_GE(unknown, kLargest);
  for (const int64_t hint : {int64_t{1}, int64_t{1} << 30, int64_t{1} << 40, kLargest}) {
    const int64_t part = PartBytes({.size_hint_bytes = hint}, 1);
    EXPECT_GE(part, int64_t{16} << 20);
    EXPECT_LE(hint / part + 1, 9001);
  }
}

}  // namespace
}  // namespace partforge
