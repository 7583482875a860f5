#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "job/sql_db.h"

namespace partforge {

struct PostgresOptions {
  std::string url;  // postgres://… or postgresql://…; what it leaves out comes from PG* variables,
                    // ~/.pgpass
  std::string schema = "partforge";  // [a-z_][a-z0-9_]*, at most 63 bytes
  size_t connections_max = 8;
  // Added to pf_now(); several handles may share it. Only tests move it.
  std::shared_ptr<std::atomic<int64_t>> clock_offset_ms = std::make_shared<std::atomic<int64_t>>(0);
};

// The state store in one PostgreSQL schema, through libpq: prepared statements, READ COMMITTED, a
// small pool of connections. pf_now() is the server's clock. Thread-safe.
class PostgresDb final : public SqlDb {
 public:
  struct State;
  // Connects once to see that it can: kInvalidArgument on a bad URL, schema name or credentials,
  // kUnavailable when no server answers. The schema itself may be absent.
  static Result<std::unique_ptr<PostgresDb>> Open(const Context& ctx, PostgresOptions options);
  explicit PostgresDb(std::unique_ptr<State> state);  // Open is the way in
  ~PostgresDb() override;

  SqlDialect dialect() const override { return SqlDialect::kPostgres; }
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
