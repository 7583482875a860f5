#include "engine/engine_arguments.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "testing/test_world.h"

namespace partforge {
namespace {

Result<EngineServerOptions> Parse(std::vector<std::string> words) {
  return ParseEngineArguments(words);
}

void Write(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(EngineArguments, OurOwnForm) {
  const auto options =
      Parse({"--path", "/d", "-port=0", "--log-level=debug", "--", "--background_pool_size=2",
             "--merge_tree.min_bytes_for_wide_part", "1"});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->data_path, "/d");
  EXPECT_EQ(options->host, "127.0.0.1");
  EXPECT_EQ(options->port, 0);
  EXPECT_FALSE(options->allows_external_reads);
  EXPECT_EQ(options->config,
            (std::map<std::string, std::string>{{"background_pool_size", "2"},
                                                {"merge_tree.min_bytes_for_wide_part", "1"}}));
}

TEST(EngineArguments, TheFormOfAClickHouseServer) {
  const testing::TempDir dir;
  Write(dir / "config.xml",
        "<clickhouse><http_port>8123</http_port><listen_host>::1</listen_host>"
        "<listen_host>127.0.0.1</listen_host></clickhouse>");
  Write(dir / "config.d/a.xml", "<clickhouse><http_port>9000</http_port></clickhouse>");
  const std::vector<std::string> words = {
      "--config-file=" + (dir / "config.xml").string(),
      "--log-file=/l",
      "--errorlog-file=/e",
      "--pid-file=/p",
      "--",
      "--path=/data/",
      "--tmp_path=/data/",
      "--user_directories.local_directory.path=/data/",
      "--background_merges_mutations_scheduling_policy=round_robin",
      "--prometheus.port=9363",
      "--prometheus.endpoint=/metrics"};
  for (const bool has_word : {false, true}) {
    std::vector<std::string> line = words;
    if (has_word) line.insert(line.begin(), "server");
    const auto options = Parse(line);
    ASSERT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_EQ(options->port, 9000);
    EXPECT_EQ(options->host, "127.0.0.1");
    EXPECT_EQ(options->data_path, "/data/");
    EXPECT_EQ(options->pid_file, "/p");
    EXPECT_EQ(options->log_file, "/l");
    EXPECT_EQ(options->error_log_file, "/e");
    EXPECT_TRUE(options->allows_external_reads);
    EXPECT_EQ(options->config.count("tmp_path"), 1U);
    EXPECT_EQ(options->config.count("prometheus.port"), 0U);
  }
}

TEST(EngineArguments, WhatIsNotUnderstoodIsRefusedWithItsNumber) {
  const auto number = [](const Result<EngineServerOptions>& options) {
    return options.ok() ? 0 : options.status().explanation().pf_number;
  };
  EXPECT_EQ(number(Parse({})), 1006);
  EXPECT_EQ(number(Parse({"--path"})), 1004);
  EXPECT_EQ(number(Parse({"--path=/d", "--pth=/d"})), 1003);
  EXPECT_EQ(number(Parse({"--path=/d", "--port=70000"})), 1005);
  EXPECT_EQ(number(Parse({"--path=/d", "client"})), 1007);
}

TEST(EngineArguments, AMissingOrMalformedConfigurationIsSaid) {
  const testing::TempDir dir;
  EXPECT_EQ(Parse({"--path=/d", "--config-file=" + (dir / "none.xml").string()}).status().code(),
            Code::kNotFound);
  Write(dir / "bad.xml", "<clickhouse><a></clickhouse>");
  EXPECT_EQ(Parse({"--path=/d", "--config-file=" + (dir / "bad.xml").string()}).status().code(),
            Code::kCorruption);
}

TEST(FindEngineLibrary, TheFlagIsNotReplacedByAnotherPlace) {
  const testing::TempDir dir;
  Write(dir / "deps/libchdb.so", "x");
  Write(dir / "lib/libchdb.so", "x");
  const std::filesystem::path self = dir / "bin/partforge";
  const auto beside =
      FindEngineLibrary({.flag = {}, .environment = {}, .self = self, .deps = dir / "deps"});
  ASSERT_TRUE(beside.ok());
  EXPECT_TRUE(std::filesystem::equivalent(*beside, dir / "lib/libchdb.so"));
  const auto missing =
      FindEngineLibrary({.flag = dir / "no.so", .environment = {}, .self = self, .deps = {}});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().explanation().pf_number, 7010);
}

}  // namespace
}  // namespace partforge
