#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "base/files.h"
#include "base/hash.h"
#include "base/process.h"
#include "clickhouse/artifact_fetch.h"
#include "clickhouse/artifact_upload.h"
#include "clickhouse/memory_bytes.h"
#include "clickhouse/source_fetch.h"
#include "clickhouse/source_upload.h"
#include "clickhouse/testdata.h"
#include "store/local_store.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> Contents(const fs::path& directory) {
  std::map<std::string, std::string> contents;
  for (const FileEntry& file : ListTree(directory).value()) {
    if (!file.is_directory) {
      contents[file.relative_path] = ReadFile(directory / file.relative_path).value();
    }
  }
  return contents;
}

// Damages the first read of an object on its way; the rest goes straight through.
class DamagedOnce final : public ObjectStore {
 public:
  DamagedOnce(ObjectStore& below, std::string ending) : below_(below), ending_(std::move(ending)) {}
  StoreTraits traits() const override { return below_.traits(); }
  std::string url() const override { return below_.url(); }
  Result<std::unique_ptr<ByteSource>> Open(const Context& ctx, std::string_view key) override {
    PF_ASSIGN(std::unique_ptr<ByteSource> source, below_.Open(ctx, key));
    if (!key.ends_with(ending_)) return source;
    return std::unique_ptr<ByteSource>(std::make_unique<Source>(std::move(source), is_damaged_));
  }
  Result<std::unique_ptr<ByteSink>> Create(const Context& ctx, std::string_view key,
                                           int64_t size_hint_bytes) override {
    return below_.Create(ctx, key, size_hint_bytes);
  }
  Result<PutOutcome> PutIfAbsent(const Context& ctx, std::string_view key,
                                 std::span<const std::byte> bytes) override {
    return below_.PutIfAbsent(ctx, key, bytes);
  }
  Result<ObjectInfo> Stat(const Context& ctx, std::string_view key) override {
    return below_.Stat(ctx, key);
  }
  Result<ListPage> List(const Context& ctx, std::string_view prefix,
                        std::optional<std::string> after) override {
    return below_.List(ctx, prefix, std::move(after));
  }
  Status Link(const Context& ctx, std::string_view from, std::string_view to) override {
    return below_.Link(ctx, from, to);
  }
  Status Delete(const Context& ctx, std::span<const std::string> keys) override {
    return below_.Delete(ctx, keys);
  }

 private:
  class Source final : public ByteSource {
   public:
    Source(std::unique_ptr<ByteSource> below, bool& is_damaged)
        : below_(std::move(below)), is_damaged_(is_damaged) {}
    int64_t size_bytes() const override { return below_->size_bytes(); }
    Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
      PF_TRY(below_->ReadAt(ctx, offset, out));
      if (!std::exchange(is_damaged_, true)) out.front() ^= std::byte{1};
      return {};
    }

   private:
    std::unique_ptr<ByteSource> below_;
    bool& is_damaged_;
  };

  ObjectStore& below_;
  const std::string ending_;
  bool is_damaged_ = false;
};

class Transfer : public ::testing::Test {
 protected:
  Transfer() : store_(LocalStore::Open(directory_ / "bucket").value()) {}

