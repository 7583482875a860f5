#include "engine/engine_setup.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "engine/config_xml.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

std::map<std::string, std::string> Leaves(const std::filesystem::path& file) {
  const auto text = ReadFile(file);
  EXPECT_TRUE(text.ok());
  const auto leaves = ReadXmlLeaves(text.ok() ? *text : "");
  EXPECT_TRUE(leaves.ok());
  return {leaves->begin(), leaves->end()};
}

TEST(EngineSetup, OurOwnEngineIsRestrictedAndConfigurable) {
  const testing::TempDir dir;
  EngineServerOptions options;
  options.data_path = dir / "data";
  options.config = {{"background_pool_size", "1"}, {"max_table_size_to_drop", "7"}};
  const auto setup = WriteEngineSetup(options);
  ASSERT_TRUE(setup.ok()) << setup.status().ToString();
  const std::filesystem::path folder = dir / "data/partforge-engine";
  auto config = Leaves(folder / "config.xml");
  EXPECT_EQ(config["users_config"], (folder / "restricted-users.xml").string());
  EXPECT_EQ(config["remote_url_allow_hosts"], "");
  EXPECT_EQ(config["background_pool_size"], "1");
  EXPECT_EQ(config["max_table_size_to_drop"], "7");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "user_files"));
  EXPECT_EQ(setup->arguments.at(0), "--path=" + (dir / "data").string());
  EXPECT_TRUE(setup->password.empty());
  ASSERT_TRUE(WriteEngineSetup(options).ok()) << "a second start writes it anew";
}

TEST(EngineSetup, AServersConfigurationIsLinkedAndOursComesLast) {
  const testing::TempDir dir;
  std::filesystem::create_directories(dir / "etc/config.d");
  std::filesystem::create_directories(dir / "etc/users.d");
  std::ofstream(dir / "etc/config.xml") << "<clickhouse><a>1</a></clickhouse>";
  std::ofstream(dir / "etc/config.d/b.xml") << "<clickhouse><b>1</b></clickhouse>";
  std::ofstream(dir / "etc/users.xml")
      << "<clickhouse><profiles><default><max_threads>3</max_threads></default>"
         "</profiles><users><default><password>old</password></default></users>"
         "</clickhouse>";
  std::ofstream(dir / "etc/users.d/p.xml")
      << "<clickhouse><users><default><password>new</password></default></users></clickhouse>";
  EngineServerOptions options;
  options.data_path = dir / "data";
  options.config_file = dir / "etc/config.xml";
  options.allows_external_reads = true;
  const auto setup = WriteEngineSetup(options);
  ASSERT_TRUE(setup.ok()) << setup.status().ToString();
  const std::filesystem::path folder = dir / "data/partforge-engine";
  EXPECT_EQ(Leaves(folder / "config.xml")["a"], "1");
  EXPECT_EQ(Leaves(folder / "config.d/b.xml")["b"], "1");
  EXPECT_EQ(Leaves(folder / "config.d/zz-partforge-engine.xml")["users_config"],
            (folder / "users.xml").string());
  EXPECT_EQ(Leaves(folder / "users.xml")["profiles.default.max_threads"], "3");
  EXPECT_EQ(Leaves(folder / "users.xml")["users.default.password"], "");
  EXPECT_EQ(setup->password.Reveal(), "new");
  EXPECT_EQ(setup->timezone, "");
}

TEST(EngineSetup, TheZoneIsThatOfTheOptionsOrOfTheServersConfiguration) {
  const testing::TempDir dir;
  std::filesystem::create_directories(dir / "etc/config.d");
  std::ofstream(dir / "etc/config.xml") << "<clickhouse><timezone>UTC</timezone></clickhouse>";
  std::ofstream(dir / "etc/config.d/z.xml")
      << "<clickhouse><timezone>Asia/Tokyo</timezone></clickhouse>";
  EngineServerOptions options;
  options.data_path = dir / "data";
  EXPECT_EQ(WriteEngineSetup(options)->timezone, "");
  options.config_file = dir / "etc/config.xml";
  EXPECT_EQ(WriteEngineSetup(options)->timezone, "Asia/Tokyo");
  options.config["timezone"] = "Europe/Berlin";
  EXPECT_EQ(WriteEngineSetup(options)->timezone, "Europe/Berlin");
}

TEST(StandInUsers, APasswordWeCannotCheckIsRefused) {
  EXPECT_EQ(ReadStandInUsers({{"users.default.password_sha256_hex", "AB"}})->password_sha256, "ab");
  EXPECT_EQ(ReadStandInUsers({{"users.default.ldap.server", "x"}}).status().code(), Code::kRefused);
  EXPECT_TRUE(ReadStandInUsers({{"users.other.ldap.server", "x"}}).ok());
}

}  // namespace
}  // namespace partforge
