#include "job/sqlite_db.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <vector>

#include "base/files.h"
#include "base/http_client.h"
#include "job/connection_pool.h"

namespace partforge {
namespace {

constexpr int kWalTriesMax = 600;
constexpr int64_t kWalPauseMs = 20;
constexpr std::string_view kFreeSpace =
    "free space on the disk of the file, then run the same command again";

Status FromSqlite(sqlite3* db, int code, std::string_view doing) {
  const std::string text = db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db);
  Code kind = Code::kInternal;
  std::string remedy = "see to the rights of the file and its folder";
  switch (code & 0xff) {
    case SQLITE_ERROR:
      if (!text.starts_with("no such table") && !text.starts_with("no such column")) break;
      kind = Code::kCorruption;
      remedy = "the file is damaged or of another program: restore it, or name another one";
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      kind = Code::kUnavailable;
      break;
    case SQLITE_FULL:
      kind = Code::kExhausted;
      remedy = kFreeSpace;
      break;
    case SQLITE_NOMEM:
      kind = Code::kExhausted;
      remedy = "free memory, then run the same command again";
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      kind = Code::kCorruption;
      remedy = "the file is damaged or of another program: restore it, or name another one";
      break;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      kind = Code::kInvalidArgument;
      break;
    case SQLITE_IOERR: {
      const int cause = db == nullptr ? 0 : sqlite3_system_errno(db);
      kind = cause == ENOSPC || cause == EDQUOT ? Code::kExhausted : Code::kUnavailable;
      remedy = kFreeSpace;
      break;
    }
    case SQLITE_CONSTRAINT:
      if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY)
        kind = Code::kAlreadyExists;
      break;
    default:
      break;
  }
  Status status(kind, fmt::format("{}: {} (SQLite {})", doing, text, code));
  if (kind == Code::kUnavailable) {
    return std::move(status).Explain(6001, "the SQLite file of --state-url",
                                     "run the same command again when its disk and file answer");
  }
  if (kind == Code::kInternal || kind == Code::kAlreadyExists) return status;
  return std::move(status).Explain(6008, "the SQLite file of --state-url", std::move(remedy));
}

// A serial drawn twice is no conflict: another draw succeeds.
bool IsSerialCollision(const Status& status) {
  return status.code() == Code::kAlreadyExists &&
         status.message().find(".serial") != std::string::npos;
}

bool HasLog(const std::string& path) {
  std::error_code error;
  const auto size_bytes = std::filesystem::file_size(path + "-wal", error);
  return error ? error != std::errc::no_such_file_or_directory : size_bytes > 0;
}

// https://www.sqlite.org/uri.html; %2F in the path is a slash.
std::string ImmutableUri(const std::string& path) {
  return "file:" + UrlEncode(path) + "?immutable=1";
}

class Connection final : public SqlSession {
 public:
  static Result<std::unique_ptr<Connection>> Open(const Context& ctx, const SqliteOptions& options,
                                                  const std::atomic<int64_t>& offset_ms) {
    const bool may_create = options.if_absent == SqliteOptions::IfAbsent::kCreate;
    const std::string path = options.path.string();
    auto opened = OpenAs(ctx, options, offset_ms, path,
                         SQLITE_OPEN_READWRITE | (may_create ? SQLITE_OPEN_CREATE : 0), Wal::kUse);
    // A log beside the file takes rights in its folder. Who only looks, and has none there, reads a
    // file without a log as it stands.
    if (opened.ok() || may_create || opened.status().code() != Code::kInvalidArgument ||
        HasLog(path))
      return opened;
    auto as_it_stands = OpenAs(ctx, options, offset_ms, ImmutableUri(path),
                               SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, Wal::kNone);
    return as_it_stands.ok() ? std::move(as_it_stands) : std::move(opened);
  }

 private:
  enum class Wal : uint8_t { kUse, kNone };