  static FrozenPart Frozen(const fs::path& directory) {
    FrozenPart part;
    part.disk = "default";
    part.directory = directory;
    part.relative_path = "store/abc/uuid/" + directory.filename().string();
    part.name = ParsePartName(directory.filename().string()).value();
    return part;
  }
  static Manifest ManifestOf(const FrozenPart& part) {
    Manifest m;
    m.job_id = "job-1";
    m.part_id = "part-1";
    m.freeze = "f";
    m.source_database = m.dest_database = "shop";
    m.source_table = "orders";
    m.dest_table = "orders_v2";
    m.part_disk = part.disk;
    m.part_name = part.name.ToString();
    m.part_relative_path = part.relative_path;
    m.source_schema = m.destination_schema = "CREATE …";
    m.insert_select = "INSERT …";
    m.bucket = "bucket";
    m.source_key = "p/jobs/job-1/source/part-1";
    m.finished_key = "p/jobs/job-1/finished/part-1";
    m.created_at_ns = 1;
    return m;
  }
  Result<SourceUploaded> Upload(const fs::path& directory) {
    const FrozenPart part = Frozen(directory);
    return UploadSource(world_.context(), *store_, part, ManifestOf(part), 3);
  }
  Result<FetchedSource> Fetch(const std::string& name, VerifyLevel verify = VerifyLevel::kSizes) {
    const Manifest m = ManifestOf(Frozen("all_1_1_0"));
    return FetchSource(world_.context(), *store_,
                       {.source_key = m.source_key,
                        .owner = {m.job_id, m.part_id, m.bucket, m.source_key},
                        .directory = directory_ / name,
                        .verify = verify,
                        .threads = 3,
                        .buckets = buckets_});
  }
  fs::path CopyOf(const std::string& table) {
    const GoldenPart golden = Golden(table);
    const fs::path copy = directory_ / ("copy" + std::to_string(++copies_)) / golden.name;
    fs::create_directories(copy.parent_path());
    fs::copy(golden.directory(), copy, fs::copy_options::recursive);
    return copy;
  }
  fs::path Object(const std::string& key) const { return directory_ / "bucket" / key; }
  static void Flip(const fs::path& file) {
    fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    std::string bytes = ReadFile(file).value();
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(file, std::ios::binary) << bytes;
  }

  testing::TestWorld world_;
  testing::TempDir directory_;
  std::unique_ptr<LocalStore> store_;
  BucketResolver buckets_;
  int copies_ = 0;
};

TEST_F(Transfer, EverySourcePartComesBackByteForByte) {
  for (const GoldenPart& golden : GoldenParts()) {
    SCOPED_TRACE(golden.table);
    const auto sent = Upload(golden.directory());
    ASSERT_TRUE(sent.ok()) << sent.status().ToString();
    EXPECT_FALSE(sent->was_complete);
    EXPECT_EQ(sent->manifest.part_rows, golden.rows);
    const auto fetched = Fetch(golden.table, VerifyLevel::kContent);
    ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
    EXPECT_EQ(fetched->manifest_sha256, sent->manifest_sha256);
    EXPECT_EQ(fetched->part.rows, golden.rows);
    EXPECT_EQ(Contents(directory_ / golden.table), Contents(golden.directory()));
    EXPECT_FALSE(fs::exists(directory_ / golden.table / "manifest.json"));
    fs::remove_all(directory_ / "bucket");
  }
}

TEST_F(Transfer, TheFrozenDirectoryIsNotTouchedAndAForeignManifestStaysBehind) {
  const fs::path part = CopyOf("compact");
  std::ofstream(part / "manifest.json") << "of the reference";
  const auto before = Contents(part);
  ASSERT_TRUE(Upload(part).ok());
  EXPECT_EQ(Contents(part), before);
  EXPECT_TRUE(
      store_->Stat(world_.context(), ManifestOf(Frozen(part)).source_key + "/manifest.json").ok());
}

TEST_F(Transfer, ASecondUploadSendsNothing) {
  const auto first = Upload(Golden("wide").directory()).value();
  const auto second = Upload(Golden("wide").directory());
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE(second->was_complete);
  EXPECT_EQ(second->manifest_sha256, first.manifest_sha256);
}

TEST_F(Transfer, AnUploadKilledAnywhereIsFinishedByTheNext) {
  const fs::path part = Golden("compact").directory();
  for (int64_t nth = 1;; ++nth) {
    fs::remove_all(directory_ / "bucket");
    testing::FailNth fault(nth, "clickhouse.");
    world_.UseFaults(fault);
    const auto first = Upload(part);
    if (!fault.has_fired()) {
      EXPECT_TRUE(first.ok());
      EXPECT_GT(nth, 10);  // every file, and the manifest
      return;
    }
    ASSERT_FALSE(first.ok());
    // Until the manifest stands there nobody takes the artifact for complete.
    const bool is_last = fault.fired_point() == "clickhouse.manifest_uploaded";
    EXPECT_EQ(fs::exists(Object("p/jobs/job-1/source/part-1/manifest.json")), is_last);
    NoFaults none;
    world_.UseFaults(none);
    const auto second = Upload(part);
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    EXPECT_EQ(second->was_complete, is_last);
    EXPECT_TRUE(Fetch("f" + std::to_string(nth)).ok());
    EXPECT_TRUE(Upload(part)->was_complete);
  }
}

