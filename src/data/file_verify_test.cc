// Files are rewritten, damaged as a broken writer would leave them, and verified.

#include "data/file_verify.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/parquet_assembler.h"
#include "data/parquet_rewrite_rig.h"
#include "data/row_origins.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

// A chunk on its way from one file to another.
struct TransitChunk {
  std::string pages;
  ThriftValue tree;
  std::optional<OffsetIndex> offsets;
  std::optional<ColumnIndex> index;

  ThriftValue& metadata() { return *tree.Find(column_chunk::kMetaData); }
  // Where page `number` begins in `pages`.
  size_t PageAt(size_t number) const {
    const int64_t first = ViewChunk(tree, "test")->bytes.offset;
    return static_cast<size_t>(offsets->pages[number].bytes.offset - first);
  }
};

class FileVerify : public ParquetRewriteFixture {
 protected:
  // Copies a file chunk by chunk, each changed by `damage`, as a writer with a fault would do.
  void Transcribe(const std::string& from, const std::string& to,
                  const std::function<void(TransitChunk&, int64_t& row_count)>& damage) {
    const auto input = Input(from);
    const auto bytes = Create(to);
    auto file = ParquetAssembler::Make(input->schema(), {.file_name = to}, *bytes);
    ASSERT_TRUE(file.ok());
    for (int g = 0; g < input->footer.row_group_count(); ++g) {
      std::vector<TransitChunk> chunks;
      int64_t row_count = input->RowCount(g);
      for (size_t c = 0; c < input->columns.size(); ++c) {
        TransitChunk chunk{.pages = {},
                           .tree = input->footer.chunk(g, static_cast<int>(c)),
                           .offsets = {},
                           .index = {}};
        const ChunkView view = *ViewChunk(chunk.tree, from);
        chunk.pages = *ReadRange(ctx_, *input->source, view.bytes, from);
        chunk.offsets = *ReadOffsetIndex(ctx_, *input->source, view, row_count, from);
        if (chunk.offsets) {
          chunk.index =
              *ReadColumnIndex(ctx_, *input->source, view, chunk.offsets->pages.size(), from);
        }
        damage(chunk, row_count);
        chunks.push_back(std::move(chunk));
      }
      ASSERT_TRUE(file->BeginRowGroup(ctx_, row_count).ok());
      for (TransitChunk& chunk : chunks) {
        ASSERT_TRUE(file->AppendPages(ctx_, AsBytes(chunk.pages)).ok());
        EncodedChunk encoded;
        encoded.pages_began_at = ViewChunk(chunk.tree, from)->bytes.offset;
        encoded.chunk = std::move(chunk.tree);
        if (chunk.offsets) encoded.offset_index = std::move(chunk.offsets->tree);
        if (chunk.index) encoded.column_index = EncodeColumnIndex(*chunk.index);
        ASSERT_TRUE(file->EndChunk(std::move(encoded)).ok());
      }
      ASSERT_TRUE(file->EndRowGroup(ctx_).ok());
    }
    const auto finished = file->Finish(ctx_);
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    ASSERT_TRUE(bytes->Close(ctx_).ok());
  }

  // Rows of one column, of one value in sixteen, as a library writes them without checksums: pages
  // of a thousand rows with indices of four bits.
  std::shared_ptr<arrow::Schema> WriteSixteenths(const std::string& key, int64_t rows,
                                                 bool has_nulls) {
    const auto schema = arrow::schema({arrow::field("k", arrow::int64(), has_nulls)});
    arrow::Int64Builder builder;
    for (int64_t i = 0; i < rows; ++i) {
      const bool is_null = has_nulls && i % 5 == 3;
      EXPECT_TRUE((is_null ? builder.AppendNull() : builder.Append(i * 7 % 16)).ok());
    }
    parquet::WriterProperties::Builder properties;
    properties.compression(parquet::Compression::UNCOMPRESSED)->enable_write_page_index();
    properties.max_rows_per_page(1000)->write_batch_size(100);
    WriteByLibrary(
        key, *ToTable({arrow::RecordBatch::Make(schema, rows, {builder.Finish().ValueOrDie()})}),
        rows, properties);
    return schema;
  }