  static Result<std::unique_ptr<Connection>> OpenAs(const Context& ctx,
                                                    const SqliteOptions& options,
                                                    const std::atomic<int64_t>& offset_ms,
                                                    const std::string& name, int flags, Wal wal) {
    auto connection = std::make_unique<Connection>(offset_ms);
    const std::string path = options.path.string();
    if (const int code =
            sqlite3_open_v2(name.c_str(), &connection->db_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
        code != SQLITE_OK) {
      return FromSqlite(connection->db_, code, fmt::format("open state store {}", path));
    }
    sqlite3_extended_result_codes(connection->db_, 1);
    sqlite3_busy_timeout(connection->db_, static_cast<int>(options.busy_timeout_ms));
    if (const int code =
            sqlite3_create_function_v2(connection->db_, "pf_now", 0, SQLITE_UTF8, connection.get(),
                                       &Connection::Now, nullptr, nullptr, nullptr);
        code != SQLITE_OK) {
      return FromSqlite(connection->db_, code, "register pf_now");
    }
    PF_TRY(connection->RunScript("PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;",
                                 fmt::format("open state store {}", path)));
    if (wal == Wal::kUse) PF_TRY(connection->UseWal(ctx));
    return connection;
  }

 public:
  explicit Connection(const std::atomic<int64_t>& offset_ms) : offset_ms_(offset_ms) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override {
    for (const auto& [name, prepared] : prepared_) sqlite3_finalize(prepared.statement);
    sqlite3_close_v2(db_);
  }

  SqlDialect dialect() const override { return SqlDialect::kSqlite; }

  Result<SqlRows> Run(const SqlStatement& statement, SqlArgs args) override {
    PF_ASSIGN(const Prepared* const prepared, Prepare(statement));
    Result<SqlRows> rows = Step(statement, *prepared, args);
    sqlite3_reset(prepared->statement);
    sqlite3_clear_bindings(prepared->statement);
    if (!rows.ok()) has_serial_collision_ |= IsSerialCollision(rows.status());
    return rows;
  }

  Status RunScript(std::string_view sql) override {
    return RunScript(sql, "work on the state store");
  }

  Status RunScript(std::string_view sql, std::string_view doing) {
    const std::string text(sql);
    const int code = sqlite3_exec(db_, text.c_str(), nullptr, nullptr, nullptr);
    return code == SQLITE_OK ? Status() : FromSqlite(db_, code, doing);
  }

  // One try of a transaction; pf_now() reads `clock` as long as it runs.
  SqlTry Try(Clock& clock, std::string_view begin, const SqlBody& body) {
    clock_ = &clock;
    SqlTry outcome = TryOnce(begin, body);
    clock_ = nullptr;
    return outcome;
  }

 private:
  // The switch to WAL does not wait for others as other statements do: the busy handler is not
  // asked.
  Status UseWal(const Context& ctx) {
    // Who may only read the file can look at it as long as nothing has to be switched.
    const Result<SqlRows> mode = Run({"journal_mode", "PRAGMA journal_mode"}, {});
    if (mode.ok() && mode->size() == 1 && mode->row(0).Text(0) == "wal") return {};
    Status outcome;
    for (int tries = 0; tries < kWalTriesMax; ++tries) {
      outcome = RunScript("PRAGMA journal_mode=WAL", "make the state store ready for writing");
      if (outcome.ok() || outcome.code() != Code::kUnavailable) return outcome;
      ctx.clock.SleepMs(kWalPauseMs, ctx.stop);
    }
    return outcome;
  }

  SqlTry TryOnce(std::string_view begin, const SqlBody& body) {
    has_serial_collision_ = false;
    if (Status begun = RunScript(begin); !begun.ok()) return {std::move(begun), false};
    Status done = body(*this);
    if (done.ok()) {
      done = RunScript("COMMIT");
      if (done.ok()) return {};
      // A failed COMMIT leaves the transaction open, except where the disk gave no answer.
      // A full disk is an answer: the transaction is rolled back.
      if (sqlite3_get_autocommit(db_) != 0 && done.code() != Code::kExhausted)
        return {std::move(done).As(Code::kUnknownOutcome), false};
    }
    if (sqlite3_get_autocommit(db_) == 0) {
      if (Status undone = RunScript("ROLLBACK"); !undone.ok()) return {std::move(undone), false};
    }
    return {std::move(done), has_serial_collision_};
  }

  struct Prepared {
    sqlite3_stmt* statement = nullptr;
    std::vector<std::string> names;  // of the parameters, without the colon
  };

  static void Now(sqlite3_context* context, int, sqlite3_value**) {
    const auto* self = static_cast<const Connection*>(sqlite3_user_data(context));
    const int64_t now_ms = self->clock_ == nullptr ? 0 : self->clock_->NowMs();
    sqlite3_result_int64(context, now_ms + self->offset_ms_.load());
  }

  Result<const Prepared*> Prepare(const SqlStatement& statement) {
    const auto known = prepared_.find(statement.name);
    if (known != prepared_.end()) return static_cast<const Prepared*>(&known->second);
    const std::string sql = ExpandMacros(statement.text, SqlDialect::kSqlite);
    Prepared prepared;
    const char* tail = nullptr;
    if (const int code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                            SQLITE_PREPARE_PERSISTENT, &prepared.statement, &tail);
        code != SQLITE_OK) {
      return FromSqlite(db_, code, fmt::format("prepare {}", statement.name));
    }
    for (int i = 1; i <= sqlite3_bind_parameter_count(prepared.statement); ++i) {
      prepared.names.emplace_back(sqlite3_bind_parameter_name(prepared.statement, i) + 1);
    }
    return static_cast<const Prepared*>(
        &prepared_.emplace(statement.name, std::move(prepared)).first->second);
  }