TEST_F(Transfer, AnObjectThatIsGoneIsSentAgain) {
  ASSERT_TRUE(Upload(Golden("wide").directory()).ok());
  fs::remove(Object("p/jobs/job-1/source/part-1/id.bin"));
  const auto again = Upload(Golden("wide").directory());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_FALSE(again->was_complete);
  EXPECT_TRUE(Fetch("x").ok());
}

TEST_F(Transfer, AnotherPartUnderTheSameIdIsACollision) {
  ASSERT_TRUE(Upload(Golden("compact").directory()).ok());
  const auto other = Upload(Golden("old").directory());
  EXPECT_EQ(other.status().code(), Code::kConflict);
  EXPECT_EQ(other.status().explanation().pf_number, 2120);
}

TEST_F(Transfer, ADamagedSourceIsNeverComplete) {
  const fs::path part = CopyOf("wide");
  Flip(part / "id.bin");
  const auto sent = Upload(part);
  EXPECT_EQ(sent.status().code(), Code::kCorruption);
  EXPECT_EQ(sent.status().explanation().pf_number, 2133);
  EXPECT_FALSE(fs::exists(Object("p/jobs/job-1/source/part-1/manifest.json")));
}

TEST_F(Transfer, SqlThatIsNoUtf8IsRefused) {
  const FrozenPart part = Frozen(Golden("compact").directory());
  Manifest manifest = ManifestOf(part);
  manifest.insert_select = "SELECT '\xff'";
  const auto sent = UploadSource(world_.context(), *store_, part, manifest, 1);
  EXPECT_EQ(sent.status().code(), Code::kRefused);
}

TEST_F(Transfer, AFlippedByteInASourceObjectIsFoundByItsDigest) {
  ASSERT_TRUE(Upload(Golden("compact").directory()).ok());
  Flip(Object("p/jobs/job-1/source/part-1/data.bin"));
  const auto fetched = Fetch("x");
  EXPECT_EQ(fetched.status().code(), Code::kCorruption);
  EXPECT_EQ(fetched.status().explanation().pf_number, 2133);
}

TEST_F(Transfer, AFileDamagedOnItsWayIsFetchedAgain) {
  const fs::path part = Golden("wide").directory();
  ASSERT_TRUE(Upload(part).ok());
  DamagedOnce damaged(*store_, "checksums.txt");
  const Manifest m = ManifestOf(Frozen("all_1_1_0"));
  const auto fetched = FetchSource(world_.context(), damaged,
                                   {.source_key = m.source_key,
                                    .owner = {m.job_id, m.part_id, m.bucket, m.source_key},
                                    .directory = directory_ / "fetched",
                                    .verify = VerifyLevel::kContent,
                                    .threads = 1,
                                    .buckets = buckets_});
  ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
  EXPECT_EQ(Contents(directory_ / "fetched"), Contents(part));
}

TEST_F(Transfer, AMissingSourceObjectIsNamed) {
  ASSERT_TRUE(Upload(Golden("compact").directory()).ok());
  fs::remove(Object("p/jobs/job-1/source/part-1/data.bin"));
  const auto fetched = Fetch("x");
  EXPECT_EQ(fetched.status().code(), Code::kCorruption);
  EXPECT_EQ(fetched.status().explanation().pf_number, 2126);
}

