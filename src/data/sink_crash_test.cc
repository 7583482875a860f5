// What the sinks of all formats leave when they are given up or die, on each store.

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "base/process.h"
#include "data/avro_sink.h"
#include "data/avro_source.h"
#include "data/orc_sink.h"
#include "data/orc_source.h"
#include "data/parquet_rig.h"
#include "store/local_store.h"
#include "testing/s3_fake.h"

namespace partforge::data {
namespace {

using data::testing::ParquetFixture;
using data::testing::RandomArray;

constexpr int64_t kLongMs = 60'000;
constexpr int64_t kRowsOfAFile = 400;
constexpr int64_t kRows = 3 * kRowsOfAFile;
constexpr size_t kPartBytes = 16 << 10;

enum class Format { kParquet, kOrc, kAvro };
constexpr Format kFormats[] = {Format::kParquet, Format::kOrc, Format::kAvro};

std::shared_ptr<arrow::Schema> Schema() {
  return arrow::schema({WithFieldId(arrow::field("i", arrow::int64()), 1),
                        WithFieldId(arrow::field("noise", arrow::binary(), false), 2)});
}

std::shared_ptr<arrow::RecordBatch> Rows(Random& random, int64_t count) {
  arrow::BinaryBuilder noise;
  for (int64_t i = 0; i < count; ++i) {
    std::string bytes;
    for (int k = 0; k < 16; ++k) {
      const uint64_t word = random.Next();
      bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
    }
    EXPECT_TRUE(noise.Append(bytes).ok());
  }
  return arrow::RecordBatch::Make(
      Schema(), count,
      {RandomArray(random, arrow::int64(), count, true), noise.Finish().ValueOrDie()});
}

RollingSink::Factory FactoryOf(Format format, ObjectStore& store, ArrowMemory& memory) {
  return
      [format, &store, &memory](const Context& ctx, int64_t number) -> Result<RollingSink::Opened> {
        RollingSink::Opened opened{.key = "r/" + std::to_string(number), .sink = nullptr};
        PF_ASSIGN(auto bytes, store.Create(ctx, opened.key, -1));
        switch (format) {
          case Format::kParquet: {
            PF_ASSIGN(opened.sink, ParquetSink::Open(ctx, std::move(bytes), opened.key, Schema(),
                                                     {.row_group_rows = 100}, memory));
            break;
          }
          case Format::kOrc: {
            PF_ASSIGN(opened.sink, OpenOrcSink(ctx, std::move(bytes), opened.key, Schema(),
                                               {.stripe_bytes = 10'000}));
            break;
          }
          case Format::kAvro: {
            PF_ASSIGN(opened.sink, OpenAvroSink(ctx, std::move(bytes), opened.key, Schema(), {}));
            break;
          }
        }
        return opened;
      };
}

Status WriteFiles(const Context& ctx, RollingSink& sink, const arrow::RecordBatch& rows) {
  for (int64_t row = 0; row < rows.num_rows(); row += 150) {
    PF_TRY(sink.Write(ctx, *rows.Slice(row, 150)));
  }
  PF_TRY(sink.Close(ctx));
  return {};
}

class SinkCrash : public ParquetFixture {
 protected:
  // Rows of a file, read to the end.
  int64_t CountRows(Format format, ObjectStore& store, const std::string& key) {
    auto object = store.Open(ctx_, key);
    EXPECT_TRUE(object.ok());
    Result<std::unique_ptr<BatchSource>> source = [&]() -> Result<std::unique_ptr<BatchSource>> {
      switch (format) {
        case Format::kOrc: {
          PF_ASSIGN(auto orc, OpenOrcSource(ctx_, std::move(*object), key, {}, {}, memory_));
          return std::unique_ptr<BatchSource>(std::move(orc));
        }
        case Format::kAvro:
          return OpenAvroSource(ctx_, std::move(*object), key, {}, AvroTimestamps::kAvro, memory_);
        default: {
          PF_ASSIGN(auto parquet, ParquetSource::Open(ctx_, std::move(*object), key, {}, memory_));
          return std::unique_ptr<BatchSource>(std::move(parquet));
        }
      }
    }();
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return source.ok() ? data::testing::ReadAll(ctx_, **source)->num_rows() : -1;
  }

  // Fails each fault point in turn. Given up as by a crash, what is visible are whole files; after
  // Abort nothing is.
  void FailEach(Format format, ObjectStore& store,
                const std::function<void()>& expect_no_leftovers) {
    const auto rows = Rows(random_, kRows);
    for (const bool aborts : {false, true}) {
      int64_t nth = 1;
      for (;; ++nth) {
        partforge::testing::FailNth faults(nth);
        partforge::testing::TestWorld world;
        world.UseFaults(faults);
        const Context ctx = world.context();
        {
          RollingSink sink(store, FactoryOf(format, store, memory_),
                           {.size_bytes = INT64_MAX, .rows = kRowsOfAFile});
          const Status status = WriteFiles(ctx, sink, *rows);
          if (!faults.has_fired()) {
            ASSERT_TRUE(status.ok()) << status.ToString();
            break;
          }
          SCOPED_TRACE(faults.fired_point());
          EXPECT_FALSE(status.ok());
          if (aborts) {
            ASSERT_TRUE(sink.Abort(ctx_).ok());
          }
        }
        const auto visible = ListAll(ctx_, store, "");
        ASSERT_TRUE(visible.ok());
        if (aborts) {
          EXPECT_TRUE(visible->empty());
          expect_no_leftovers();
        }
        std::vector<std::string> keys;
        for (const ObjectInfo& object : *visible) {
          EXPECT_EQ(CountRows(format, store, object.key), kRowsOfAFile) << object.key;
          keys.push_back(object.key);
        }
        ASSERT_TRUE(store.Delete(ctx_, keys).ok());
      }
      EXPECT_GT(nth, 5);
      ASSERT_EQ(ListAll(ctx_, store, "")->size(), 3U);
      ASSERT_TRUE(store.Delete(ctx_, std::vector<std::string>{"r/0", "r/1", "r/2"}).ok());
    }
  }
};

// check: DATA-21
TEST_F(SinkCrash, MemoryStoreShowsWholeFilesOnlyAndNoneAfterAbort) {
  for (const Format format : kFormats) FailEach(format, store_, [] {});
}

// check: DATA-21
TEST_F(SinkCrash, LocalStoreShowsWholeFilesOnlyAndNoneAfterAbort) {
  for (const Format format : kFormats) {
    partforge::testing::TempDir dir;
    LocalStore store(dir / "s");
    FailEach(format, store, [&] {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
        EXPECT_FALSE(entry.is_regular_file()) << entry.path();
      }
    });
  }
}

// check: DATA-21
TEST_F(SinkCrash, ObjectStorageShowsWholeFilesOnlyAndKeepsNoUploadAfterAbort) {
  for (const Format format : kFormats) {
    partforge::testing::S3Fake fake({.part_bytes_min = kPartBytes});
    S3StoreOptions options = fake.store_options();
    options.part_bytes = options.part_bytes_min = kPartBytes;
    S3Store store(std::move(options));
    FailEach(format, store, [&] { EXPECT_EQ(fake.open_upload_count(), 0U); });
  }
}

// Runs in a process of its own: writes until its fault kills it.
TEST_F(SinkCrash, DISABLED_WriteUntilKilled) {
  const char* const role = std::getenv("PARTFORGE_SINK_CRASH_ROLE");
  ASSERT_NE(role, nullptr);
  const auto format = static_cast<Format>(role[0] - '0');
  const char* const fault = std::getenv("PARTFORGE_FAULT");
  const char* const trace = std::getenv("PARTFORGE_FAULT_TRACE");
  const auto faults =
      EnvironmentFaults::Parse(fault == nullptr ? "" : fault, trace == nullptr ? "" : trace);
  ASSERT_TRUE(faults.ok());
  world_.UseFaults(**faults);
  LocalStore store(std::filesystem::path(role + 1));
  partforge::testing::SeededRandom random(1);
  const auto rows = Rows(random, kRows);
  RollingSink sink(store, FactoryOf(format, store, memory_),
                   {.size_bytes = INT64_MAX, .rows = kRowsOfAFile});
  const Status status = WriteFiles(world_.context(), sink, *rows);
  ASSERT_TRUE(status.ok()) << status.ToString();
}

// check: DATA-21
TEST_F(SinkCrash, AWriterKilledAtEachPointLeavesWholeFilesOrNone) {
  partforge::testing::TempDir dir;
  const auto run = [&](Format format, const std::string& folder, const std::string& fault,
                       const std::string& trace) {
    const auto child = ChildProcess::Start(
        {.argv = {SelfPath().string(), "--gtest_also_run_disabled_tests",
                  "--gtest_filter=SinkCrash.DISABLED_WriteUntilKilled"},
         .environment = {{"PARTFORGE_SINK_CRASH_ROLE",
                          std::to_string(static_cast<int>(format)) + (dir / folder).string()},
                         {"PARTFORGE_FAULT", fault},
                         {"PARTFORGE_FAULT_TRACE", trace}},
         .captures_stdout = true});
    EXPECT_TRUE(child.ok());
    while (true) {
      const auto line = (*child)->ReadLine(ctx_, kLongMs);
      if (!line.ok() || !*line) break;
    }
    const auto ended = (*child)->Wait(ctx_, kLongMs);
    EXPECT_TRUE(ended.ok());
    return ended.ok() ? *ended : ExitState{};
  };
  for (const Format format : kFormats) {
    const std::string name = std::to_string(static_cast<int>(format));
    const std::string trace = (dir / ("trace" + name)).string();
    ASSERT_EQ(run(format, "all" + name, "", trace).exit_code, 0);
    std::map<std::string, int> hits;
    std::vector<std::string> faults;
    std::ifstream lines(trace);
    for (std::string point; std::getline(lines, point);) {
      faults.push_back(point + ":" + std::to_string(++hits[point]) + ":kill");
    }
    ASSERT_GE(hits.size(), 4U);
    // The first file's points, and the last's: each is a process.
    for (size_t i = 0; i < faults.size(); ++i) {
      if (i >= hits.size() && i + 2 < faults.size()) continue;
      SCOPED_TRACE(faults[i]);
      const std::string folder = "f" + name + "-" + std::to_string(i);
      EXPECT_EQ(run(format, folder, faults[i], "").signal_number, SIGKILL);
      LocalStore store(dir / folder);
      const auto visible = ListAll(ctx_, store, "");
      ASSERT_TRUE(visible.ok());
      if (i == 0) {
        EXPECT_TRUE(visible->empty());
      }
      for (const ObjectInfo& object : *visible) {
        EXPECT_EQ(CountRows(format, store, object.key), kRowsOfAFile) << object.key;
      }
      // Half of a file has no name that a list shows, and a sweep takes it away.
      ASSERT_TRUE(store.SweepLeftovers(ctx_, "", 0).ok());
      size_t files = 0;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / folder)) {
        files += entry.is_regular_file() ? 1 : 0;
      }
      EXPECT_EQ(files, visible->size());
    }
  }
}

}  // namespace
}  // namespace partforge::data
