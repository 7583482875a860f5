#include "data/puffin.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "data/bitmap.h"
#include "data/block_codec.h"
#include "data/memory_bytes.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

PuffinBlob VectorBlob(std::string data_file, uint64_t cardinality) {
  return {.type = "deletion-vector-v1",
          .fields = {2147483645},
          .properties = {{"referenced-data-file", std::move(data_file)},
                         {"cardinality", std::to_string(cardinality)}}};
}

struct Sample {
  std::string bytes;
  std::vector<PuffinWriter::Place> places;
  int64_t footer_bytes = 0;
};

Sample TwoVectors() {
  testing::TestWorld world;
  Sample sample;
  MemorySink sink(sample.bytes);
  auto writer = PuffinWriter::Open(world.context(), sink).value();
  for (uint64_t i = 1; i <= 2; ++i) {
    Positions positions;
    positions.AddRun({.begin = i, .end = i * 10});
    const std::string vector = EncodeVector(positions, VectorLayout::kBits64).value();
    sample.places.push_back(
        writer
            ->Append(world.context(),
                     VectorBlob(fmt::format("f{}.parquet", i), positions.cardinality()),
                     AsBytes(vector))
            .value());
  }
  sample.footer_bytes = writer->Finish(world.context(), {{"created-by", "partforge"}}).value();
  return sample;
}

Result<PuffinFooter> FooterOf(const std::string& bytes) {
  testing::TestWorld world;
  MemorySource source(AsBytes(bytes));
  return ReadPuffinFooter(world.context(), source, "f.puffin");
}

TEST(Puffin, SeveralVectorsShareAFileAndAreFoundByTheirPlaces) {
  const Sample sample = TwoVectors();
  const auto footer = FooterOf(sample.bytes);
  ASSERT_TRUE(footer.ok()) << footer.status().ToString();
  EXPECT_EQ(footer->footer_size_bytes, sample.footer_bytes);
  ASSERT_EQ(footer->blobs.size(), 2u);
  EXPECT_EQ(footer->properties.at(0).second, "partforge");
  testing::TestWorld world;
  MemorySource source(AsBytes(sample.bytes));
  for (size_t i = 0; i < 2; ++i) {
    const PuffinBlob& blob = footer->blobs[i];
    EXPECT_EQ(blob.offset, sample.places[i].offset);
    EXPECT_EQ(blob.length, sample.places[i].length);
    EXPECT_EQ(blob.snapshot_id, -1);
    EXPECT_EQ(*blob.Property("referenced-data-file"), fmt::format("f{}.parquet", i + 1));
    const std::string bytes = ReadPuffinBlob(world.context(), source, blob, "f").value();
    const auto vector = ParseVector(AsBytes(bytes), "f").value();
    EXPECT_EQ(std::to_string(vector.positions.cardinality()), *blob.Property("cardinality"));
  }
  EXPECT_EQ(sample.places[0].offset, 4);
}

TEST(Puffin, AnEmptyFileHasAFooter) {
  testing::TestWorld world;
  std::string bytes;
  MemorySink sink(bytes);
  ASSERT_TRUE(PuffinWriter::Open(world.context(), sink).value()->Finish(world.context(), {}).ok());
  EXPECT_TRUE(FooterOf(bytes)->blobs.empty());
}

// A file around any footer payload.
std::string WithPayload(const std::string& payload, uint32_t flags = 0) {
  std::string bytes = "PFA1blobblob";
  bytes += "PFA1" + payload;
  const auto length = static_cast<int32_t>(payload.size());
  bytes.append(reinterpret_cast<const char*>(&length), 4);
  bytes.append(reinterpret_cast<const char*>(&flags), 4);
  return bytes + "PFA1";
}
std::string BlobEntry(std::string_view extra) {
  return fmt::format(
      R"({{"blobs":[{{"type":"x","fields":[1],"snapshot-id":2,"sequence-number":3,{}}}]}})", extra);
}

