#pragma once

#include <optional>
#include <string>

#include "testing/test_world.h"

namespace partforge::testing {

// A real PostgreSQL for one test program: the one of PARTFORGE_TEST_PG, else one started by
// scripts/services/postgres.sh and stopped with the program. Thread-safe after Start.
class PostgresServer {
 public:
  // Nothing when no server can be had on this machine; the reason is printed.
  static std::optional<PostgresServer>& Shared();
  PostgresServer(std::string url, std::string folder)
      : url_(std::move(url)), folder_(std::move(folder)) {}
  PostgresServer(PostgresServer&& other) noexcept
      : url_(std::move(other.url_)), folder_(std::exchange(other.folder_, "")) {}
  PostgresServer& operator=(PostgresServer&&) = delete;
  ~PostgresServer();

  const std::string& url() const { return url_; }

 private:
  std::string url_;
  std::string folder_;  // of the script; empty when the server is not ours
};

// A schema name that no other test uses.
std::string NewSchemaName();

}  // namespace partforge::testing
