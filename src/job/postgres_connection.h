#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "job/sql_db.h"

struct pg_conn;
struct pg_result;

namespace partforge {

// One libpq connection with its prepared statements, search_path set to one schema. One thread at a
// time.
class PostgresConnection final : public SqlSession {
 public:
  // `schema` is a checked name. kInvalidArgument on bad credentials or options, kUnavailable
  // without an answer.
  static Result<std::unique_ptr<PostgresConnection>> Open(const std::string& url,
                                                          const std::string& schema);
  // kInvalidArgument (PF1005) when `url` does not parse; nothing of it is in the message.
  static Status CheckUrl(const std::string& url);
  PostgresConnection();
  ~PostgresConnection() override;
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  SqlDialect dialect() const override { return SqlDialect::kPostgres; }
  Result<SqlRows> Run(const SqlStatement& statement, SqlArgs args) override;
  Status RunScript(std::string_view sql) override;

  // Gives pf_now() this offset, when it has another one.
  Status SetClockOffset(int64_t offset_ms);
  // Begins a transaction. When the connection turns out to be dead, `is_broken` is true and nothing
  // has happened.
  Status Begin(std::string_view begin);
  // Ends the transaction begun: COMMIT when `done` is OK, else ROLLBACK.
  SqlTry End(Status done);
  // One statement outside a transaction: a lost answer is kUnknownOutcome.
  Result<SqlRows> RunAlone(const SqlStatement& statement, SqlArgs args);

  bool is_broken() const { return is_broken_; }
  // The last failure was one that another try of the whole transaction may not meet.
  bool is_worth_retrying() const { return is_worth_retrying_; }
  void ClearFailure() { is_worth_retrying_ = false; }
  // "host:port/database" as libpq resolved it.
  std::string place() const;

 private:
  struct Prepared {
    std::string name;
    std::vector<std::string> parameters;
  };
  struct ResultCloser {
    void operator()(pg_result* result) const;
  };
  using PgResult = std::unique_ptr<pg_result, ResultCloser>;

  Result<const Prepared*> Prepare(const SqlStatement& statement, SqlArgs args);
  // Converts a failed answer and notes what it means to the connection and the transaction.
  Status Failure(const pg_result* result, std::string_view doing);

  pg_conn* connection_ = nullptr;
  bool is_broken_ = false;
  bool is_worth_retrying_ = false;
  int64_t offset_ms_ = 0;
  std::map<std::string_view, Prepared> prepared_;  // by the name of the statement, a constant
};

}  // namespace partforge
