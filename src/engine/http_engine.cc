#include "engine/http_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/hash.h"
#include "base/random.h"
#include "engine/clickhouse_codes.h"
#include "engine/http_answer.h"
#include "engine/sql_text.h"

namespace partforge {
namespace {

constexpr int64_t kKillWaitMs = 600'000;
constexpr int64_t kKillPollMs = 100;
constexpr int64_t kProgressPollMs = 1'000;
constexpr int64_t kShortCallMs = 30'000;  // polls and kills, which must answer at once
constexpr size_t kTailBytes =
    size_t{64} << 10;  // held back of a stream: an error may stand there instead of rows
constexpr size_t kErrorBodyBytesMax = size_t{1} << 20;

// The same outside world, but a stop that was asked for does not reach what must be done because of
// it.
Context WithoutStop(const Context& ctx) {
  return {ctx.clock, ctx.random, ctx.faults, ctx.log, ctx.metrics, ctx.memory, {}};
}

std::string IsQuery(std::string_view query_id) {
  const std::string id = QuoteString(query_id);
  return fmt::format("(query_id = {0} OR Settings['log_comment'] = {0})", id);
}

bool IsHeaderSafe(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// A failure below HTTP, said as the statement's. A lost answer of a read is no doubt.
Status TransportFailure(const Status& status, const std::string& url, bool is_read) {
  if (status.code() == Code::kUnavailable || (is_read && status.code() == Code::kUnknownOutcome)) {
    return Status(Code::kUnavailable, status.message())
        .Explain(7008, url, "check the address, and that the server runs");
  }
  return status;
}

}  // namespace

// One request: where it goes and under which id.
struct HttpEngine::Call {
  std::string query_id;
  HttpRequest request;
};

// Calls on_progress about once a second from a connection of its own, while a statement runs.
// Failures are ignored: progress never fails a statement (clickhouse-parts §9.6).
class HttpEngine::ProgressWatch {
 public:
  ProgressWatch(const Context& ctx, HttpEngine& engine, const QueryOptions& options,
                const std::string& query_id) {
    if (!options.on_progress) return;
    thread_ = std::jthread(
        [&ctx, &engine, report = options.on_progress, query_id](const std::stop_token& stop) {
          Context own = WithoutStop(ctx);
          own.stop = stop;
          const std::string sql = "SELECT read_rows, written_rows FROM system.processes WHERE " +
                                  IsQuery(query_id) +
                                  " ORDER BY elapsed DESC LIMIT 1 FORMAT TabSeparated";
          while (!stop.stop_requested()) {
            own.clock.SleepMs(kProgressPollMs, stop);
            if (stop.stop_requested()) return;
            const auto answer = engine.QueryOnce(own, sql, {.idle_timeout_ms = kShortCallMs});
            if (!answer.ok()) continue;
            long long read_rows = 0;
            long long written_rows = 0;
            if (std::sscanf(answer->text.c_str(), "%lld\t%lld", &read_rows, &written_rows) == 2) {
              report(read_rows, written_rows);
            }
          }
        });
  }

 private:
  std::jthread thread_;
};

namespace {

// The rows of a reply, with the last bytes held back until it is known that they are rows.
class HttpRowStream final : public RowStream {
 public:
  HttpRowStream(std::unique_ptr<HttpBody> body, std::string url)
      : body_(std::move(body)), url_(std::move(url)) {}

  Result<std::optional<std::string>> NextBlock(const Context& ctx) override {
    if (!failure_.ok()) return failure_;
    while (!has_ended_) {
      auto piece = body_->Next(ctx);
      if (!piece.ok()) return Broken(std::move(piece).status());
      if (!piece->has_value()) {
        has_ended_ = true;
        break;
      }
      held_ += **piece;
      if (held_.size() > 2 * kTailBytes) {
        std::string rows = held_.substr(0, held_.size() - kTailBytes);
        held_.erase(0, rows.size());
        return std::optional<std::string>(std::move(rows));
      }
    }
    if (held_.empty()) return std::optional<std::string>();
    if (auto late = FindLateException(held_, body_->headers(), BodyEnd::kProper))
      return Late(std::move(*late));
    return std::optional<std::string>(std::exchange(held_, {}));
  }

 private:
  Result<std::optional<std::string>> Broken(Status status) {
    if (status.code() == Code::kCancelled) return failure_ = status;
    if (auto late = FindLateException(held_, body_->headers(), BodyEnd::kBrokenOff))
      return Late(std::move(*late));
    return failure_ = TransportFailure(std::move(status).With("read rows"), url_, true);
  }
  // The rows before the error are not given out: who asked for all rows gets an error instead.
  Result<std::optional<std::string>> Late(LateException late) {
    return failure_ = std::move(late.status);
  }

