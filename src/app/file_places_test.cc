#include "app/file_places.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "testing/test_world.h"

namespace partforge::app {
namespace {

namespace fs = std::filesystem;

TEST(ParseFilePlace, KnowsPathsAndTheUrlsOfStores) {
  EXPECT_EQ(ParseFilePlace("a/b.parquet")->path, "a/b.parquet");
  EXPECT_EQ(ParseFilePlace("a/b.parquet")->bucket, "");
  EXPECT_EQ(ParseFilePlace("file:///x/a%20b")->path, "/x/a b");
  EXPECT_EQ(ParseFilePlace("file://localhost/x")->path, "/x");
  for (const char* scheme : {"s3", "s3a", "s3n"}) {
    const auto place = ParseFilePlace(std::string(scheme) + "://lake/db/t=1/a.parquet");
    ASSERT_TRUE(place.ok()) << scheme;
    EXPECT_EQ(place->bucket, "lake");
    EXPECT_EQ(place->path, "db/t=1/a.parquet");
  }
}

TEST(ParseFilePlace, RefusesWhatNamesNoFile) {
  for (const char* text : {"", "-", "s3://", "s3://lake", "s3://lake/", "s3:///key", "gs://lake/a",
                           "http://host/a", "file://host/a", "file:a://b"}) {
    const auto place = ParseFilePlace(text);
    ASSERT_FALSE(place.ok()) << text;
    EXPECT_EQ(place.status().explanation().pf_number, 1005) << text;
  }
}

class Places : public ::testing::Test {
 protected:
  Places() {
    for (const CommandSpec& spec : CommandSpecs()) {
      if (spec.name != "file concat") continue;
      OptionInputs inputs;
      inputs.argv = {"out", "in"};
      inputs.read_file = [](const std::string& path) {
        return Result<std::string>(Status(Code::kNotFound, path));
      };
      options_ = ResolveOptions(spec, CommandSpecs(), inputs).value();
    }
  }
  const Context& ctx() { return ctx_; }
  std::string Path(const std::string& name) { return (dir_.path() / name).string(); }

  testing::TestWorld world_;
  Context ctx_ = world_.context();
  testing::TempDir dir_;
  Output out_{OutputStyle{}};
  std::map<std::string, std::string> environment_;
  ResolvedOptions options_;
  CommandInput input_{ctx_, options_, out_, environment_};
  FilePlaces places_{input_};
};

TEST_F(Places, AnInputMustBeAFileAndLinksLeadToOne) {
  ASSERT_TRUE(WriteFileDurably(Path("a"), "bytes").ok());
  fs::create_directory(Path("folder"));
  fs::create_symlink(Path("a"), Path("folder/link"));
  const auto plain = places_.Input(ctx(), Path("a"));
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_EQ(*ReadObject(ctx(), *plain->store, plain->key), "bytes");
  const auto link = places_.Input(ctx(), Path("folder/link"));
  ASSERT_TRUE(link.ok()) << link.status().ToString();
  EXPECT_EQ(link->key, "a");
  EXPECT_EQ(link->store, plain->store);  // one store a folder
  EXPECT_EQ(link->name, Path("folder/link"));
  for (const char* name : {"folder", "absent"}) {
    const auto wrong = places_.Input(ctx(), Path(name));
    ASSERT_FALSE(wrong.ok()) << name;
    EXPECT_EQ(wrong.status().explanation().pf_number, 1019) << name;
  }
}

TEST_F(Places, ANameThatNoStoreTakesIsToldOfTheFile) {
  for (const std::string name : {"line\nbreak.parquet", "back\\slash.parquet"}) {
    ASSERT_TRUE(WriteFileDurably(Path(name), "bytes").ok());
    for (const auto& file : {places_.Input(ctx(), Path(name)), places_.Output(ctx(), Path(name))}) {
      ASSERT_FALSE(file.ok()) << name;
      EXPECT_EQ(file.status().explanation().pf_number, 1020);
      EXPECT_EQ(file.status().explanation().where, Path(name));
    }
  }
}

TEST_F(Places, AnOutputNeedsItsFolderAndMakesNone) {
  ASSERT_TRUE(places_.Output(ctx(), Path("new")).ok());
  const auto no_folder = places_.Output(ctx(), Path("absent/new"));
  ASSERT_FALSE(no_folder.ok());
  EXPECT_EQ(no_folder.status().explanation().pf_number, 1019);
  const auto folder = places_.Output(ctx(), dir_.path().string());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.status().explanation().pf_number, 1005);
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

}  // namespace
}  // namespace partforge::app
