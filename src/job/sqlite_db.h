#pragma once

#include <atomic>
#include <filesystem>
#include <memory>

#include "job/sql_db.h"

namespace partforge {

struct SqliteOptions {
  std::filesystem::path path;
  enum class IfAbsent : uint8_t { kCreate, kRefuse } if_absent = IfAbsent::kCreate;
  int64_t busy_timeout_ms = 10'000;  // how long a writer waits for another process
  size_t readers_max = 4;
  // Added to pf_now(); several handles may share it. Only tests move it.
  std::shared_ptr<std::atomic<int64_t>> clock_offset_ms = std::make_shared<std::atomic<int64_t>>(0);
};

// The state store in one file: WAL, synchronous=FULL, one writer and a few readers a process.
// pf_now() is the clock of the Context in use. Thread-safe.
class SqliteDb final : public SqlDb {
 public:
  // Makes the folder and the file when they are absent and that is allowed; else kNotFound.
  static Result<std::unique_ptr<SqliteDb>> Open(const Context& ctx, SqliteOptions options);
  struct State;
  explicit SqliteDb(std::unique_ptr<State> state);  // Open is the way in
  ~SqliteDb() override;

  SqlDialect dialect() const override { return SqlDialect::kSqlite; }
  std::string Describe() const override;
  Status Write(const Context& ctx, const SqlBody& body) override;
  Status Read(const Context& ctx, const SqlBody& body) override;
  Result<SqlRows> RunAlone(const Context& ctx, const SqlStatement& statement,
                           SqlArgs args) override;
  void ShiftClockMs(int64_t ms) override;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace partforge
