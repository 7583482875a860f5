#include "job/postgres_connection.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <array>

namespace partforge {
namespace {

// Type numbers of PostgreSQL (pg_type.dat); they never change.
constexpr Oid kInt8 = 20;
constexpr Oid kText = 25;
constexpr Oid kFloat8 = 701;

Oid TypeOf(const SqlArg& arg) {
  if (std::holds_alternative<int64_t>(arg.value)) return kInt8;
  if (std::holds_alternative<double>(arg.value)) return kFloat8;
  return kText;
}

std::string TextOf(const SqlArg& arg) {
  if (const auto* number = std::get_if<int64_t>(&arg.value)) return fmt::format("{}", *number);
  if (const auto* real = std::get_if<double>(&arg.value)) return fmt::format("{}", *real);
  return std::string(std::get<std::string_view>(arg.value));
}

const SqlArg& ArgNamed(const SqlStatement& statement, SqlArgs args, std::string_view name) {
  const auto* const arg = std::find_if(
      args.begin(), args.end(), [name](const SqlArg& candidate) { return candidate.name == name; });
  PF_CHECK(arg != args.end(), fmt::format("statement {} without :{}", statement.name, name));
  return *arg;
}

bool IsOneOf(std::string_view state, std::initializer_list<std::string_view> states) {
  return std::find(states.begin(), states.end(), state) != states.end();
}

// SQLSTATE → what the caller does next (PostgreSQL, appendix A).
Code CodeOfState(std::string_view state) {
  if (state.starts_with("08") || state.starts_with("57P")) return Code::kUnavailable;
  if (state == "53300" || state == "25006" || state == "57014") return Code::kUnavailable;
  if (IsOneOf(state, {"40001", "40P01", "55P03"})) return Code::kUnavailable;
  if (state.starts_with("53") || state.starts_with("54")) return Code::kExhausted;
  if (state == "23505") return Code::kAlreadyExists;
  if (state.starts_with("28") || state == "3D000" || state == "42501")
    return Code::kInvalidArgument;
  if (state.starts_with("XX001") || state.starts_with("XX002")) return Code::kCorruption;
  return Code::kInternal;
}

std::string Trimmed(const char* message) {
  std::string text = message == nullptr ? "" : message;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

void PostgresConnection::ResultCloser::operator()(pg_result* result) const {
  PQclear(result);
}

PostgresConnection::PostgresConnection() = default;
PostgresConnection::~PostgresConnection() {
  PQfinish(connection_);
}

Status PostgresConnection::CheckUrl(const std::string& url) {
  char* error = nullptr;
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &error);
  // libpq's own text quotes the piece that it does not like, which may be of the password.
  PQfreemem(error);
  std::string why = options == nullptr ? "the PostgreSQL URL does not parse" : "";
  for (const PQconninfoOption* option = options; option != nullptr && option->keyword != nullptr;
       ++option) {
    if (std::string_view(option->keyword) != "port" || option->val == nullptr) continue;
    if (std::string_view(option->val).find_first_not_of("0123456789,") != std::string_view::npos)
      why = "the port of the PostgreSQL URL is not a number";
  }
  PQconninfoFree(options);
  if (why.empty()) return {};
  return Status(Code::kInvalidArgument, std::move(why))
      .Explain(1005, "--state-url",
               "--state-url=postgres://user@host:5432/database; in a user or password write / as "
               "%2F, @ as %40, % as %25");
}

Result<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(const std::string& url,
                                                                     const std::string& schema) {
  auto opened = std::make_unique<PostgresConnection>();
  // Defaults first: what the URL says comes later and wins. A dead server is noticed within half a
  // minute.
  const std::array<const char*, 7> keys = {"fallback_application_name",
                                           "connect_timeout",
                                           "keepalives_idle",
                                           "keepalives_interval",
                                           "tcp_user_timeout",
                                           "dbname",
                                           nullptr};
  const std::array<const char*, 7> values = {"partforge", "10",        "15",   "5",
                                             "30000",     url.c_str(), nullptr};
  opened->connection_ = PQconnectdbParams(keys.data(), values.data(), /*expand_dbname=*/1);
  if (PQstatus(opened->connection_) != CONNECTION_OK) {
    const std::string text = Trimmed(PQerrorMessage(opened->connection_));
    // libpq gives no SQLSTATE for a refused connection; these two texts are the server's own.
    const bool is_setting = text.find("authentication failed") != std::string::npos ||
                            text.find("does not exist") != std::string::npos ||
                            text.find("no password supplied") != std::string::npos;
    return Status(is_setting ? Code::kInvalidArgument : Code::kUnavailable,
                  fmt::format("connect to the state store: {}", text))
        .Explain(6001, "the PostgreSQL server of --state-url",
                 is_setting ? "correct user, database or password of --state-url"
                            : "start it, or correct --state-url; then run the same command again");
  }
  PQsetNoticeProcessor(
      opened->connection_, [](void*, const char*) {}, nullptr);
  // A paused process must not hold row locks for ever, nor wait for them.
  PF_TRY(opened->RunScript(
      fmt::format("SET search_path TO \"{}\"; SET client_min_messages TO warning; "
                  "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; "
                  "SET lock_timeout TO '10s'; SET idle_in_transaction_session_timeout TO '60s'",
                  schema)));
  return opened;
}

Status PostgresConnection::Failure(const pg_result* result, std::string_view doing) {
  const char* found = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string_view state = found == nullptr ? std::string_view() : std::string_view(found);
  // 57P: the server goes away and closes the connection after this answer.
  if (PQstatus(connection_) == CONNECTION_BAD || state.starts_with("57P") ||
      state.starts_with("08")) {
    is_broken_ = true;
  }
  std::string text =
      Trimmed(result == nullptr ? PQerrorMessage(connection_) : PQresultErrorMessage(result));
  // A statement that never reached the server has no SQLSTATE.
  const Code code = state.empty() || is_broken_ ? Code::kUnavailable : CodeOfState(state);
  bool is_serial = false;
  if (code == Code::kAlreadyExists) {
    const char* index = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    is_serial = index != nullptr && std::string_view(index).ends_with("_serial");
  }
  is_worth_retrying_ |= is_serial || IsOneOf(state, {"40001", "40P01", "55P03"});
  Status status(code,
                fmt::format("{}: {} (PostgreSQL {})", doing, text, state.empty() ? "-" : state));
  if (code == Code::kInternal || code == Code::kAlreadyExists) return status;
  return std::move(status).Explain(6001, "the PostgreSQL server of --state-url",
                                   "run the same command again when it answers");
}

Result<const PostgresConnection::Prepared*> PostgresConnection::Prepare(
    const SqlStatement& statement, SqlArgs args) {
  const auto known = prepared_.find(statement.name);
  if (known != prepared_.end()) return static_cast<const Prepared*>(&known->second);
  PositionalSql positional = ToPositional(ExpandMacros(statement.text, SqlDialect::kPostgres));
  std::vector<Oid> types;
  for (const std::string& name : positional.names) {
    types.push_back(TypeOf(ArgNamed(statement, args, name)));
  }
  Prepared prepared{.name = fmt::format("pf_{}", statement.name),
                    .parameters = std::move(positional.names)};
  const PgResult result(PQprepare(connection_, prepared.name.c_str(), positional.sql.c_str(),
                                  static_cast<int>(types.size()), types.data()));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
    return Failure(result.get(), fmt::format("prepare {}", statement.name));
  }
  return static_cast<const Prepared*>(
      &prepared_.emplace(statement.name, std::move(prepared)).first->second);
}

Result<SqlRows> PostgresConnection::Run(const SqlStatement& statement, SqlArgs args) {
  PF_ASSIGN(const Prepared* const prepared, Prepare(statement, args));
  std::vector<std::string> texts;
  texts.reserve(prepared->parameters.size());
  for (const std::string& name : prepared->parameters) {
    texts.push_back(TextOf(ArgNamed(statement, args, name)));
  }
  std::vector<const char*> values;
  values.reserve(texts.size());
  for (const std::string& text : texts) values.push_back(text.c_str());
  const PgResult result(PQexecPrepared(connection_, prepared->name.c_str(),
                                       static_cast<int>(values.size()), values.data(), nullptr,
                                       nullptr, /*resultFormat=*/0));
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    return Failure(result.get(), fmt::format("run {}", statement.name));
  }
  SqlRows rows;
  const int columns = PQnfields(result.get());
  rows.SetColumns(static_cast<size_t>(columns));
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    for (int column = 0; column < columns; ++column) {
      rows.AppendCell(
          std::string_view(PQgetvalue(result.get(), row, column),
                           static_cast<size_t>(PQgetlength(result.get(), row, column))));
    }
  }
  const std::string changed = PQcmdTuples(result.get());  // "" for statements that change nothing
  rows.SetChanged(changed.empty() ? 0 : std::atoll(changed.c_str()));
  return rows;
}