TEST_F(Transfer, AStoreThatHoldsNothingOfTheJobIsTheWorkersFault) {
  ASSERT_TRUE(Upload(Golden("compact").directory()).ok());
  fs::remove(Object("p/jobs/job-1/source/part-1/manifest.json"));
  EXPECT_EQ(Fetch("x").status().code(), Code::kNotFound) << "other objects of the job are there";
  fs::remove_all(Object("p/jobs"));
  const Status fetched = Fetch("y").status();
  EXPECT_EQ(fetched.code(), Code::kRefused) << fetched.ToString();  // class env: handed back
  EXPECT_EQ(fetched.explanation().pf_number, 2126);
  EXPECT_NE(fetched.explanation().what_to_do.find("--s3-endpoint"), std::string::npos);
}

TEST_F(Transfer, AStoreThatHoldsNothingOfTheJobSaysNothingOfAnArtifact) {
  const std::string key = "p/jobs/job-1/meta/part-1.1.json";
  const Status absent = FetchMeta(world_.context(), *store_, key, "").status();
  EXPECT_EQ(absent.code(), Code::kRefused) << absent.ToString();
  EXPECT_EQ(absent.explanation().pf_number, 2126);
  EXPECT_NE(absent.explanation().what_to_do.find("--s3-endpoint"), std::string::npos);
  ASSERT_TRUE(Upload(Golden("compact").directory()).ok());
  EXPECT_EQ(FetchMeta(world_.context(), *store_, key, "").status().code(), Code::kCorruption)
      << "other objects of the job are there";
}

TEST_F(Transfer, AnotherRowsManifestIsNotUsed) {
  ASSERT_TRUE(Upload(Golden("compact").directory()).ok());
  const auto fetched =
      FetchSource(world_.context(), *store_,
                  {.source_key = "p/jobs/job-1/source/part-1",
                   .owner = {"job-1", "part-2", "bucket", "p/jobs/job-1/source/part-1"},
                   .directory = directory_ / "x"});
  EXPECT_EQ(fetched.status().explanation().pf_number, 8001);
}

TEST_F(Transfer, AChangedManifestIsDamageBeforeAWordOfItIsBelieved) {
  ASSERT_TRUE(Upload(Golden("compact").directory()).ok());
  const std::string key = "p/jobs/job-1/source/part-1/manifest.json";
  ASSERT_TRUE(WriteObject(world_.context(), *store_, key, R"({"version": 99})").ok());
  FetchSourceRequest request{.source_key = "p/jobs/job-1/source/part-1",
                             .directory = directory_ / "x"};
  // Nobody knows what it was: a newer program may know this version.
  EXPECT_EQ(FetchSource(world_.context(), *store_, request).status().code(), Code::kRefused);
  request.manifest_sha256 = Sha256Hex("what was uploaded");
  const auto fetched = FetchSource(world_.context(), *store_, request);
  EXPECT_EQ(fetched.status().code(), Code::kCorruption);
  EXPECT_EQ(fetched.status().explanation().pf_number, 2133);
  EXPECT_FALSE(fs::exists(directory_ / "x"));
}

// An artifact as the reference lays it: a manifest without a list of files.
TEST_F(Transfer, WithoutAListOfFilesThePrefixIsListed) {
  const auto sent = Upload(Golden("proj").directory()).value();
  Manifest bare = sent.manifest;
  bare.files.clear();
  bare.part_rows.reset();
  bare.part_bytes.reset();
  ASSERT_TRUE(WriteObject(world_.context(), *store_, bare.source_key + "/manifest.json",
                          FormatManifest(bare))
                  .ok());
  const auto fetched = Fetch("x", VerifyLevel::kContent);
  ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
  EXPECT_EQ(Contents(directory_ / "x"), Contents(Golden("proj").directory()));
  Flip(Object(bare.source_key + "/id.bin"));
  EXPECT_EQ(Fetch("y", VerifyLevel::kContent).status().explanation().pf_number, 2133);
}

