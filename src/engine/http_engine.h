#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/http_client.h"
#include "base/log.h"
#include "engine/engine.h"

namespace partforge {

struct HttpEngineOptions {
  std::string url = {};   // http://host:port or https://…; no query, no user in it
  std::string user = {};  // empty = the server's default user
  Secret password = {};
  std::string database = {};                         // when a query names none
  std::map<std::string, std::string> settings = {};  // of every query; a query's own win
  std::optional<std::filesystem::path> data_path = {};
  int64_t connect_timeout_ms = 10'000;
  TlsOptions tls = {};
  // How long a statement whose caller was stopped is asked to end, and what is called when it did
  // not: who owns the process can kill it (clickhouse-parts §9.9).
  int64_t kill_wait_on_stop_ms = 10'000;
  std::function<void(const Context& ctx)> on_deaf = {};
};

// A ClickHouse behind its HTTP interface: a real server, or our engine child. Thread-safe; keeps
// and reuses connections. Failures besides the engine's own: kUnavailable (PF7008) when the
// statement cannot have begun; kUnknownOutcome when the connection broke or fell silent afterwards,
// for statements that may write; kRefused (PF7009) on wrong credentials; kCancelled on stop, after
// the statement was asked to end. The query id travels as query_id and as log_comment.
class HttpEngine final : public Engine {
 public:
  // kInvalidArgument (PF1005) when the URL is not one.
  static Result<std::unique_ptr<HttpEngine>> Open(HttpEngineOptions options);

  Result<QueryOutcome> Query(const Context& ctx, std::string_view sql,
                             const QueryOptions& options) override;
  Result<std::unique_ptr<RowStream>> Select(const Context& ctx, std::string_view sql,
                                            std::string_view format,
                                            const QueryOptions& options) override;
  Result<QueryOutcome> Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                              const QueryOptions& options) override;
  // Waits up to ten minutes (ten seconds once a stop was asked for) until no such query runs;
  // kUnavailable when it still does.
  Status Kill(const Context& ctx, std::string_view query_id) override;
  std::optional<std::filesystem::path> data_path() const override { return options_.data_path; }

 private:
  struct Call;
  class ProgressWatch;
  explicit HttpEngine(HttpEngineOptions options) : options_(std::move(options)) {}
  // Query without progress, and without a kill when it is stopped.
  Result<QueryOutcome> QueryOnce(const Context& ctx, std::string_view sql,
                                 const QueryOptions& options);
  Result<QueryOutcome> SendQuery(const Context& ctx, std::string_view sql, Call& call);
  Call MakeCall(const Context& ctx, const QueryOptions& options) const;
  Status KillWithin(const Context& ctx, std::string_view query_id, int64_t wait_ms);
  Status AfterStop(const Context& ctx, Status status, const Call& call);

  const HttpEngineOptions options_;
  HttpClient client_;
};

}  // namespace partforge