Status PostgresConnection::RunScript(std::string_view sql) {
  const std::string text(sql);
  const PgResult result(PQexec(connection_, text.c_str()));
  const ExecStatusType status = PQresultStatus(result.get());
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return {};
  return Failure(result.get(), "run a script on the state store");
}

Status PostgresConnection::SetClockOffset(int64_t offset_ms) {
  if (offset_ms == offset_ms_) return {};
  PF_TRY(RunScript(fmt::format("SET partforge.clock_offset_ms = '{}'", offset_ms)));
  offset_ms_ = offset_ms;
  return {};
}

Status PostgresConnection::Begin(std::string_view begin) {
  is_worth_retrying_ = false;
  return RunScript(begin);
}

SqlTry PostgresConnection::End(Status done) {
  if (!done.ok()) {
    // On a broken connection the server has rolled back by itself.
    const bool is_worth = is_worth_retrying_;
    if (!is_broken_ && !RunScript("ROLLBACK").ok()) is_broken_ = true;
    return {std::move(done), is_worth};
  }
  const PgResult result(PQexec(connection_, "COMMIT"));
  if (PQresultStatus(result.get()) == PGRES_COMMAND_OK) {
    if (std::string_view(PQcmdStatus(result.get())) == "COMMIT") return {};
    // The server answers ROLLBACK when a statement had failed that the body chose to overlook.
    return {Status(Code::kInternal, "commit: the transaction had failed before"), false};
  }
  Status failed = Failure(result.get(), "commit");
  if (is_worth_retrying_) return {std::move(failed), true};  // known to be rolled back
  const bool is_unknown = is_broken_ || failed.code() == Code::kUnavailable;
  if (is_unknown) {
    is_broken_ = true;
    return {std::move(failed).As(Code::kUnknownOutcome), false};
  }
  return {std::move(failed), false};
}

Result<SqlRows> PostgresConnection::RunAlone(const SqlStatement& statement, SqlArgs args) {
  is_worth_retrying_ = false;
  PF_TRY(Prepare(statement, args));  // a failure here is before any effect
  Result<SqlRows> rows = Run(statement, args);
  if (!rows.ok() && is_broken_) return std::move(rows).status().As(Code::kUnknownOutcome);
  return rows;
}

std::string PostgresConnection::place() const {
  const auto text = [](const char* value) { return value == nullptr ? "" : value; };
  return fmt::format("{}:{}/{}", text(PQhost(connection_)), text(PQport(connection_)),
                     text(PQdb(connection_)));
}

}  // namespace partforge
