#include "app/wire.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "app/upload_options.h"
#include "base/files.h"
#include "testing/test_world.h"

namespace partforge::app {
namespace {

namespace fs = std::filesystem;

// One command's objects, made from a command line.
class Wired : public ::testing::Test {
 protected:
  Result<ResolvedOptions> Resolve(std::string_view command, std::vector<std::string> argv) {
    const std::vector<CommandSpec> all = CommandSpecs();
    for (const CommandSpec& spec : all) {
      if (spec.name != command) continue;
      OptionInputs inputs;
      inputs.argv = std::move(argv);
      inputs.environment = environment_;
      inputs.read_file = [](const std::string& path) {
        return Result<std::string>(Status(Code::kNotFound, path));
      };
      return ResolveOptions(spec, all, inputs);
    }
    return Status(Code::kNotFound, std::string(command));
  }
  static int NumberOf(const Status& status) { return status.explanation().pf_number; }
  static int NumberOf(const Result<fs::path>& result) {
    return result.ok() ? 0 : NumberOf(result.status());
  }

  Status Server(std::vector<std::string> argv) {
    environment_["CLICKHOUSE_PASSWORD"] = password_;
    argv.insert(argv.end(), {"--database=d", "--table=t", "--freeze=f"});
    PF_ASSIGN(const ResolvedOptions options, Resolve("freeze", std::move(argv)));
    PF_TRY(OpenServer({world_.context(), options, out_, environment_}));
    return {};
  }
  Result<fs::path> Work(std::vector<std::string> argv) {
    PF_ASSIGN(const ResolvedOptions options, Resolve("worker", std::move(argv)));
    return OpenWorkDir({world_.context(), options, out_, environment_});
  }