  std::unique_ptr<HttpBody> body_;
  const std::string url_;
  std::string held_;
  bool has_ended_ = false;
  Status failure_;
};

// Feeds a RowStream to a request's body and remembers why it failed.
class BodyFeed {
 public:
  BodyFeed(const Context& ctx, RowStream& rows) : ctx_(ctx), rows_(rows) {}

  Result<size_t> Fill(std::span<std::byte> out) {
    while (at_ == block_.size()) {
      auto next = rows_.NextBlock(ctx_);
      if (!next.ok()) return failure_ = std::move(next).status();
      if (!next->has_value()) return size_t{0};
      block_ = std::move(**next);
      at_ = 0;
    }
    const size_t count = std::min(out.size(), block_.size() - at_);
    std::memcpy(out.data(), block_.data() + at_, count);
    at_ += count;
    return count;
  }
  const Status& failure() const { return failure_; }

 private:
  const Context& ctx_;
  RowStream& rows_;
  std::string block_;
  size_t at_ = 0;
  Status failure_;
};

}  // namespace

Result<std::unique_ptr<HttpEngine>> HttpEngine::Open(HttpEngineOptions options) {
  // Not all of the URL is shown: where it should hold nothing, it may hold a password.
  const auto wrong = [&options](std::string_view why) {
    const std::string shown = options.url.find('@') == std::string::npos
                                  ? options.url.substr(0, options.url.find_first_of("?#"))
                                  : options.url.substr(0, options.url.find("//"));
    return Status(Code::kInvalidArgument, fmt::format("ClickHouse URL {}: {}", why, shown))
        .Explain(1005, "--clickhouse-url",
                 "write it as http://host:8123; user and password are settings of their own");
  };
  while (options.url.ends_with('/')) options.url.pop_back();
  std::string_view host = options.url;
  if (!host.starts_with("http://") && !host.starts_with("https://"))
    return wrong("begins with neither http:// nor https://");
  host.remove_prefix(host.find("//") + 2);
  if (host.empty() || host.find_first_of("?#@ ") != std::string_view::npos || !IsHeaderSafe(host)) {
    return wrong("holds more than scheme, host, port and path, or no host");
  }
  if (!IsHeaderSafe(options.user) || !IsHeaderSafe(options.password.Reveal())) {
    return Status(Code::kInvalidArgument, "ClickHouse user or password holds a control character");
  }
  return std::unique_ptr<HttpEngine>(new HttpEngine(std::move(options)));
}

HttpEngine::Call HttpEngine::MakeCall(const Context& ctx, const QueryOptions& options) const {
  Call call;
  call.query_id = options.query_id.empty() ? "pf-" + RandomHex(ctx.random, 12) : options.query_id;
  std::map<std::string, std::string> parameters = options_.settings;
  parameters["log_comment"] = call.query_id;
  for (const auto& [name, value] : options.settings) parameters[name] = value;
  for (const auto& [name, value] : options.parameters) parameters["param_" + name] = value;
  parameters["query_id"] = call.query_id;
  const std::string& database = options.database.empty() ? options_.database : options.database;
  if (!database.empty()) parameters["database"] = database;

  call.request.method = "POST";
  call.request.url = options_.url + "/?";
  for (const auto& [name, value] : parameters) {
    call.request.url += UrlEncode(name) + "=" + UrlEncode(value) + "&";
  }
  call.request.url.pop_back();
  call.request.headers.emplace_back("Content-Type", "text/plain; charset=utf-8");
  if (!options_.user.empty()) call.request.headers.emplace_back("X-ClickHouse-User", options_.user);
  if (!options_.password.empty())
    call.request.headers.emplace_back("X-ClickHouse-Key", options_.password.Reveal());
  call.request.connect_timeout_ms = options_.connect_timeout_ms;
  call.request.idle_timeout_ms = options.idle_timeout_ms;
  call.request.tls = options_.tls;
  return call;
}

// A cancelled request leaves its statement running on the engine, so it is asked to end.
Status HttpEngine::AfterStop(const Context& ctx, Status status, const Call& call) {
  if (status.code() != Code::kCancelled) return status;
  const Status killed = KillWithin(ctx, call.query_id, options_.kill_wait_on_stop_ms);
  Ignore(ctx, killed, "the caller stops anyway");
  // Without a stop of ours somebody else cancelled it.
  if (!killed.ok() && ctx.IsStopping() && options_.on_deaf) options_.on_deaf(ctx);
  return status;
}

Result<QueryOutcome> HttpEngine::Query(const Context& ctx, std::string_view sql,
                                       const QueryOptions& options) {
  Call call = MakeCall(ctx, options);
  const ProgressWatch watch(ctx, *this, options, call.query_id);
  auto outcome = SendQuery(ctx, sql, call);
  if (!outcome.ok()) return AfterStop(ctx, std::move(outcome).status(), call);
  return outcome;
}

Result<QueryOutcome> HttpEngine::QueryOnce(const Context& ctx, std::string_view sql,
                                           const QueryOptions& options) {
  Call call = MakeCall(ctx, options);
  return SendQuery(ctx, sql, call);
}

Result<QueryOutcome> HttpEngine::SendQuery(const Context& ctx, std::string_view sql, Call& call) {
  call.request.url +=
      "&wait_end_of_query=1";  // the status line comes after the end, so it tells every error
  call.request.body = AsBytes(sql);
  auto reply = client_.Send(ctx, call.request);
  if (!reply.ok())
    return TransportFailure(std::move(reply).status(), options_.url, IsReadStatement(sql));
  PF_TRY(CheckAnswer(reply->status, reply->headers, reply->body));
  if (auto late = FindLateException(reply->body, reply->headers, BodyEnd::kProper))
    return std::move(late->status);
  QueryOutcome outcome = ReadSummary(reply->headers);
  outcome.text = std::move(reply->body);
  return outcome;
}

Result<std::unique_ptr<RowStream>> HttpEngine::Select(const Context& ctx, std::string_view sql,
                                                      std::string_view format,
                                                      const QueryOptions& options) {
  Call call = MakeCall(ctx, options);
  call.request.url += "&default_format=" + UrlEncode(format);
  call.request.body = AsBytes(sql);
  auto body = client_.Open(ctx, call.request);
  if (!body.ok()) {
    return AfterStop(ctx, TransportFailure(std::move(body).status(), options_.url, true), call);
  }
  const int status = (*body)->status();
  if (status < 200 || status >= 300 || (*body)->headers().contains("x-clickhouse-exception-code")) {
    std::string text;
    while (text.size() < kErrorBodyBytesMax) {
      auto piece = (*body)->Next(ctx);
      if (!piece.ok() || !piece->has_value()) break;
      text += **piece;
    }
    return CheckAnswer(status, (*body)->headers(), text);
  }
  return std::unique_ptr<RowStream>(
      std::make_unique<HttpRowStream>(std::move(body).value(), options_.url));
}

Result<QueryOutcome> HttpEngine::Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                                        const QueryOptions& options) {
  Call call = MakeCall(ctx, options);
  call.request.url += "&query=" + UrlEncode(sql);
  BodyFeed feed(ctx, rows);
  call.request.read_body = [&feed](std::span<std::byte> out) { return feed.Fill(out); };
  const ProgressWatch watch(ctx, *this, options, call.query_id);
  auto reply = client_.Send(ctx, call.request);
  if (!feed.failure().ok())
    return feed.failure();  // our own rows failed; the engine drops the insert
  if (!reply.ok()) {
    return AfterStop(ctx, TransportFailure(std::move(reply).status(), options_.url, false), call);
  }
  PF_TRY(CheckAnswer(reply->status, reply->headers, reply->body));
  QueryOutcome outcome = ReadSummary(reply->headers);
  outcome.text = std::move(reply->body);
  return outcome;
}

Status HttpEngine::Kill(const Context& ctx, std::string_view query_id) {
  return KillWithin(ctx, query_id, ctx.IsStopping() ? options_.kill_wait_on_stop_ms : kKillWaitMs);
}

Status HttpEngine::KillWithin(const Context& ctx, std::string_view query_id, int64_t wait_ms) {
  const Context calm = WithoutStop(ctx);
  const QueryOptions quick{.idle_timeout_ms = std::min(kShortCallMs, wait_ms)};
  const std::string others = IsQuery(query_id) + " AND query NOT LIKE 'KILL %'";
  const std::string count =
      "SELECT count() FROM system.processes WHERE " + others + " FORMAT TabSeparated";
  const int64_t begin_ms = MonotonicMs();
  while (true) {
    PF_TRY(QueryOnce(calm, "KILL QUERY WHERE " + others + " ASYNC FORMAT Null", quick));
    PF_ASSIGN(const QueryOutcome running, QueryOnce(calm, count, quick));
    if (running.text == "0\n") return {};
    if (MonotonicMs() - begin_ms >= wait_ms) {
      return Status(
          Code::kUnavailable,
          fmt::format("query still runs {} ms after it was killed: {}", wait_ms, query_id));
    }
    calm.clock.SleepMs(kKillPollMs, {});
  }
}

}  // namespace partforge