TEST(Puffin, FootersInLz4FramesAndUnknownBlobTypesAreRead) {
  const std::string payload = BlobEntry(R"("offset":4,"length":8,"future":{"a":1})");
  std::string frame;
  ASSERT_TRUE(CompressBlock(BlockCodec::kLz4, AsBytes(payload), 0, frame).ok());
  for (const std::string& bytes : {WithPayload(payload), WithPayload(frame, 1)}) {
    const auto footer = FooterOf(bytes);
    ASSERT_TRUE(footer.ok()) << footer.status().ToString();
    EXPECT_EQ(footer->blobs.at(0).type, "x");
    EXPECT_EQ(footer->blobs.at(0).sequence_number, 3);
  }
}

TEST(Puffin, CompressedBlobsAreUnpacked) {
  for (const auto& [name, codec] :
       {std::pair("lz4", BlockCodec::kLz4), {"zstd", BlockCodec::kZstd}}) {
    testing::TestWorld world;
    std::string bytes;
    MemorySink sink(bytes);
    auto writer = PuffinWriter::Open(world.context(), sink).value();
    std::string stored;
    ASSERT_TRUE(CompressBlock(codec, AsBytes(std::string(1000, 'x')), 1, stored).ok());
    PuffinBlob blob{.type = "t", .compression_codec = name};
    ASSERT_TRUE(writer->Append(world.context(), blob, AsBytes(stored)).ok());
    ASSERT_TRUE(writer->Finish(world.context(), {}).ok());
    MemorySource source(AsBytes(bytes));
    PuffinBlob read = FooterOf(bytes)->blobs.at(0);
    EXPECT_EQ(ReadPuffinBlob(world.context(), source, read, "f").value(), std::string(1000, 'x'));
    read.compression_codec = "brotli";
    EXPECT_EQ(ReadPuffinBlob(world.context(), source, read, "f").status().code(), Code::kRefused);
  }
}

TEST(Puffin, LiesOfTheFooterAreCorruption) {
  EXPECT_TRUE(FooterOf(WithPayload(BlobEntry(R"("offset":4,"length":8)"))).ok());
  for (const std::string_view place :
       {R"("offset":3,"length":1)", R"("offset":4,"length":9)", R"("offset":-1,"length":1)",
        R"("offset":4,"length":-1)", R"("offset":4,"length":9223372036854775807)",
        R"("offset":9223372036854775807,"length":1)", R"("offset":4)",
        R"("offset":"4","length":1)"}) {
    const auto footer = FooterOf(WithPayload(BlobEntry(place)));
    ASSERT_FALSE(footer.ok()) << place;
    EXPECT_EQ(footer.status().code(), Code::kCorruption) << place;
  }
  for (const std::string_view payload : {"", "[]", "{}", R"({"blobs":[1]})", R"({"blobs":{}})"}) {
    EXPECT_EQ(FooterOf(WithPayload(std::string(payload))).status().code(), Code::kCorruption)
        << payload;
  }
  EXPECT_EQ(FooterOf(WithPayload("{}", 2)).status().code(), Code::kRefused);
}

TEST(Puffin, TruncationAtEachByteIsCorruption) {
  const std::string bytes = TwoVectors().bytes;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(FooterOf(bytes.substr(0, length)).status().code(), Code::kCorruption) << length;
  }
}

TEST(Puffin, PlacesOutsideTheFileAreCorruption) {
  const std::string bytes = TwoVectors().bytes;
  testing::TestWorld world;
  MemorySource source(AsBytes(bytes));
  const auto size = static_cast<int64_t>(bytes.size());
  EXPECT_TRUE(ReadBlobBytes(world.context(), source, 4, size - 4, "f").ok());
  for (const auto& [offset, length] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 1}, {0, -1}, {4, size}, {size + 1, 0}, {int64_t{1} << 62, int64_t{1} << 62}}) {
    EXPECT_EQ(ReadBlobBytes(world.context(), source, offset, length, "f").status().code(),
              Code::kCorruption);
  }
}

}  // namespace
}  // namespace partforge::data