  void Bind(const SqlStatement& statement, const Prepared& prepared, SqlArgs args) {
    for (size_t i = 0; i < prepared.names.size(); ++i) {
      const auto* const arg = std::find_if(args.begin(), args.end(), [&](const SqlArg& candidate) {
        return candidate.name == prepared.names[i];
      });
      PF_CHECK(arg != args.end(),
               fmt::format("statement {} without :{}", statement.name, prepared.names[i]));
      const int position = static_cast<int>(i) + 1;
      if (const auto* number = std::get_if<int64_t>(&arg->value)) {
        sqlite3_bind_int64(prepared.statement, position, *number);
      } else if (const auto* real = std::get_if<double>(&arg->value)) {
        sqlite3_bind_double(prepared.statement, position, *real);
      } else {
        const std::string_view text = std::get<std::string_view>(arg->value);
        // The text outlives the step: it is the caller's argument. A null pointer would bind NULL.
        sqlite3_bind_text64(prepared.statement, position, text.data() == nullptr ? "" : text.data(),
                            text.size(), SQLITE_STATIC, SQLITE_UTF8);
      }
    }
  }

  Result<SqlRows> Step(const SqlStatement& statement, const Prepared& prepared, SqlArgs args) {
    Bind(statement, prepared, args);
    SqlRows rows;
    const int columns = sqlite3_column_count(prepared.statement);
    rows.SetColumns(static_cast<size_t>(columns));
    while (true) {
      const int code = sqlite3_step(prepared.statement);
      if (code == SQLITE_DONE) break;
      if (code != SQLITE_ROW) return FromSqlite(db_, code, fmt::format("run {}", statement.name));
      for (int i = 0; i < columns; ++i) {
        const auto* text =
            reinterpret_cast<const char*>(sqlite3_column_text(prepared.statement, i));
        const int size_bytes = sqlite3_column_bytes(prepared.statement, i);
        rows.AppendCell(text == nullptr ? std::string_view()
                                        : std::string_view(text, static_cast<size_t>(size_bytes)));
      }
    }
    // sqlite3_changes keeps its value over statements that only read.
    rows.SetChanged(sqlite3_stmt_readonly(prepared.statement) != 0 ? 0 : sqlite3_changes64(db_));
    return rows;
  }