  Result<VerifyCounts> Verify(VerifyMode mode, const std::vector<std::string>& inputs,
                              const std::string& output,
                              const std::shared_ptr<arrow::Schema>& schema, uint64_t seed = 1) {
    std::vector<RewriteInput> files;
    int64_t rows = 0;
    for (const std::string& key : inputs) {
      files.push_back({.file = Input(key), .mapping = {.match = MatchBy::kName}});
      rows += files.back().file->footer.num_rows();
    }
    RewriteTarget target;
    target.copy.schema = &files[0].file->schema();
    target.copy.match = MatchBy::kName;
    const auto object = Object(output);
    partforge::testing::SeededRandom random(seed);
    const Context ctx{ctx_.clock,   random,      ctx_.faults, ctx_.log,
                      ctx_.metrics, ctx_.memory, ctx_.stop};
    return VerifyRewrite(ctx, mode, {.inputs = files, .target = target, .schema = schema},
                         {{.bytes = object.get(), .name = output, .row_count = rows}}, memory_);
  }

  // A sample sees the damage if and only if it draws the page; a full look always does.
  void ExpectSeenWhereSampled(const std::string& input, const std::string& output,
                              const std::shared_ptr<arrow::Schema>& schema, Code code) {
    const auto full = Verify(VerifyMode::kFull, {input}, output, schema);
    ASSERT_FALSE(full.ok());
    EXPECT_EQ(full.status().code(), code) << full.status().ToString();
    int64_t seen = 0;
    constexpr int64_t kDraws = 64;
    for (uint64_t seed = 1; seed <= kDraws; ++seed) {
      const auto sample = Verify(VerifyMode::kSample, {input}, output, schema, seed);
      if (sample.ok()) continue;
      ++seen;
      EXPECT_EQ(sample.status().code(), code) << sample.status().ToString();
    }
    EXPECT_GT(seen, 0);
    EXPECT_LT(seen, kDraws);
  }

  // The same where one page is enough to see it.
  void ExpectSeenAlways(const std::string& input, const std::string& output,
                        const std::shared_ptr<arrow::Schema>& schema, Code code) {
    for (const VerifyMode mode : {VerifyMode::kSample, VerifyMode::kFull}) {
      const auto looked_at = Verify(mode, {input}, output, schema, seed_);
      ASSERT_FALSE(looked_at.ok()) << VerifyModeName(mode);
      EXPECT_EQ(looked_at.status().code(), code) << looked_at.status().ToString();
    }
  }
};

constexpr size_t kPage = 2;  // the one that is damaged, of eight

