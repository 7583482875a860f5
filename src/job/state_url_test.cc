#include "job/state_url.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "job/migrations.h"
#include "job/sqlite_db.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

using testing::TempDir;
using testing::TestWorld;

constexpr SqlStatement kForgeVersion = {
    "test_forge_version",
    "INSERT INTO migrations (version, name, applied_at) VALUES (:version, 'later', 0)"};
constexpr SqlStatement kCountMigrations = {
    "test_count_migrations", "SELECT count(*), count(DISTINCT version) FROM migrations"};

class StateUrlTest : public ::testing::Test {
 protected:
  StateStoreOptions OptionsFor(SchemaUse use) const {
    StateStoreOptions options;
    options.url = "sqlite:" + (folder_ / "state.db").string();
    options.use = use;
    return options;
  }

  TempDir folder_;
  TestWorld world_;
  Context ctx_ = world_.context();
};

TEST(ParseStateUrl, KnowsBothDatabases) {
  EXPECT_EQ(ParseStateUrl("sqlite:/a/b.db")->path, "/a/b.db");
  EXPECT_EQ(ParseStateUrl("sqlite:///a/b.db")->path, "/a/b.db");
  EXPECT_EQ(ParseStateUrl("sqlite:rel.db")->path, "rel.db");
  EXPECT_EQ(ParseStateUrl("postgres://u@h/d")->kind, StateUrl::Kind::kPostgres);
  EXPECT_EQ(ParseStateUrl("postgresql:///d?host=/tmp")->path, "postgresql:///d?host=/tmp");
}

TEST(ParseStateUrl, RefusesTheRestWithoutShowingASecret) {
  for (const char* url :
       {"", "sqlite:", "mysql://u:hunter2@h/d", "/a/b.db", "host=h password=hunter2",
        "host=::1 password=hunter2", "password=hunter2 host=::1", "sqlite::memory:"}) {
    const Result<StateUrl> parsed = ParseStateUrl(url);
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(parsed.status().message().find("hunter2"), std::string::npos);
  }
}

TEST_F(StateUrlTest, APostgresUrlThatDoesNotParseIsAMistakeAndIsNotShown) {
  for (const char* url : {"postgres://%zz", "postgres://u:hunter2/more@h/d",
                          "postgres://u:hunter2%zz@h/d", "postgres://h/d?nosuch=hunter2"}) {
    StateStoreOptions options;
    options.url = url;
    const auto opened = OpenJobStore(ctx_, options);
    ASSERT_FALSE(opened.ok()) << url;
    EXPECT_EQ(opened.status().code(), Code::kInvalidArgument) << opened.status().ToString();
    EXPECT_EQ(opened.status().explanation().pf_number, 1005) << opened.status().ToString();
    EXPECT_EQ(opened.status().ToString().find("hunter2"), std::string::npos);
  }
}

TEST_F(StateUrlTest, AFileWithoutItsTablesIsDamaged) {
  ASSERT_TRUE(MigrateStateStore(ctx_, OptionsFor(SchemaUse::kMigrate)).ok());
  {
    auto db = SqliteDb::Open(ctx_, SqliteOptions{.path = folder_ / "state.db"});
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)
                    ->Write(ctx_,
                            [](SqlSession& session) {
                              return session.RunScript(
                                  "PRAGMA foreign_keys=OFF; ALTER TABLE jobs RENAME TO other");
                            })
                    .ok());
  }
  const auto store = OpenJobStore(ctx_, OptionsFor(SchemaUse::kRead));
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const Status status = (*store)->View(ctx_, "job-1").status();
  EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
  EXPECT_EQ(status.explanation().pf_number, 6008);
}

// check: PF-6
TEST_F(StateUrlTest, MigrateWorksOnAnEmptyAndOnAnUpToDateStore) {
  EXPECT_EQ(*CountPendingMigrations(ctx_, OptionsFor(SchemaUse::kMigrate)), kSchemaVersion);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "state.db")) << "it was only looked for";
  const Result<int64_t> first = MigrateStateStore(ctx_, OptionsFor(SchemaUse::kMigrate));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(*first, kSchemaVersion);
  EXPECT_EQ(*CountPendingMigrations(ctx_, OptionsFor(SchemaUse::kMigrate)), 0);
  EXPECT_EQ(*MigrateStateStore(ctx_, OptionsFor(SchemaUse::kMigrate)), 0);
  EXPECT_TRUE(OpenJobStore(ctx_, OptionsFor(SchemaUse::kRead)).ok());
}

TEST_F(StateUrlTest, AFileIsMadeByWhoeverWritesAndByNobodyWhoReads) {
  const auto absent = OpenJobStore(ctx_, OptionsFor(SchemaUse::kRead));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(absent.status().explanation().pf_number, 6003);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "state.db"));
  EXPECT_TRUE(OpenJobStore(ctx_, OptionsFor(SchemaUse::kWrite)).ok());
  EXPECT_TRUE(OpenJobStore(ctx_, OptionsFor(SchemaUse::kRead)).ok());
}

TEST_F(StateUrlTest, ANewerStoreIsRefused) {
  const auto store = OpenJobStore(ctx_, OptionsFor(SchemaUse::kWrite));
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->db().RunAlone(ctx_, kForgeVersion, {{"version", kSchemaVersion + 2}}).ok());
  for (const SchemaUse use :
       {SchemaUse::kRead, SchemaUse::kWrite, SchemaUse::kCreate, SchemaUse::kMigrate}) {
    const auto opened = OpenJobStore(ctx_, OptionsFor(use));
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().explanation().pf_number, 6002);
    EXPECT_EQ(opened.status().code(), Code::kRefused);
  }
  EXPECT_EQ(
      MigrateStateStore(ctx_, OptionsFor(SchemaUse::kMigrate)).status().explanation().pf_number,
      6002);
}

TEST_F(StateUrlTest, AFileThatIsNoDatabaseIsNamed) {
  std::ofstream(folder_ / "state.db") << std::string(4096, 'x');
  const auto opened = OpenJobStore(ctx_, OptionsFor(SchemaUse::kWrite));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kCorruption);
  EXPECT_EQ(opened.status().explanation().pf_number, 6008);
}

// check: PF-7
TEST_F(StateUrlTest, FourProcessesMigrateAtOnceAndEachMigrationIsAppliedOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      TestWorld world;
      const Result<int64_t> applied =
          MigrateStateStore(world.context(), OptionsFor(SchemaUse::kMigrate));
      _exit(applied.ok() ? static_cast<int>(*applied) : 100);
    }
    children.push_back(child);
  }
  int applied = 0;
  for (const pid_t child : children) {
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    ASSERT_TRUE(WIFEXITED(state));
    EXPECT_NE(WEXITSTATUS(state), 100);
    applied += WEXITSTATUS(state);
  }
  EXPECT_EQ(applied, kSchemaVersion);
  const auto store = OpenJobStore(ctx_, OptionsFor(SchemaUse::kRead));
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const Result<SqlRows> rows = (*store)->db().RunAlone(ctx_, kCountMigrations, {});
  EXPECT_EQ(rows->row(0).Int(0), kSchemaVersion);
}

}  // namespace
}  // namespace partforge
