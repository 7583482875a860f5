#include "job/postgres_db.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "job/connection_pool.h"
#include "job/postgres_connection.h"

namespace partforge {
namespace {

constexpr size_t kSchemaNameBytesMax = 63;

Status CheckSchemaName(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  const bool is_fine = !name.empty() && name.size() <= kSchemaNameBytesMax && is_letter(name[0]) &&
                       std::all_of(name.begin(), name.end(),
                                   [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  if (is_fine) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("state schema is not a name of [a-z_][a-z0-9_]*: {}", name))
      .Explain(1005, "--state-schema", "--state-schema=partforge");
}

using Pool = ConnectionPool<PostgresConnection>;

}  // namespace

struct PostgresDb::State {
  explicit State(PostgresOptions given)
      : options(std::move(given)), pool(options.connections_max) {}

  Result<Pool::Loan> Borrow() {
    return pool.Borrow([this] { return PostgresConnection::Open(options.url, options.schema); });
  }

  // A connection with the right clock and, unless `begin` is empty, a transaction begun. A pooled
  // connection may have died unseen (the server restarted): then all idle ones are closed and a new
  // one is opened.
  Result<Pool::Loan> Start(std::string_view begin) {
    for (int tries = 0;; ++tries) {
      PF_ASSIGN(Pool::Loan loan, Borrow());
      Status started = loan->SetClockOffset(options.clock_offset_ms->load());
      if (started.ok() && !begin.empty()) started = loan->Begin(begin);
      if (started.ok()) return loan;
      const bool is_broken = loan->is_broken();
      loan.Discard();
      if (!is_broken || tries > 0) return started;
      pool.CloseIdle();
    }
  }

  SqlTry Try(std::string_view begin, const SqlBody& body) {
    Result<Pool::Loan> loan = Start(begin);
    if (!loan.ok()) return {loan.status(), false};
    SqlTry outcome = (*loan)->End(body(**loan));
    if ((*loan)->is_broken()) loan->Discard();
    return outcome;
  }

  const PostgresOptions options;
  Pool pool;
  std::string place;  // set by Open
};

PostgresDb::PostgresDb(std::unique_ptr<State> state) : state_(std::move(state)) {}
PostgresDb::~PostgresDb() = default;

Result<std::unique_ptr<PostgresDb>> PostgresDb::Open(const Context&, PostgresOptions options) {
  PF_TRY(CheckSchemaName(options.schema));
  PF_TRY(PostgresConnection::CheckUrl(options.url));
  auto db = std::make_unique<PostgresDb>(std::make_unique<State>(std::move(options)));
  PF_ASSIGN(const Pool::Loan loan, db->state_->Borrow());
  db->state_->place = loan->place();
  return db;
}

std::string PostgresDb::Describe() const {
  return fmt::format("postgres {}, schema {}", state_->place, state_->options.schema);
}

Status PostgresDb::Write(const Context& ctx, const SqlBody& body) {
  PF_TRY(RunWithRetries(ctx, [&] { return state_->Try("BEGIN", body); }));
  PF_FAULT(ctx, "job.postgres_committed");
  return {};
}

Status PostgresDb::Read(const Context& ctx, const SqlBody& body) {
  return RunWithRetries(
      ctx, [&] { return state_->Try("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", body); });
}

Result<SqlRows> PostgresDb::RunAlone(const Context& ctx, const SqlStatement& statement,
                                     SqlArgs args) {
  Result<SqlRows> rows = Status(Code::kInternal, "a statement that did not run");
  PF_TRY(RunWithRetries(ctx, [&]() -> SqlTry {
    Result<Pool::Loan> loan = state_->Start("");
    if (!loan.ok()) return {loan.status(), false};
    rows = (*loan)->RunAlone(statement, args);
    // A collision would only repeat itself: the arguments are the caller's.
    const bool is_worth =
        (*loan)->is_worth_retrying() && !rows.ok() && rows.status().code() != Code::kAlreadyExists;
    if ((*loan)->is_broken()) loan->Discard();
    return {rows.ok() ? Status() : rows.status(), is_worth};
  }));
  PF_FAULT(ctx, "job.postgres_ran_alone");
  return rows;
}

void PostgresDb::ShiftClockMs(int64_t ms) {
  *state_->options.clock_offset_ms += ms;
}

}  // namespace partforge