TEST_F(FileVerify, WhatWasRewrittenRightIsFoundRight) {
  int64_t compared = 0;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const auto schema = RandomSchema(random_, 5, round % 3 != 0);
    std::vector<RewriteInput> inputs;
    std::vector<std::unique_ptr<RowFilter>> filters;
    for (int f = 0; f < 4; ++f) {
      const auto batch = RandomBatch(random_, schema, 400);
      const std::string key = fmt::format("in{}", f);
      parquet::WriterProperties::Builder builder;
      RandomProperties(builder, *schema, round % 2 == 0);
      WriteByLibrary(key, *ToTable({batch}), f == 0 ? 400 : 90, builder);
      if (HasFatalFailure()) return;
      Positions deleted;
      for (uint64_t i = 0; i < 400; ++i) {
        const bool is_deleted = f == 1 ? random_.Next() % 20 == 0 : f == 2 && i >= 50 && i < 200;
        if (is_deleted && round % 4 != 0) deleted.Add(i);
      }
      filters.push_back(std::make_unique<RowFilter>(std::move(deleted)));
      inputs.push_back({.file = Input(key), .deleted = filters.back().get()});
    }
    RewriteTarget target;
    target.copy.schema = &inputs[0].file->schema();
    target.copy.row_group_bytes = round % 2 == 0 ? 20'000 : 1 << 20;
    target.decodes_always = round % 10 == 9;
    if (round % 5 == 2) target.codec = ParquetCodecNumber(ParquetCodec::kZstd);
    const auto steps = PlanRewrite(inputs, target);
    ASSERT_TRUE(steps.ok()) << steps.status().ToString();
    RewriteCounts counts;
    const auto files =
        RunSteps(inputs, *steps, target, schema, counts,
                 {.size_bytes = round % 4 == 1 ? 30'000 : 1 << 30}, {.page_rows = 100});
    if (HasFailure()) return;
    std::vector<std::unique_ptr<ByteSource>> objects;
    const auto outputs = OpenWritten(files, objects);
    const VerifiedRewrite rewrite{.inputs = inputs, .target = target, .schema = schema};
    const Context ctx{ctx_.clock,   random_,     ctx_.faults, ctx_.log,
                      ctx_.metrics, ctx_.memory, ctx_.stop};
    for (int draw = 0; draw < 5; ++draw) {
      const auto sample = VerifyRewrite(ctx, VerifyMode::kSample, rewrite, outputs, memory_);
      ASSERT_TRUE(sample.ok()) << sample.status().ToString();
      EXPECT_EQ(sample->pages + sample->pages_unread,
                static_cast<int64_t>(outputs.size() * inputs[0].file->columns.size()));
      compared += sample->pages_compared;
    }
    const auto full = VerifyRewrite(ctx, VerifyMode::kFull, rewrite, outputs, memory_);
    ASSERT_TRUE(full.ok()) << full.status().ToString();
    int64_t rows = 0;
    for (const WrittenObject& output : outputs) {
      rows += output.row_count;
      const auto alone = VerifyFile(ctx, VerifyMode::kFull, output, memory_);
      ASSERT_TRUE(alone.ok()) << alone.status().ToString();
    }
    EXPECT_EQ(full->rows_compared, rows);
  }
  EXPECT_GT(compared, 100);
}

TEST_F(FileVerify, OneByteOfAPageIsSeenWhereThePageIsLookedAt) {
  const auto schema = WriteSixteenths("in", 8000, false);
  // Without a checksum, and still a page of sound indices: only the rows tell.
  Transcribe("in", "out",
             [](TransitChunk& chunk, int64_t&) { chunk.pages[chunk.PageAt(kPage + 1) - 20] ^= 1; });
  ExpectSeenWhereSampled("in", "out", schema, Code::kInternal);
  // With checksums.
  Write("summed", {RandomBatch(random_, schema, 8000)},
        {.codec = ParquetCodec::kNone, .page_rows = 1000});
  Transcribe("summed", "out",
             [](TransitChunk& chunk, int64_t&) { chunk.pages[chunk.PageAt(kPage + 1) - 20] ^= 1; });
  ExpectSeenWhereSampled("summed", "out", schema, Code::kCorruption);
}

TEST_F(FileVerify, AnIndexBeyondTheDictionaryIsSeen) {
  const auto schema = WriteSixteenths("in", 8000, false);
  Transcribe("in", "out", [](TransitChunk& chunk, int64_t&) {
    // One entry less: the last one of the dictionary is the one of some rows of each page.
    const auto bytes = AsBytes(chunk.pages);
    const PageHeader header = *ParsePageHeader(bytes, "test");
    const auto body = static_cast<size_t>(header.header_bytes);
    auto compressor = PageCompressor::Make(0, std::nullopt);
    std::string page;
    ASSERT_TRUE(WriteDictionaryPage(std::string_view(chunk.pages).substr(body, 15 * 8), 15,
                                    *compressor, page)
                    .ok());
    // The pages behind it move up.
    const size_t length = body + static_cast<size_t>(header.compressed_bytes);
    ASSERT_LE(page.size(), length);
    const auto shift = static_cast<int64_t>(length - page.size());
    chunk.pages.replace(0, length, page);
    for (ThriftValue& place : chunk.offsets->tree.Find(offset_index::kPageLocations)->items()) {
      place.Set(page_location::kOffset,
                ThriftValue::I64(place.Find(page_location::kOffset)->AsInt() - shift));
    }
    const auto lower = [&](int16_t id) {
      chunk.metadata().Set(id, ThriftValue::I64(chunk.metadata().Find(id)->AsInt() - shift));
    };
    lower(column_metadata::kDataPageOffset);
    lower(column_metadata::kTotalCompressedSize);
  });
  ExpectSeenAlways("in", "out", schema, Code::kCorruption);
}

TEST_F(FileVerify, AWrongCountOfNullsIsSeen) {
  const auto schema = WriteSixteenths("in", 8000, true);
  // In the page index and the statistics alike: only a page tells.
  Transcribe("in", "page", [](TransitChunk& chunk, int64_t&) {
    ++(*chunk.index->null_counts)[kPage];
    ThriftValue& stats = *chunk.metadata().Find(column_metadata::kStatistics);
    const int64_t nulls = stats.Find(statistics::kNullCount)->AsInt();
    stats.Set(statistics::kNullCount, ThriftValue::I64(nulls + 1));
  });
  ExpectSeenWhereSampled("in", "page", schema, Code::kCorruption);
  // In one of the two: they contradict each other.
  Transcribe("in", "chunk", [](TransitChunk& chunk, int64_t&) {
    chunk.metadata()
        .Find(column_metadata::kStatistics)
        ->Set(statistics::kNullCount, ThriftValue::I64(1));
  });
  ExpectSeenAlways("in", "chunk", schema, Code::kCorruption);
  // A page that is said to hold nothing.
  Transcribe("in", "null page", [](TransitChunk& chunk, int64_t&) {
    chunk.index->null_pages[kPage] = true;
    chunk.index->min_values[kPage] = chunk.index->max_values[kPage] = "";
  });
  ExpectSeenWhereSampled("in", "null page", schema, Code::kCorruption);
}

TEST_F(FileVerify, BoundsThatHideValuesAreSeen) {
  const auto schema = WriteSixteenths("in", 8000, true);
  const auto number = [](int64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  Transcribe("in", "page",
             [&](TransitChunk& chunk, int64_t&) { chunk.index->min_values[kPage] = number(3); });
  ExpectSeenWhereSampled("in", "page", schema, Code::kCorruption);
  Transcribe("in", "chunk", [&](TransitChunk& chunk, int64_t&) {
    chunk.metadata()
        .Find(column_metadata::kStatistics)
        ->Set(statistics::kMaxValue, ThriftValue::Binary(number(14)));
  });
  ExpectSeenAlways("in", "chunk", schema, Code::kCorruption);
}

TEST_F(FileVerify, RowsThatAFooterMakesUpAreSeen) {
  // Below a list the number of values says nothing of that of rows.
  const auto schema = arrow::schema({arrow::field("l", arrow::list(arrow::int32()))});
  Write("in", {RandomBatch(random_, schema, 500)}, {.page_rows = 100});
  Transcribe("in", "out", [](TransitChunk&, int64_t& row_count) { ++row_count; });
  ExpectSeenAlways("in", "out", schema, Code::kInternal);
  // The writer says so, too: the pages do not.
  const auto object = Object("out");
  const auto full = VerifyFile(ctx_, VerifyMode::kFull,
                               {.bytes = object.get(), .name = "out", .row_count = 501}, memory_);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.status().code(), Code::kCorruption) << full.status().ToString();
}

TEST_F(FileVerify, RowsWithoutAPageAreSeen) {
  const auto schema = arrow::schema({arrow::field("l", arrow::list(arrow::int32()))});
  Write("in", {RandomBatch(random_, schema, 500)});
  Transcribe("in", "out", [](TransitChunk& chunk, int64_t&) {
    chunk.pages.clear();
    chunk.offsets.reset();
    chunk.index.reset();
    for (const int16_t id : {column_metadata::kNumValues, column_metadata::kTotalCompressedSize,
                             column_metadata::kTotalUncompressedSize}) {
      chunk.metadata().Set(id, ThriftValue::I64(0));
    }
    chunk.metadata().Remove(column_metadata::kDictionaryPageOffset);
    chunk.metadata().Remove(column_metadata::kStatistics);
  });
  ExpectSeenAlways("in", "out", schema, Code::kCorruption);
}

TEST_F(FileVerify, WhatAnInputSaysWrongIsToldOfTheInput) {
  const auto schema = WriteSixteenths("sound", 8000, true);
  Transcribe("sound", "wrong", [](TransitChunk& chunk, int64_t&) {
    for (int64_t& count : *chunk.index->null_counts) ++count;
    chunk.metadata()
        .Find(column_metadata::kStatistics)
        ->Set(statistics::kNullCount, ThriftValue::I64(1608));
  });
  Transcribe("wrong", "copy", [](TransitChunk&, int64_t&) {});
  for (const VerifyMode mode : {VerifyMode::kSample, VerifyMode::kFull}) {
    const auto looked_at = Verify(mode, {"wrong"}, "copy", schema, seed_);
    ASSERT_FALSE(looked_at.ok());
    EXPECT_NE(looked_at.status().message().find("of wrong, row group 0"), std::string::npos)
        << looked_at.status().ToString();
  }
}

TEST_F(FileVerify, ASampleIsOnePageOfAColumnInSixtyFourRowGroups) {
  const auto schema =
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::utf8())});
  Write("in", {RandomBatch(random_, schema, 1300)}, {.row_group_rows = 10, .page_rows = 5});
  ASSERT_EQ(Input("in")->footer.row_group_count(), 130);
  Transcribe("in", "out", [](TransitChunk&, int64_t&) {});
  const auto sample = Verify(VerifyMode::kSample, {"in"}, "out", schema, seed_);
  ASSERT_TRUE(sample.ok()) << sample.status().ToString();
  EXPECT_EQ(sample->pages, 6);
  EXPECT_EQ(sample->pages_compared, 6);
  EXPECT_EQ(sample->rows_compared, 30);
  const auto full = Verify(VerifyMode::kFull, {"in"}, "out", schema);
  ASSERT_TRUE(full.ok()) << full.status().ToString();
  EXPECT_EQ(full->pages, 520);
  EXPECT_EQ(full->rows_compared, 1300);
  EXPECT_EQ(Verify(VerifyMode::kNone, {"in"}, "out", schema)->pages, 0);
}