// A part that lies in a backup: its files are put together from other objects, in order.
TEST_F(Transfer, SourceObjectsAreConcatenatedInOrder) {
  const Context ctx = world_.context();
  const GoldenPart golden = Golden("compact");
  Manifest manifest = ManifestOf(Frozen(golden.directory()));
  for (const auto& [path, bytes] : Contents(golden.directory())) {
    const size_t cut = bytes.size() / 3;
    ASSERT_TRUE(WriteObject(ctx, *store_, "bk/1/" + path, bytes.substr(0, cut)).ok());
    ASSERT_TRUE(WriteObject(ctx, *store_, "bk/2/" + path, bytes.substr(cut)).ok());
    manifest.source_objects.push_back({"backups", "bk/1/" + path, path});
    manifest.source_objects.push_back({"backups", "bk/2/" + path, path});
  }
  ASSERT_TRUE(
      WriteObject(ctx, *store_, manifest.source_key + "/manifest.json", FormatManifest(manifest))
          .ok());
  EXPECT_EQ(Fetch("x").status().code(), Code::kRefused);
  buckets_ = [&](const Context&, std::string_view bucket) -> Result<ObjectStore*> {
    EXPECT_EQ(bucket, "backups");
    return static_cast<ObjectStore*>(store_.get());
  };
  const auto fetched = Fetch("y", VerifyLevel::kContent);
  ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
  EXPECT_EQ(Contents(directory_ / "y"), Contents(golden.directory()));
}

class Finished : public Transfer {
 protected:
  Finished() {
    for (const char* table : {"proj", "mask", "wide"}) {
      const GoldenPart golden = Golden(table);
      parts_.push_back({golden.name, golden.directory()});
    }
  }
  std::vector<ArtifactPart> Pack() {
    auto packed = PackParts(world_.context(), *store_, kPrefix, parts_, 2);
    EXPECT_TRUE(packed.ok()) << packed.status().ToString();
    return packed.ok() ? std::move(packed).value() : std::vector<ArtifactPart>();
  }
  static constexpr std::string_view kPrefix = "p/jobs/job-1/finished/part-1.3";
  std::vector<PartDirectory> parts_;
};

TEST_F(Finished, PartsComeBackByteForByte) {
  const std::vector<ArtifactPart> packed = Pack();
  ASSERT_EQ(packed.size(), 3u);
  EXPECT_EQ(packed[0].name, "202401_1_1_0");
  EXPECT_EQ(packed[0].rows, 50);
  EXPECT_EQ(packed[0].partition_id, "202401");
  EXPECT_EQ(packed[0].hash_of_all_files, Golden("wide").hash_of_all_files);
  for (const ArtifactPart& part : packed) {
    const fs::path target = directory_ / part.name;
    const auto fetched =
        FetchPart(world_.context(), *store_, kPrefix, part, target, {.is_synced = true});
    ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
    const auto& original = *std::find_if(parts_.begin(), parts_.end(),
                                         [&](const auto& p) { return p.name == part.name; });
    EXPECT_EQ(Contents(target), Contents(original.directory));
    EXPECT_TRUE(
        VerifyPartTar(world_.context(), *store_, kPrefix, part, VerifyLevel::kContent).ok());
  }
}

// The second reader is the tar program: it knows neither our code nor the meta object.
// check: PF-5
TEST_F(Finished, AStrangerReadsTheArtifactFromItsPrefixAlone) {
  if (!fs::exists("/bin/tar")) GTEST_SKIP() << "no tar program here";
  (void)Pack();
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Object(std::string(kPrefix)))) {
    ASSERT_TRUE(entry.is_regular_file()) << entry.path();  // nothing deeper
    ASSERT_EQ(entry.path().extension(), ".tar");
    ++count;
    const std::string name = entry.path().stem();
    const fs::path out = directory_ / ("out_" + name);
    fs::create_directory(out);
    auto tar = ChildProcess::Start(
        {.argv = {"/bin/tar", "-xf", entry.path().string(), "-C", out.string()}});
    ASSERT_TRUE(tar.ok());
    EXPECT_EQ((*tar)->Wait(world_.context(), 60'000)->exit_code, 0);
    const auto& original =
        *std::find_if(parts_.begin(), parts_.end(), [&](const auto& p) { return p.name == name; });
    EXPECT_EQ(Contents(out / name), Contents(original.directory));
    EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 1);
  }
  EXPECT_EQ(count, 3);
}

