#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/files.h"
#include "clickhouse/memory_bytes.h"
#include "clickhouse/tar_format.h"
#include "clickhouse/tar_reader.h"
#include "clickhouse/tar_writer.h"
#include "clickhouse/testdata.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

// An archive laid by hand, block by block.
struct Archive {
  std::string bytes;

  Archive& Add(const std::string& name, const std::string& content = "", char type = '0',
               uint32_t mode = 0644) {
    const TarBlock block = FormatTarHeader({.name = name,
                                            .size_bytes = static_cast<int64_t>(content.size()),
                                            .mode = mode,
                                            .type = type});
    bytes.append(block.data(), block.size());
    return Content(content);
  }
  // A header changed after the fact, with its checksum made right again.
  Archive& Raw(TarBlock block, const std::string& content = "") {
    std::memset(block.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    std::snprintf(block.data() + 148, 8, "%06o", sum);
    bytes.append(block.data(), block.size());
    return Content(content);
  }
  Archive& Content(const std::string& content) {
    bytes += content;
    bytes.append(static_cast<size_t>(TarPadding(static_cast<int64_t>(content.size()))), '\0');
    return *this;
  }
  std::string End() const { return bytes + std::string(1024, '\0'); }
};

struct Seen : TarVisitor {
  std::map<std::string, std::string> files;
  std::vector<std::string> directories;
  std::string current;

  Status OnDirectory(const Context&, std::string_view path, uint32_t) override {
    directories.emplace_back(path);
    return {};
  }
  Status OnFileBegin(const Context&, std::string_view path, int64_t, uint32_t) override {
    current = path;
    files[current] = "";
    return {};
  }
  Status OnFileBytes(const Context&, std::span<const std::byte> bytes) override {
    files[current].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Status OnFileEnd(const Context&) override { return {}; }
};

class Tar : public ::testing::Test {
 protected:
  Status Parse(const std::string& bytes, size_t piece = 1000) {
    seen_ = Seen();
    TarParser parser(seen_);
    const Context ctx = world_.context();
    Status streamed;
    for (size_t at = 0; at < bytes.size() && streamed.ok(); at += piece) {
      streamed = parser.Feed(ctx, AsBytes(std::string_view(bytes).substr(at, piece)));
    }
    if (streamed.ok()) streamed = parser.Finish(ctx);
    return streamed;
  }
  std::string Packed(const std::string& table, const std::string& name) {
    StringSink sink;
    const auto digest = WritePartTar(world_.context(), Golden(table).directory(), name, sink);
    EXPECT_TRUE(digest.ok()) << digest.status().ToString();
    EXPECT_EQ(digest->size_bytes, static_cast<int64_t>(sink.bytes().size()));
    EXPECT_EQ(digest->sha256, Sha256Hex(sink.bytes()));
    return sink.bytes();
  }
  Result<ExtractedPart> Extract(const std::string& bytes, const fs::path& target,
                                const std::string& name) {
    StringSource source(bytes);
    return ExtractPartTar(world_.context(), source, target, {.part_name = name});
  }

  testing::TestWorld world_;
  testing::TempDir directory_;
  Seen seen_;
};

TEST_F(Tar, PartsComeBackByteForByte) {
  for (const GoldenPart& golden : GoldenParts()) {
    SCOPED_TRACE(golden.table);
    const std::string tar = Packed(golden.table, golden.name);
    const fs::path target = directory_ / golden.table;
    StringSource source(tar);
    const auto part = ExtractPartTar(world_.context(), source, target,
                                     {.part_name = golden.name, .is_synced = true});
    ASSERT_TRUE(part.ok()) << part.status().ToString();
    EXPECT_EQ(part->checksums_txt_sha256, Sha256Hex(golden.Read("checksums.txt")));
    EXPECT_EQ(part->tar_sha256, Sha256Hex(tar));
    const auto expected = ListTree(golden.directory()).value();
    const auto found = ListTree(target).value();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].relative_path, expected[i].relative_path);
      if (found[i].is_directory) continue;
      EXPECT_EQ(ReadFile(target / found[i].relative_path).value(),
                golden.Read(found[i].relative_path));
    }
  }
}