  testing::TestWorld world_;
  testing::TempDir dir_;
  Output out_{OutputStyle{}};
  std::map<std::string, std::string> environment_;
  std::string password_ = "secret";
};

TEST_F(Wired, PlainHttpGoesToThisMachineOnlyUnlessAllowed) {
  EXPECT_TRUE(Server({"--clickhouse-url=http://127.0.0.1:8123"}).ok());
  EXPECT_TRUE(Server({"--clickhouse-url=http://localhost:8123"}).ok());
  EXPECT_TRUE(Server({"--clickhouse-url=http://[::1]:8123"}).ok());
  EXPECT_TRUE(Server({"--clickhouse-url=https://db.example.org:8443"}).ok());
  environment_["CLICKHOUSE_HOST"] = "db.example.org";  // as ClickHouse's own clients read it
  EXPECT_EQ(NumberOf(Server({})), 7002);
  environment_["CLICKHOUSE_PORT"] = "8443";
  EXPECT_TRUE(Server({}).ok());
  environment_.clear();
  EXPECT_EQ(NumberOf(Server({"--clickhouse-url=http://db.example.org:8123"})), 7002);
  EXPECT_EQ(NumberOf(Server({"--clickhouse-url=http://127.0.0.1.example.org"})), 7002);
  EXPECT_TRUE(Server({"--clickhouse-url=http://db.example.org:8123", "--allow-http"}).ok());
  password_ = "";
  EXPECT_EQ(NumberOf(Server({"--clickhouse-url=http://db.example.org:8123"})), 7002);
}

TEST_F(Wired, TheDefaultWorkFolderIsOfThisUserAlone) {
  environment_["TMPDIR"] = dir_.path().string();
  const auto made = Work({});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  struct stat found {};
  ASSERT_EQ(stat(made->c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
  EXPECT_TRUE(Work({}).ok()) << "the same folder again";
  ASSERT_EQ(chmod(made->c_str(), 0770), 0);
  EXPECT_EQ(NumberOf(Work({})), 1015);
  // A link that somebody put there leads anywhere.
  fs::remove(*made);
  fs::create_directory(dir_ / "elsewhere");
  fs::create_directory_symlink(dir_ / "elsewhere", *made);
  EXPECT_EQ(NumberOf(Work({})), 1015);
}

TEST_F(Wired, AWorkFolderOfOnesChoiceMayNotBeOpenToAll) {
  const fs::path folder = dir_ / "work";
  EXPECT_TRUE(Work({"--work-dir=" + folder.string()}).ok());
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  EXPECT_EQ(NumberOf(Work({"--work-dir=" + folder.string()})), 1015);
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);  // as /tmp is
  EXPECT_TRUE(Work({"--work-dir=" + folder.string()}).ok());
  const fs::path file = dir_ / "file";
  ASSERT_TRUE(WriteFileDurably(file, "x").ok());
  EXPECT_EQ(NumberOf(Work({"--work-dir=" + file.string()})), 1015);
}

TEST_F(Wired, SettingsThatNoPartCouldSurviveAreRefusedBeforeAnyIsClaimed) {
  const auto settings = [&](std::vector<std::string> argv) -> Status {
    PF_ASSIGN(const ResolvedOptions options, Resolve("worker", std::move(argv)));
    const CommandInput input{world_.context(), options, out_, environment_};
    PF_ASSIGN(const MachineUse use, ChooseMachineUse(input));
    PF_TRY(RewriteSettingsFrom(input, use));
    return {};
  };
  EXPECT_TRUE(settings({"--memory=256MiB", "--s3-endpoint=file:///absent"}).ok());
  for (const char* flag : {"--memory=1B", "--memory=1MiB", "--s3-endpoint=ftp://x",
                           "--s3-endpoint=file://relative", "--default-compression-codec= "}) {
    const Status status = settings({flag});
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << flag;
    EXPECT_EQ(NumberOf(status), 1005) << flag;
  }
}

TEST_F(Wired, AnUploadNamesTheFlagOfAPlaceThatCannotBe) {
  ASSERT_TRUE(WriteFileDurably(dir_ / "sql", "SELECT 1").ok());
  const auto upload = [&](const std::string& flag) -> Status {
    const std::string file = (dir_ / "sql").string();
    PF_ASSIGN(const ResolvedOptions options,
              Resolve("upload-freeze",
                      {"--database=d", "--table=t", "--freeze=f", "--bucket=b",
                       "--destination-schema-file=" + file, "--insert-select-file=" + file, flag}));
    PF_TRY(UploadRequestFrom({world_.context(), options, out_, environment_}, {"f"}));
    return {};
  };
  EXPECT_TRUE(upload("--prefix=a/b").ok());
  EXPECT_TRUE(upload("--prefix=/").ok()) << "no prefix at all";
  for (const std::string bad :
       {"--prefix=..", "--prefix=a/../b", "--prefix=.", "--prefix=a\x01", "--bucket=..",
        "--bucket=a/b", "--bucket=forge/", "--s3-endpoint=ftp://x"}) {
    const Status status = upload(bad);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ(NumberOf(status), 1005) << bad;
    EXPECT_EQ(status.explanation().where, bad.substr(0, bad.find('='))) << bad;
  }
  EXPECT_EQ(NumberOf(upload("--prefix=" + std::string(600, 'a'))), 1005);
  EXPECT_EQ(NumberOf(upload("--job-id=")), 1005);
}

TEST_F(Wired, WhoOnlyReadsMakesNoFolder) {
  if (access("/var/lib/partforge", W_OK) == 0) GTEST_SKIP() << "the shared folder comes first";
  environment_["HOME"] = (dir_ / "home").string();
  const auto options = Resolve("list-jobs", {});
  ASSERT_TRUE(options.ok());
  const auto opened = OpenState({world_.context(), *options, out_, environment_}, SchemaUse::kRead);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(NumberOf(opened.status()), 6003);
  EXPECT_FALSE(fs::exists(dir_ / "home"));
}

}  // namespace
}  // namespace partforge::app