TEST_F(Finished, ATarOfTheTarProgramIsReadAndItsPartsAreUnverified) {
  if (!fs::exists("/bin/tar")) GTEST_SKIP() << "no tar program here";
  const GoldenPart golden = Golden("proj");
  const fs::path file = directory_ / "x.tar";
  for (const char* format : {"ustar", "pax", "gnu", "v7"}) {
    auto tar = ChildProcess::Start(
        {.argv = {"/bin/tar", std::string("--format=") + format, "-cf", file.string(), "-C",
                  golden.directory().parent_path().string(), golden.name}});
    ASSERT_TRUE(tar.ok());
    ASSERT_EQ((*tar)->Wait(world_.context(), 60'000)->exit_code, 0);
    const std::string prefix = std::string("p/finished/") + format;
    ASSERT_TRUE(
        WriteObject(world_.context(), *store_, TarKey(prefix, golden.name), ReadFile(file).value())
            .ok());
    const auto parts = ListFinishedPrefix(world_.context(), *store_, prefix);
    ASSERT_TRUE(parts.ok()) << parts.status().ToString();
    ASSERT_EQ(parts->size(), 1u);
    EXPECT_EQ((*parts)[0].tar_sha256, "");
    const fs::path target = directory_ / format;
    const auto fetched = FetchPart(world_.context(), *store_, prefix, (*parts)[0], target, {});
    ASSERT_TRUE(fetched.ok()) << format << fetched.status().ToString();
    EXPECT_EQ(Contents(target), Contents(golden.directory()));
  }
}

TEST_F(Finished, AForeignObjectBelowThePrefixIsRefused) {
  (void)Pack();
  const Context ctx = world_.context();
  for (const char* key : {"/x.txt", "/deeper/all_1_1_0.tar", "/noname.tar"}) {
    const std::string full = std::string(kPrefix) + key;
    ASSERT_TRUE(WriteObject(ctx, *store_, full, "x").ok());
    EXPECT_EQ(ListFinishedPrefix(ctx, *store_, kPrefix).status().code(), Code::kRefused) << key;
    ASSERT_TRUE(store_->Delete(ctx, std::vector<std::string>{full}).ok());
  }
  EXPECT_EQ(ListFinishedPrefix(ctx, *store_, kPrefix)->size(), 3u);
  EXPECT_EQ(ListFinishedPrefix(ctx, *store_, "p/none").status().explanation().pf_number, 2126);
}

TEST_F(Finished, AnyChangedByteOfATarIsFound) {
  const ArtifactPart part = Pack().at(1);
  const fs::path file = Object(TarKey(kPrefix, part.name));
  const std::string good = ReadFile(file).value();
  for (size_t at = 0; at < good.size(); at += 311) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    std::ofstream(file, std::ios::binary) << bad;
    const fs::path target = directory_ / ("t" + std::to_string(at));
    const auto fetched = FetchPart(world_.context(), *store_, kPrefix, part, target, {});
    EXPECT_FALSE(fetched.ok()) << at;
    EXPECT_FALSE(VerifyPartTar(world_.context(), *store_, kPrefix, part, VerifyLevel::kSizes).ok());
  }
  std::ofstream(file, std::ios::binary) << good.substr(0, good.size() - 512);
  EXPECT_EQ(FetchPart(world_.context(), *store_, kPrefix, part, directory_ / "short", {})
                .status()
                .explanation()
                .pf_number,
            2133);
}

TEST_F(Finished, ADamagedProducedPartIsNotPacked) {
  const fs::path copy = CopyOf("wide");
  Flip(copy / "id.bin");
  parts_ = {{"202401_1_1_0", copy}};
  const auto packed = PackParts(world_.context(), *store_, kPrefix, parts_, 1);
  EXPECT_EQ(packed.status().code(), Code::kCorruption);
  EXPECT_FALSE(fs::exists(Object(TarKey(kPrefix, "202401_1_1_0"))));
}

TEST_F(Finished, PartsAreListedInTheOrderOfTheirBlocks) {
  const GoldenPart golden = Golden("wide");
  parts_.clear();
  for (const char* name :
       {"202402_1_1_0", "202401_10_10_0", "202401_2_2_0", "202401_3_9_1", "202401_1_1_0"})
    parts_.push_back({name, golden.directory()});
  std::vector<std::string> names;
  for (const ArtifactPart& part : Pack()) names.push_back(part.name);
  EXPECT_EQ(names, (std::vector<std::string>{"202401_1_1_0", "202401_2_2_0", "202401_3_9_1",
                                             "202401_10_10_0", "202402_1_1_0"}));
  parts_.push_back(parts_.front());
  EXPECT_EQ(PackParts(world_.context(), *store_, kPrefix, parts_, 1).status().code(),
            Code::kInvalidArgument);
}

TEST_F(Finished, MetaComesLastAndIsReadByItsDigest) {
  const Context ctx = world_.context();
  ArtifactMeta meta;
  meta.job_id = "job-1";
  meta.part_id = "part-1";
  meta.parts = Pack();
  const auto reference = UploadMeta(ctx, *store_, "p/jobs/job-1/meta/part-1.3.json", meta);
  ASSERT_TRUE(reference.ok()) << reference.status().ToString();
  EXPECT_EQ(FetchMeta(ctx, *store_, reference->key, reference->sha256).value(), meta);
  const auto other = FetchMeta(ctx, *store_, reference->key, std::string(64, '0'));
  EXPECT_EQ(other.status().explanation().pf_number, 2133);
  EXPECT_NE(other.status().message().find(reference->sha256), std::string::npos);
  EXPECT_EQ(FetchMeta(ctx, *store_, "p/none", "").status().explanation().pf_number, 2126);
}

// A second job store with the same job id counts its attempts from 1 too.
TEST_F(Finished, AnAttemptNeverOverwritesAnother) {
  const Context ctx = world_.context();
  ArtifactMeta meta;
  meta.job_id = "job-1";
  meta.part_id = "part-1";
  meta.parts = Pack();
  const std::string key = "p/jobs/job-1/meta/part-1.3.json";
  ASSERT_TRUE(UploadMeta(ctx, *store_, key, meta).ok());
  const std::string tar = TarKey(kPrefix, meta.parts[0].name);
  const std::string before = ReadObject(ctx, *store_, tar).value();
  parts_ = {{meta.parts[0].name, CopyOf("mask")}};
  EXPECT_EQ(PackParts(ctx, *store_, kPrefix, parts_, 1).status().code(), Code::kUnavailable);
  EXPECT_EQ(ReadObject(ctx, *store_, tar).value(), before);

  EXPECT_TRUE(UploadMeta(ctx, *store_, key, meta).ok());  // a lost reply
  const std::string text = ReadObject(ctx, *store_, key).value();
  meta.part_id = "part-2";
  EXPECT_EQ(UploadMeta(ctx, *store_, key, meta).status().code(), Code::kUnavailable);
  EXPECT_EQ(ReadObject(ctx, *store_, key).value(), text);
}

TEST_F(Finished, FaultsStandAfterEachTarAndTheMeta) {
  testing::FailNth second_tar(2, "clickhouse.tar_uploaded");
  world_.UseFaults(second_tar);
  EXPECT_FALSE(PackParts(world_.context(), *store_, kPrefix, parts_, 1).ok());
  EXPECT_TRUE(fs::exists(Object(TarKey(kPrefix, "all_1_1_0"))));
  EXPECT_FALSE(fs::exists(Object(TarKey(kPrefix, "all_1_1_0_2"))));
  testing::FailNth meta(1, "clickhouse.meta_uploaded");
  world_.UseFaults(meta);
  EXPECT_FALSE(UploadMeta(world_.context(), *store_, "m.json", {}).ok());
  EXPECT_TRUE(fs::exists(Object("m.json")));
}

}  // namespace
}  // namespace partforge::clickhouse
