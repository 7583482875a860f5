#include "testing/postgres_server.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace partforge::testing {
namespace {

std::string Script() {
  const char* root = std::getenv("PARTFORGE_SOURCE_DIR");
  return (std::filesystem::path(root == nullptr ? "." : root) / "scripts/services/postgres.sh")
      .string();
}

std::optional<PostgresServer> StartServer() {
  if (const char* url = std::getenv("PARTFORGE_TEST_PG"); url != nullptr)
    return PostgresServer(url, "");
  std::string folder = (std::filesystem::temp_directory_path() / "pf-pg-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return std::nullopt;
  if (std::system(fmt::format("'{}' start '{}' >/dev/null", Script(), folder).c_str()) != 0) {
    std::cerr << "no PostgreSQL can be started here: " << Script() << "\n";
    return std::nullopt;
  }
  std::ifstream settings(std::filesystem::path(folder) / "env");
  constexpr std::string_view kKey = "PARTFORGE_TEST_PG=";
  for (std::string line; std::getline(settings, line);) {
    if (line.starts_with(kKey)) return PostgresServer(line.substr(kKey.size()), folder);
  }
  return std::nullopt;
}

}  // namespace

std::optional<PostgresServer>& PostgresServer::Shared() {
  static std::optional<PostgresServer> server = StartServer();
  return server;
}

PostgresServer::~PostgresServer() {
  if (folder_.empty()) return;
  if (std::system(fmt::format("'{}' stop '{}'", Script(), folder_).c_str()) != 0) {
    std::cerr << "PostgreSQL did not stop: " << folder_ << "\n";
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string NewSchemaName() {
  SystemRandom random;
  return "pf_" + RandomHex(random, 8);
}

}  // namespace partforge::testing
