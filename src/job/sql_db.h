#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/context.h"
#include "job/sql_text.h"

namespace partforge {

// One named parameter of a statement. Refers to the text it is given; lives as long as the call.
struct SqlArg {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;

  SqlArg(std::string_view n, std::string_view v) : name(n), value(v) {}
  SqlArg(std::string_view n, const std::string& v) : name(n), value(std::string_view(v)) {}
  SqlArg(std::string_view n, const char* v) : name(n), value(std::string_view(v)) {}
  SqlArg(std::string_view n, double v) : name(n), value(v) {}
  template <std::integral I>
  SqlArg(std::string_view n, I v) : name(n), value(static_cast<int64_t>(v)) {}
};
using SqlArgs = std::initializer_list<SqlArg>;

// One row of an answer: refers to its SqlRows. Columns are counted from 0; our schema has no NULL.
class SqlRow {
 public:
  SqlRow(const std::string& bytes, const size_t* ends, size_t columns)
      : bytes_(bytes), ends_(ends), columns_(columns) {}
  size_t columns() const { return columns_; }
  std::string_view Text(size_t column) const;
  std::string String(size_t column) const { return std::string(Text(column)); }
  int64_t Int(
      size_t column) const;  // 0 when the text is no number, which a typed column never holds
  uint64_t Uint(size_t column) const { return static_cast<uint64_t>(Int(column)); }
  double Real(size_t column) const;

 private:
  const std::string& bytes_;
  const size_t* ends_;  // ends_[-1] is where the first column begins
  size_t columns_;
};

// The rows a statement returned, and how many it changed. Movable, immutable once filled.
class SqlRows {
 public:
  SqlRows() { ends_.push_back(0); }
  size_t size() const { return columns_ == 0 ? 0 : (ends_.size() - 1) / columns_; }
  bool empty() const { return size() == 0; }
  int64_t changed() const { return changed_; }
  SqlRow row(size_t index) const {
    return SqlRow(bytes_, ends_.data() + 1 + index * columns_, columns_);
  }

  // For drivers: column by column, row by row.
  void SetColumns(size_t columns) { columns_ = columns; }
  void SetChanged(int64_t changed) { changed_ = changed; }
  void AppendCell(std::string_view text) {
    bytes_.append(text);
    ends_.push_back(bytes_.size());
  }

 private:
  size_t columns_ = 0;
  int64_t changed_ = 0;
  std::string bytes_;
  std::vector<size_t> ends_;
};

// One connection inside a transaction. One thread at a time.
class SqlSession {
 public:
  virtual ~SqlSession() = default;
  virtual SqlDialect dialect() const = 0;
  // kAlreadyExists when a unique index refuses; kUnavailable when the database does not answer.
  virtual Result<SqlRows> Run(const SqlStatement& statement, SqlArgs args) = 0;
  // Several statements without parameters or answers (migrations).
  virtual Status RunScript(std::string_view sql) = 0;
};

// What is done inside a transaction. A failure rolls back. It may run again, whole, up to
// kTransactionTriesMax times, so it sets its results anew each time.
using SqlBody = std::function<Status(SqlSession&)>;
constexpr int kTransactionTriesMax = 10;

// A database that holds the state schema: two thin drivers (specs state-schema §1). Thread-safe.
class SqlDb {
 public:
  virtual ~SqlDb() = default;
  virtual SqlDialect dialect() const = 0;
  // For messages: "sqlite /path" or "postgres host:port/database, schema s". No secrets.
  virtual std::string Describe() const = 0;
  // BEGIN IMMEDIATE, or READ COMMITTED. Serialization failures, deadlocks, lock timeouts and
  // collisions of drawn serials run `body` again. kUnknownOutcome when the answer to COMMIT was
  // lost.
  virtual Status Write(const Context& ctx, const SqlBody& body) = 0;
  // One snapshot; writes fail or are undone.
  virtual Status Read(const Context& ctx, const SqlBody& body) = 0;
  // One statement that is a transaction of its own: a single round trip on PostgreSQL.
  virtual Result<SqlRows> RunAlone(const Context& ctx, const SqlStatement& statement,
                                   SqlArgs args) = 0;
  // Moves pf_now() for every session of this handle (tests).
  virtual void ShiftClockMs(int64_t ms) = 0;
};

// What came of one try of a transaction.
struct SqlTry {
  Status status;
  bool is_worth_retrying = false;  // nothing was written, and another try may succeed
};
// Tries up to kTransactionTriesMax times with jittered pauses of at most kRetryPauseMsMax.
Status RunWithRetries(const Context& ctx, const std::function<SqlTry()>& once);
constexpr int64_t kRetryPauseMsMax = 100;

// A body with a result.
template <class T>
Result<T> WriteFor(const Context& ctx, SqlDb& db,
                   const std::function<Result<T>(SqlSession&)>& body) {
  Result<T> result = Status(Code::kInternal, "a transaction that did not run");
  PF_TRY(db.Write(ctx, [&](SqlSession& session) {
    result = body(session);
    return result.ok() ? Status() : result.status();
  }));
  return result;
}
template <class T>
Result<T> ReadFor(const Context& ctx, SqlDb& db,
                  const std::function<Result<T>(SqlSession&)>& body) {
  Result<T> result = Status(Code::kInternal, "a transaction that did not run");
  PF_TRY(db.Read(ctx, [&](SqlSession& session) {
    result = body(session);
    return result.ok() ? Status() : result.status();
  }));
  return result;
}

}  // namespace partforge