TEST_F(FileVerify, OriginsOfRowsAreThoseOfAWalkOverAll) {
  const auto schema = arrow::schema({arrow::field("a", arrow::int64())});
  std::vector<RewriteInput> inputs;
  std::vector<std::unique_ptr<RowFilter>> filters;
  std::vector<std::pair<GroupRef, uint64_t>> live;
  for (size_t f = 0; f < 4; ++f) {
    const std::string key = fmt::format("in{}", f);
    const int64_t rows = f == 2 ? 30 : 300;
    Write(key, {RandomBatch(random_, schema, rows)}, {.row_group_rows = 70});
    Positions deleted;
    for (int64_t i = 0; i < rows; ++i) {
      const auto row = static_cast<uint64_t>(i);
      if (f == 2 || (f > 0 && (random_.Next() % 3 == 0 || (i >= 60 && i < 150)))) {
        deleted.Add(row);
      } else {
        live.push_back({{.input = f, .row_group = static_cast<int>(i / 70)}, row % 70});
      }
    }
    filters.push_back(std::make_unique<RowFilter>(std::move(deleted)));
    inputs.push_back({.file = Input(key), .deleted = f == 0 ? nullptr : filters.back().get()});
  }
  const RowOrigins origins(inputs);
  const auto all = static_cast<int64_t>(live.size());
  EXPECT_EQ(origins.row_count(), all);
  for (int round = 0; round < 200; ++round) {
    const auto begin = static_cast<int64_t>(RandomBelow(random_, live.size()));
    const int64_t count =
        1 + static_cast<int64_t>(RandomBelow(random_, static_cast<uint64_t>(all - begin)));
    const size_t pieces_max = 1 + RandomBelow(random_, 12);
    auto at = static_cast<size_t>(begin);
    const auto pieces = origins.Find(begin, count, pieces_max);
    ASSERT_LE(pieces.size(), pieces_max);
    for (const RowOrigins::Piece& piece : pieces) {
      int64_t rows = 0;
      for (const RowRun& run : piece.rows) {
        for (uint64_t row = run.begin; row < run.end; ++row, ++rows) {
          ASSERT_EQ(live[at].first, piece.group);
          ASSERT_EQ(live[at++].second, row);
        }
      }
      ASSERT_EQ(rows, piece.row_count);
    }
    ASSERT_TRUE(pieces.size() == pieces_max || static_cast<int64_t>(at) == begin + count);
  }
}

}  // namespace
}  // namespace partforge::data