TEST_F(Tar, EqualPartsGiveEqualBytesWhateverTheirTimesAndModes) {
  const fs::path copy = directory_ / "copy";
  fs::copy(Golden("compact").directory(), copy, fs::copy_options::recursive);
  fs::last_write_time(copy / "count.txt", fs::file_time_type::clock::now() - std::chrono::hours(9));
  fs::permissions(copy / "count.txt", fs::perms::owner_read);
  StringSink sink;
  ASSERT_TRUE(WritePartTar(world_.context(), copy, "all_1_1_0", sink).ok());
  EXPECT_EQ(sink.bytes(), Packed("compact", "all_1_1_0"));
}

TEST_F(Tar, BeginsWithTheDirectoryAndFollowsLexicalOrder) {
  ASSERT_TRUE(Parse(Packed("proj", "all_1_1_0")).ok());
  EXPECT_EQ(seen_.directories, (std::vector<std::string>{"all_1_1_0", "all_1_1_0/by_g.proj"}));
  EXPECT_EQ(seen_.files.begin()->first, "all_1_1_0/by_g.proj/checksums.txt");
}

TEST_F(Tar, SizeIsKnownBeforehandForEveryNameAndSize) {
  std::vector<TarEntry> entries = {{.path = "p", .is_directory = true}};
  for (size_t length = 90; length < 300; ++length) {
    std::string path = "p/" + std::string(length - 2, length % 2 == 0 ? 'b' : 'a');
    if (length % 2 == 0) path[length / 2] = '/';
    entries.push_back({.path = path, .size_bytes = static_cast<int64_t>(length)});
  }
  entries.push_back({.path = "p/größe", .size_bytes = 1});
  std::string bytes;
  const auto digest = WriteTar(
      world_.context(), entries,
      [](const Context&, const TarEntry& entry, const TarEmit& emit) {
        return emit(AsBytes(std::string(static_cast<size_t>(entry.size_bytes), 'x')));
      },
      [&](std::span<const std::byte> piece) {
        bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        return Status();
      });
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(TarSizeBytes(entries), static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(Parse(bytes).ok());
  for (const TarEntry& entry : entries) {
    if (entry.is_directory) continue;
    EXPECT_TRUE(seen_.files.contains(entry.path)) << entry.path;
  }
}

TEST_F(Tar, FilesAboveEightGibibytesGetASizeRecord) {
  const std::vector<TarEntry> entries = {{.path = "big", .size_bytes = int64_t{9} << 30}};
  EXPECT_EQ(TarSizeBytes(entries), 3 * 512 + (int64_t{9} << 30) + 1024);
  const auto digest = WriteTar(
      world_.context(), entries,
      [](const Context&, const TarEntry&, const TarEmit&) { return Status(); },
      [](std::span<const std::byte>) { return Status(); });
  EXPECT_EQ(digest.status().code(), Code::kCorruption);  // the content never came
}

TEST_F(Tar, ContentOfAnotherSizeIsNoticed) {
  const std::vector<TarEntry> entries = {{.path = "f", .size_bytes = 3}};
  for (const char* content : {"ab", "abcd"}) {
    const auto digest = WriteTar(
        world_.context(), entries,
        [&](const Context&, const TarEntry&, const TarEmit& emit) {
          return emit(AsBytes(content));
        },
        [](std::span<const std::byte>) { return Status(); });
    EXPECT_EQ(digest.status().code(), Code::kCorruption);
  }
}

TEST_F(Tar, ReadsUstarPrefixBase256PaxAndGnuNames) {
  const std::string deep = std::string(60, 'd') + "/" + std::string(80, 'f');
  TarBlock base256 = FormatTarHeader({.name = "b", .size_bytes = 3, .mode = 0644, .type = '0'});
  std::memset(base256.data() + 124, 0, 12);
  base256[124] = static_cast<char>(0x80);
  base256[135] = 3;
  TarBlock old_directory =
      FormatTarHeader({.name = "old/", .size_bytes = 0, .mode = 0755, .type = '\0'});
  const std::string long_name = "p/" + std::string(200, 'n');
  const std::string pax_name = "p/" + std::string(300, 'x');
  Archive a;
  a.Add(deep, "deep")
      .Raw(base256, "abc")
      .Raw(old_directory)
      .Add("././@LongLink", long_name + '\0', 'L')
      .Add("short", "gnu")
      .Add("././@LongLink", "target", 'K')
      .Add("PaxHeaders.0/x",
           FormatPaxRecord("path", pax_name) + FormatPaxRecord("size", "3") +
               FormatPaxRecord("mtime", "1.5"),
           'x');
  const TarBlock zero_size =
      FormatTarHeader({.name = "x", .size_bytes = 0, .mode = 0644, .type = '0'});
  a.bytes.append(zero_size.data(), zero_size.size());
  a.Content("pax").Add("PaxHeaders.0/g", FormatPaxRecord("comment", "hello"), 'g').Add("last", "");
  for (const size_t piece : {1u, 7u, 512u, 100'000u}) {
    const Status status = Parse(a.End(), piece);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(seen_.files[deep], "deep");
    EXPECT_EQ(seen_.files["b"], "abc");
    EXPECT_EQ(seen_.files[long_name], "gnu");
    EXPECT_EQ(seen_.files[pax_name], "pax");
    EXPECT_TRUE(seen_.files.contains("last"));
    EXPECT_EQ(seen_.directories, std::vector<std::string>{"old"});
  }
}

// check: UX-11 (archives)
TEST_F(Tar, NamesThatLeaveTheDirectoryAreRefused) {
  for (const std::string& name :
       std::vector<std::string>{"/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\\b",
                                "a/b/c/d/e/f/g/h/i/j", std::string("a\nb")}) {
    Archive a;
    if (FitsUstarName(name)) {
      a.Add(name, "x");
    } else {
      a.Add("PaxHeaders.0/x", FormatPaxRecord("path", name), 'x').Add("x", "x");
    }
    const Status status = Parse(a.End());
    EXPECT_EQ(status.code(), Code::kRefused) << name;
    EXPECT_EQ(status.explanation().pf_number, 8005) << name;
  }
}

TEST_F(Tar, LinksDevicesAndSparseFilesAreRefused) {
  for (const char type : {'1', '2', '3', '4', '6', '7', 'S', 'V', 'A'}) {
    const Status status = Parse(Archive().Add("x", "", type).End());
    EXPECT_EQ(status.code(), Code::kRefused) << type;
    EXPECT_EQ(status.explanation().pf_number, 8002) << type;
  }
  Archive sparse;
  sparse.Add("PaxHeaders.0/x", FormatPaxRecord("GNU.sparse.major", "1"), 'x').Add("x", "");
  EXPECT_EQ(Parse(sparse.End()).code(), Code::kRefused);
}

TEST_F(Tar, NamesThatContradictEachOtherAreRefused) {
  EXPECT_FALSE(Parse(Archive().Add("a").Add("a").End()).ok());
  EXPECT_FALSE(Parse(Archive().Add("a").Add("a/", "", '5').End()).ok());
  EXPECT_FALSE(Parse(Archive().Add("a/", "", '5').Add("a").End()).ok());
  EXPECT_FALSE(Parse(Archive().Add("a").Add("a/b").End()).ok());
  EXPECT_FALSE(Parse(Archive().Add("a/b").Add("a").End()).ok());
  EXPECT_TRUE(Parse(Archive().Add("a/", "", '5').Add("a/b").Add("a/c").End()).ok());
}

TEST_F(Tar, EveryShortenedArchiveIsRefused) {
  const std::string tar = Packed("compact", "all_1_1_0");
  for (size_t size = 0; size < tar.size(); size += 61) {
    EXPECT_FALSE(Parse(tar.substr(0, size), 512).ok()) << size;
  }
  EXPECT_TRUE(Parse(tar + std::string(9 * 512, '\0')).ok());  // padding to a record is common
  EXPECT_FALSE(Parse(tar + "x").ok());
}

TEST_F(Tar, AnyFlippedByteIsRefusedWhenExtracting) {
  const std::string tar = Packed("compact", "all_1_1_0");
  int found = 0, harmless = 0;
  for (size_t at = 0; at < tar.size(); at += 17) {
    std::string broken = tar;
    broken[at] = static_cast<char>(broken[at] ^ 0x40);
    const fs::path target = directory_ / ("t" + std::to_string(at));
    const auto part = Extract(broken, target, "all_1_1_0");
    if (!part.ok()) {
      ++found;
    } else {
      // Padding, and the files that checksums.txt does not list: the digest of the tar finds those.
      ++harmless;
      EXPECT_NE(part->tar_sha256, Sha256Hex(tar));
    }
    fs::remove_all(target);
  }
  EXPECT_GT(found, harmless / 2);
}

TEST_F(Tar, MutatedArchivesNeverCrashNorLeaveTheTarget) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string tar = Packed("proj", "all_1_1_0");
  for (int round = 0; round < 3000; ++round) {
    std::string broken = tar;
    for (uint64_t i = 1 + RandomBelow(random, 3); i > 0; --i) {
      const size_t block = RandomBelow(random, broken.size() / 512) * 512;
      switch (RandomBelow(random, 3)) {
        case 0:  // a byte somewhere in a header, its checksum made right again
        {
          TarBlock header;
          std::memcpy(header.data(), broken.data() + block, 512);
          header[RandomBelow(random, 400)] = static_cast<char>(random.Next());
          broken.replace(block, 512, Archive().Raw(header).bytes);
          break;
        }
        case 1:
          broken[RandomBelow(random, broken.size())] = static_cast<char>(random.Next());
          break;
        default:
          broken.insert(block, broken.substr(RandomBelow(random, broken.size() / 512) * 512, 512));
      }
    }
    (void)Parse(broken, 1 + RandomBelow(random, 5000));
  }
  for (int round = 0; round < 200; ++round) {
    std::string broken = tar;
    broken[RandomBelow(random, broken.size())] = static_cast<char>(random.Next());
    (void)Extract(broken, directory_ / ("m" + std::to_string(round)), "all_1_1_0");
  }
}

TEST_F(Tar, AnotherPartsArchiveIsRefused) {
  const std::string tar = Packed("compact", "all_1_1_0");
  const auto part = Extract(tar, directory_ / "x", "all_2_2_0");
  EXPECT_EQ(part.status().code(), Code::kRefused);
  EXPECT_EQ(part.status().explanation().pf_number, 8005);
}

TEST_F(Tar, AnExistingTargetIsNeverWrittenInto) {
  fs::create_directory(directory_ / "x");
  EXPECT_EQ(Extract(Packed("compact", "all_1_1_0"), directory_ / "x", "all_1_1_0").status().code(),
            Code::kAlreadyExists);
}

TEST_F(Tar, ModesAreAppliedWithoutSetIdBits) {
  Archive a;
  a.Add("p/", "", '5', 0755);
  const GoldenPart golden = Golden("compact");
  for (const FileEntry& file : ListTree(golden.directory()).value()) {
    a.Add("p/" + file.relative_path, golden.Read(file.relative_path), '0', 04444);
  }
  ASSERT_TRUE(Extract(a.End(), directory_ / "x", "p").ok());
  struct stat info {};
  ASSERT_EQ(stat((directory_ / "x" / "count.txt").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0444u);
}

TEST(PaxRecord, LengthCountsItself) {
  EXPECT_EQ(FormatPaxRecord("path", "a"), "9 path=a\n");
  EXPECT_EQ(FormatPaxRecord("path", "ab"), "11 path=ab\n");
  for (size_t n = 0; n < 1100; ++n) {
    const std::string record = FormatPaxRecord("path", std::string(n, 'v'));
    EXPECT_EQ(std::stoul(record), record.size());
    EXPECT_EQ(ParsePaxRecords(record).value().at("path").size(), n);
  }
  for (const char* text : {"x", "10 path=a", "8 path=a\n", "99 path=a\n", "6 =ab\n", "-1 a=b\n"}) {
    EXPECT_FALSE(ParsePaxRecords(text).ok()) << text;
  }
}

}  // namespace
}  // namespace partforge::clickhouse
