// Drives the reading of ORC with mutations of good files. The library behind it does crash on some:
// in a process of its own, which makes them errors (orc_decoder.h).

#include <arrow/api.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "base/files.h"
#include "base/hash.h"
#include "data/memory_bytes.h"
#include "data/orc_decoder.h"
#include "data/orc_sink.h"
#include "data/orc_source.h"
#include "data/orc_wire.h"
#include "data/random_batches.h"
#include "fuzz/fuzz_length.h"
#include "fuzz/mutation.h"
#include "testing/memory_store.h"
#include "testing/test_world.h"

namespace partforge::fuzz {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

constexpr int64_t kBudgetBytes = int64_t{256} << 20;
// Each input starts a process.
constexpr int64_t kInputs = PARTFORGE_FUZZ_INPUTS / 10;

std::string File(Random& random, OrcCodec codec) {
  partforge::testing::TestWorld world;
  const Context ctx = world.context();
  partforge::testing::MemoryStore store;
  const auto schema = arrow::schema(
      {arrow::field("i", arrow::int64()), arrow::field("n", arrow::int32(), false),
       arrow::field("d", arrow::float64()), arrow::field("b", arrow::boolean()),
       arrow::field("s", arrow::utf8()), arrow::field("y", arrow::binary()),
       arrow::field("t", arrow::timestamp(arrow::TimeUnit::SECOND)),
       arrow::field("x", arrow::decimal128(12, 2)), arrow::field("w", arrow::decimal128(30, 2)),
       arrow::field("l", arrow::list(arrow::field("item", arrow::int32()))),
       arrow::field("m", arrow::map(arrow::utf8(), arrow::int16())),
       arrow::field("r", arrow::struct_({arrow::field("p", arrow::int32()),
                                         arrow::field("q", arrow::utf8())}))});
  auto sink = OpenOrcSink(
      ctx, store.Create(ctx, "f", -1).value(), "f", schema,
      {.attributes = {.id = "id"}, .codec = codec, .stripe_bytes = 2000, .row_index_rows = 60});
  PF_CHECK(sink.ok(), sink.status().ToString());
  for (int i = 0; i < 3; ++i) {
    auto batch = partforge::data::testing::RandomBatch(random, schema, 60);
    // Times that nanoseconds hold.
    arrow::TimestampBuilder times(schema->field(6)->type(), arrow::default_memory_pool());
    for (int row = 0; row < 60; ++row) {
      const auto seconds = static_cast<int64_t>(random.Next() % 4'000'000'000) - 1'000'000'000;
      PF_CHECK((row % 7 == 0 ? times.AppendNull() : times.Append(seconds)).ok(), "a time");
    }
    batch = batch->SetColumn(6, schema->field(6), times.Finish().ValueOrDie()).ValueOrDie();
    const Status status = (*sink)->Write(ctx, *batch);
    PF_CHECK(status.ok(), status.ToString());
  }
  PF_CHECK((*sink)->Close(ctx).ok(), "an ORC file that is not written");
  return ReadObject(ctx, store, "f").value();
}

// With ranges that leave nothing out of a good file, so that statistics are looked at.
Status ReadAllRows(const Context& ctx, const std::string& bytes, ArrowMemory& memory) {
  ScanSpec spec;
  for (const char* const name : {"i", "d", "s", "t", "x"}) {
    spec.ranges.push_back({.column = {.name = name}, .null_is_wanted = true});
  }
  PF_ASSIGN(auto source,
            OpenOrcSource(ctx, std::make_unique<MemorySource>(AsBytes(bytes)), "fuzzed", spec,
                          {.id = "id"}, memory,
                          {.memory_bytes_max = int64_t{64} << 20, .batch_cpu_seconds_max = 5}));
  while (true) {
    PF_ASSIGN(const auto batch, source->Next(ctx));
    if (batch == nullptr) return {};
    PF_CHECK(batch->Validate().ok(), "a batch that Arrow does not believe");
  }
}

// check: DATA-23
TEST(FuzzOrc, File) {
  const uint64_t seed = FuzzSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  partforge::testing::SeededRandom random(seed);
  std::vector<std::string> seeds;
  for (int codec = 0; codec < 5; ++codec) {
    seeds.push_back(File(random, static_cast<OrcCodec>(codec)));
  }
  std::map<std::string, int64_t> outcomes;
  const FuzzLength length(kInputs);
  for (int64_t i = 0; length.Wants(i) && !::testing::Test::HasFailure(); ++i) {
    // Files that are not compressed lead further into the decoder.
    const std::string& base = seeds[i % 2 == 0 ? 0 : RandomBelow(random, seeds.size())];
    std::string input = base;
    if (i >= static_cast<int64_t>(seeds.size())) {
      if (i % 3 == 0) {
        input = Mutate(base, seeds, random);
      } else {
        for (uint64_t n = 1 + RandomBelow(random, 3); n > 0; --n) {
          input[RandomBelow(random, input.size())] ^=
              static_cast<char>(1 << RandomBelow(random, 8));
        }
      }
    }
    partforge::testing::TestWorld world(kBudgetBytes);
    ArrowMemory memory(world.context().memory);
    const Status status = ReadAllRows(world.context(), input, memory);
    if (!status.ok()) {
      EXPECT_NE(status.code(), Code::kInternal) << status.ToString();
      EXPECT_NE(status.code(), Code::kUnavailable) << status.ToString();
    }
    EXPECT_LE(world.context().memory.peak_bytes(), kBudgetBytes);
    std::string outcome = "read";
    if (!status.ok()) {
      const size_t broke = status.message().find("its bytes");
      outcome = broke == std::string::npos ? std::string(CodeName(status.code()))
                                           : status.message().substr(broke);
    }
    ++outcomes[outcome];
  }
  for (const auto& [outcome, count] : outcomes) {
    RecordProperty(outcome, fmt::format("{}", count));
    fmt::print(stderr, "{:>8} {}\n", count, outcome);
  }
}

// A decoder that a file has broken may say anything: the one that listens must not break, too.
// check: DATA-23
TEST(FuzzOrc, Answers) {
  const uint64_t seed = FuzzSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  partforge::testing::SeededRandom random(seed);
  const auto schema = arrow::schema(
      {arrow::field("i", arrow::int32()), arrow::field("s", arrow::utf8()),
       arrow::field("l", arrow::list(arrow::field("item", arrow::utf8()))),
       arrow::field("r", arrow::struct_({arrow::field("p", arrow::decimal128(12, 2))}))});
  std::vector<std::string> seeds;
  for (int i = 0; i < 4; ++i) {
    std::string answers;
    const auto add = [&](OrcFrame kind, std::string_view bytes) {
      answers += EncodeFrameHead({.kind = kind, .length = static_cast<int64_t>(bytes.size())});
      answers += bytes;
    };
    const auto schema_bytes = arrow::ipc::SerializeSchema(*schema).ValueOrDie();
    OrcFrameWriter description;
    description.Number(40).Text("zstd").Text("a decoder").Number(1);
    description.Number(3).Number(1000).Number(0).Number(40);
    description.Text(std::string_view(*schema_bytes));
    add(OrcFrame::kRead, OrcFrameWriter().Number(0).Number(10).bytes());
    add(OrcFrame::kDescription, description.bytes());
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    if (i % 2 == 1) {
      options.codec = arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME).ValueOrDie();
    }
    for (int b = 0; b < 2; ++b) {
      const auto batch = partforge::data::testing::RandomBatch(random, schema, 20);
      const auto message = arrow::ipc::SerializeRecordBatch(*batch, options).ValueOrDie();
      add(OrcFrame::kBatch, std::string_view(*message));
    }
    add(OrcFrame::kStripeEnd, "");
    seeds.push_back(std::move(answers));
  }
  partforge::testing::TempDir dir;
  const std::string object(2000, 'x');
  int64_t read = 0;
  const FuzzLength length(kInputs / 10);  // the half that is cut short waits for the rest
  for (int64_t i = 0; length.Wants(i) && !::testing::Test::HasFailure(); ++i) {
    const auto at = static_cast<size_t>(i);
    const std::string input = at < seeds.size()
                                  ? seeds[at]
                                  : Mutate(seeds[RandomBelow(random, seeds.size())], seeds, random);
    ASSERT_TRUE(WriteFileDurably(dir / "answers", input).ok());
    partforge::testing::TestWorld world(kBudgetBytes);
    const Context ctx = world.context();
    ArrowMemory memory(ctx.memory);
    // Says it all at once, and then listens until nobody is there.
    const auto source = OpenOrcSource(
        ctx, std::make_unique<MemorySource>(AsBytes(object)), "fuzzed", {}, {}, memory,
        {.argv = {"/bin/sh", "-c",
                  fmt::format("cat '{}' >&0; exec cat >/dev/null", (dir / "answers").string())},
         .memory_bytes_max = int64_t{64} << 20,
         .silence_ms_max = 300});
    while (source.ok()) {
      const auto batch = (*source)->Next(ctx);
      if (!batch.ok()) break;
      if (*batch == nullptr) {
        ++read;
        break;
      }
      PF_CHECK((*batch)->Validate().ok(), "a batch that Arrow does not believe");
    }
    EXPECT_LE(ctx.memory.peak_bytes(), kBudgetBytes);
  }
  EXPECT_GE(read, 4);
}

}  // namespace
}  // namespace partforge::fuzz

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == partforge::data::kOrcDecoderWord) {
    return partforge::data::RunOrcDecoder();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