  const std::atomic<int64_t>& offset_ms_;
  sqlite3* db_ = nullptr;
  Clock* clock_ = nullptr;
  bool has_serial_collision_ = false;
  std::map<std::string_view, Prepared> prepared_;  // by the name of the statement, a constant
};

}  // namespace

struct SqliteDb::State {
  explicit State(SqliteOptions given) : options(std::move(given)), readers(options.readers_max) {}

  Result<ConnectionPool<Connection>::Loan> Borrow(const Context& ctx,
                                                  ConnectionPool<Connection>& pool) {
    return pool.Borrow([&] { return Connection::Open(ctx, options, *options.clock_offset_ms); });
  }

  const SqliteOptions options;
  ConnectionPool<Connection> writer{1};  // waiting here is fair and cheap; the busy handler polls
  ConnectionPool<Connection> readers;
};

SqliteDb::SqliteDb(std::unique_ptr<State> state) : state_(std::move(state)) {}
SqliteDb::~SqliteDb() = default;

Result<std::unique_ptr<SqliteDb>> SqliteDb::Open(const Context& ctx, SqliteOptions options) {
  std::error_code error;
  const auto found = std::filesystem::status(options.path, error).type();
  if (found == std::filesystem::file_type::none)
    return Status(Code::kInvalidArgument, fmt::format("look at state store {}: {}",
                                                      options.path.string(), error.message()));
  const bool is_there = found != std::filesystem::file_type::not_found;
  if (!is_there && options.if_absent == SqliteOptions::IfAbsent::kRefuse) {
    return Status(Code::kNotFound, fmt::format("state store is absent: {}", options.path.string()));
  }
  if (!is_there && options.path.has_parent_path()) {
    const Status made = MakeDirectories(options.path.parent_path());
    if (!made.ok()) {
      return Status(Code::kInvalidArgument, fmt::format("make the folder of state store {}: {}",
                                                        options.path.string(), made.message()));
    }
  }
  // The SQL of jobs may hold secrets: for this user alone. SQLite gives its log the same mode.
  if (!is_there) {
    const Result<UniqueFd> made = OpenFile(options.path, O_RDWR | O_CREAT, 0600);
    if (!made.ok()) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("make state store {}: {}", options.path.string(), made.status().message()));
    }
  }
  auto db = std::make_unique<SqliteDb>(std::make_unique<State>(std::move(options)));
  PF_TRY(db->state_->Borrow(ctx, db->state_->writer));  // fails early when the file can't be opened
  return db;
}

std::string SqliteDb::Describe() const {
  return fmt::format("sqlite {}", state_->options.path.string());
}

Status SqliteDb::Write(const Context& ctx, const SqlBody& body) {
  PF_ASSIGN(const auto connection, state_->Borrow(ctx, state_->writer));
  PF_TRY(RunWithRetries(ctx, [&] { return connection->Try(ctx.clock, "BEGIN IMMEDIATE", body); }));
  PF_FAULT(ctx, "job.sqlite_committed");
  return {};
}

Status SqliteDb::Read(const Context& ctx, const SqlBody& body) {
  PF_ASSIGN(const auto connection, state_->Borrow(ctx, state_->readers));
  return RunWithRetries(ctx, [&] { return connection->Try(ctx.clock, "BEGIN", body); });
}

Result<SqlRows> SqliteDb::RunAlone(const Context& ctx, const SqlStatement& statement,
                                   SqlArgs args) {
  const auto run = [&](SqlSession& session) { return session.Run(statement, args); };
  const bool is_reading =
      statement.text.starts_with("SELECT") || statement.text.starts_with("\nSELECT");
  return is_reading ? ReadFor<SqlRows>(ctx, *this, run) : WriteFor<SqlRows>(ctx, *this, run);
}

void SqliteDb::ShiftClockMs(int64_t ms) {
  *state_->options.clock_offset_ms += ms;
}

}  // namespace partforge
