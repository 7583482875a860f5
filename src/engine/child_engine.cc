#include "engine/child_engine.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/http_server.h"
#include "base/json.h"
#include "base/random.h"
#include "engine/http_engine.h"
#include "engine/server_command.h"

namespace partforge {
namespace {

constexpr int64_t kDeathWaitMs =
    2'000;  // from a broken connection to an exit state that can be read
constexpr int64_t kDeathPollMs = 10;
constexpr int64_t kKillWaitMs = 10'000;
constexpr int64_t kServerPollMs = 500;
constexpr int64_t kProcStatusBytesMax = 1 << 20;

// A port nobody listens on at this moment. A server is told its port; another program may take it
// first, then it does not start.
Result<int> FreePort() {
  PF_ASSIGN(const auto server, HttpServer::Start({.port = 0}, [](const HttpServerRequest&) {
              return HttpServerReply();
            }));
  return server->port();
}

std::vector<std::string> CommandLine(const ChildEngineOptions& options) {
  std::vector<std::string> argv = options.program;
  if (argv.empty()) argv = {SelfPath().string(), "engine"};
  argv.push_back("--path=" + options.data_path.string());
  argv.emplace_back("--port=0");
  if (!options.library.empty()) argv.push_back("--engine-library=" + options.library.string());
  if (options.allows_external_reads) argv.emplace_back("--allow-external-reads");
  if (!options.log_file.empty()) {
    argv.push_back("--log-file=" + options.log_file.string());
    argv.push_back("--log-level=" + options.log_level);
  }
  argv.emplace_back("--");
  if (!options.config.contains("timezone")) argv.push_back("--timezone=" + options.timezone);
  for (const auto& [key, value] : options.config)
    argv.push_back(fmt::format("--{}={}", key, value));
  return argv;
}

// All that an engine takes from our environment: it runs SQL of others, so credentials of the
// object store and of the state store stay here.
std::vector<std::string> InheritedNames() {
  std::vector<std::string> names = HarmlessVariables();
  names.insert(names.end(), {"JE_MALLOC_CONF", "PARTFORGE_ENGINE_*"});
  return names;
}

// What the child says once it takes statements.
struct ReadyLine {
  int64_t port = 0;
  std::string version;
};
Result<ReadyLine> ParseReadyLine(std::string_view line) {
  PF_ASSIGN(const JsonDoc document, ParseJson(line));
  JsonReader reader(document, "ready line of the engine");
  ReadyLine ready;
  PF_ASSIGN(const bool is_ready, reader.Bool("ready"));
  PF_ASSIGN(ready.port, reader.Int("port"));
  PF_ASSIGN(ready.version, reader.StringOr("version", ""));
  if (!is_ready || ready.port <= 0 || ready.port > 65'535) {
    return Status(Code::kCorruption,
                  fmt::format("ready line of the engine makes no sense: {}", line));
  }
  return ready;
}

// A field of /proc/<pid>/status that is given in kB; 0 when it cannot be read.
int64_t ProcBytes(pid_t pid, std::string_view field) {
  const auto text = ReadFile(fmt::format("/proc/{}/status", pid), kProcStatusBytesMax);
  if (!text.ok()) return 0;
  const size_t at = text->find(fmt::format("\n{}:", field));
  if (at == std::string::npos) return 0;
  size_t begin = at + field.size() + 2;
  while (begin < text->size() && ((*text)[begin] == ' ' || (*text)[begin] == '\t')) ++begin;
  int64_t kilobytes = 0;
  std::from_chars(text->data() + begin, text->data() + text->size(), kilobytes);
  return kilobytes * 1024;
}

// User and system time of /proc/<pid>/stat (proc_pid_stat(5), fields 14 and 15); 0 when it cannot
// be read.
int64_t ProcCpuMs(pid_t pid) {
  const auto text = ReadFile(fmt::format("/proc/{}/stat", pid), kProcStatusBytesMax);
  if (!text.ok()) return 0;
  size_t at = text->rfind(')');  // the name before it may hold blanks
  int64_t ticks = 0;
  for (int field = 3; at != std::string::npos && field <= 15; ++field) {
    at = text->find(' ', at);
    if (at == std::string::npos) break;
    ++at;
    int64_t value = 0;
    std::from_chars(text->data() + at, text->data() + text->size(), value);
    if (field >= 14) ticks += value;
  }
  const int64_t ticks_per_s = sysconf(_SC_CLK_TCK);
  return ticks_per_s <= 0 ? 0 : ticks * 1000 / ticks_per_s;
}

}  // namespace

// One child process and the client that speaks to it.
class ChildEngine::Life {
 public:
  static Result<std::shared_ptr<Life>> Start(const Context& ctx, const ChildEngineOptions& options);

  HttpEngine& http() { return *http_; }
  pid_t pid() const { return pid_; }
  const std::string& version() const { return version_; }
  const std::string& url() const { return url_; }

  std::optional<ExitState> Ended() {
    const std::lock_guard lock(mutex_);
    return process_->Poll();
  }
  void Signal(int number) {
    const std::lock_guard lock(mutex_);
    process_->Signal(number);
  }
  // Waits for the ready line of an embedded engine, or for a server's first answer.
  Status AwaitReady(const Context& ctx, const ChildEngineOptions& options, Secret key);
  Status AwaitServer(const Context& ctx, const ChildEngineOptions& options);

  // Empty when the child still runs after `timeout_ms`.
  std::optional<ExitState> AwaitEnd(const Context& ctx, int64_t timeout_ms) {
    const int64_t begin_ms = MonotonicMs();
    while (true) {
      if (const auto ended = Ended()) return ended;
      if (MonotonicMs() - begin_ms >= timeout_ms) return std::nullopt;
      ctx.clock.SleepMs(kDeathPollMs, {});
    }
  }

  // A failure of the connection is the child's death, if it is dead.
  Status Explained(const Context& ctx, Status status) {
    const bool is_transport =
        status.code() == Code::kUnavailable || status.code() == Code::kUnknownOutcome;
    if (!is_transport) return status;
    const bool has_number = status.message().find("Code: ") != std::string::npos;
    const auto ended = has_number ? Ended() : AwaitEnd(ctx, kDeathWaitMs);
    return ended ? Dead(*ended) : status;
  }

 private:
  Status Dead(const ExitState& ended) const {
    return Status(Code::kUnavailable,
                  fmt::format("engine process {} ended: {}", pid_, ended.ToString()))
        .Explain(2142, fmt::format("engine process {}, {}", pid_, ended.ToString()),
                 "run the same command again; a worker starts another engine by itself");
  }

  std::mutex mutex_;
  std::unique_ptr<ChildProcess> process_;  // guarded by mutex_
  std::unique_ptr<HttpEngine> http_;
  pid_t pid_ = -1;
  std::string version_, url_;
};

Result<std::shared_ptr<ChildEngine::Life>> ChildEngine::Life::Start(
    const Context& ctx, const ChildEngineOptions& options) {
  const auto life = std::make_shared<Life>();
  const std::string key = RandomHex(ctx.random, 16);
  ctx.log.AddSecret(key);
  ProcessOptions process;
  process.argv = CommandLine(options);
  if (!options.server_binary.empty()) {
    PF_ASSIGN(const int port, FreePort());
    life->url_ = fmt::format("http://127.0.0.1:{}", port);
    const ServerCommand command{.binary = options.server_binary,
                                .data_path = std::filesystem::absolute(options.data_path),
                                .http_port = port,
                                .password = key,
                                .config = options.config,
                                .timezone = options.timezone};
    PF_TRY(WriteServerConfig(command));
    process.argv = ServerCommandLine(command);
  }
  process.inherits_environment = false;
  process.inherited_names = InheritedNames();
  process.environment = {{"TZ", options.timezone}, {"PARTFORGE_ENGINE_KEY", key}};
  if (options.uses_huge_pages) process.environment["JE_MALLOC_CONF"] = "thp:always";
  process.stderr_path = options.stderr_path;
  process.captures_stdout = true;
  PF_ASSIGN(life->process_, ChildProcess::Start(process));
  life->pid_ = life->process_->pid();
  PF_TRY(life->AwaitReady(ctx, options, Secret(key)).With("start the engine"));
  ctx.log.Debug("engine started", {{"pid", static_cast<int64_t>(life->pid_)},
                                   {"url", life->url_},
                                   {"path", options.data_path.string()}});
  return life;
}

Status ChildEngine::Life::AwaitReady(const Context& ctx, const ChildEngineOptions& options,
                                     Secret key) {
  if (options.server_binary.empty()) {
    PF_ASSIGN(const auto line, process_->ReadLine(ctx, options.ready_timeout_ms));
    if (!line) {
      const auto ended = AwaitEnd(ctx, kDeathWaitMs);
      return ended ? Dead(*ended) : Status(Code::kUnavailable, "engine closed its output");
    }
    PF_ASSIGN(const ReadyLine ready, ParseReadyLine(*line));
    version_ = ready.version;
    url_ = fmt::format("http://127.0.0.1:{}", ready.port);
  }
  HttpEngineOptions http{.url = url_, .password = std::move(key), .settings = options.settings};
  http.data_path = options.data_path;
  http.kill_wait_on_stop_ms = options.kill_wait_on_stop_ms;
  http.on_deaf = [this](const Context& inner) {
    inner.log.Warn("engine does not end a stopped statement, killing it",
                   {{"pid", static_cast<int64_t>(pid_)}});
    Signal(SIGKILL);
    AwaitEnd(inner, kKillWaitMs);
  };
  PF_ASSIGN(http_, HttpEngine::Open(std::move(http)));
  return options.server_binary.empty() ? Status() : AwaitServer(ctx, options);
}

Status ChildEngine::Life::AwaitServer(const Context& ctx, const ChildEngineOptions& options) {
  const int64_t begin_ms = MonotonicMs();
  while (true) {
    PF_TRY(ctx.CheckStop("wait for the server"));
    if (const auto ended = Ended()) return Dead(*ended);
    auto answer = http_->Query(ctx, "SELECT version() FORMAT TabSeparatedRaw", {});
    if (answer.ok()) {
      version_ = answer->text.substr(0, answer->text.find('\n'));
      return {};
    }
    if (answer.status().code() != Code::kUnavailable ||
        MonotonicMs() - begin_ms >= options.ready_timeout_ms) {
      return std::move(answer).status();
    }
    ctx.clock.SleepMs(kServerPollMs, ctx.stop);
  }
}

namespace {

// Rows of the child; keeps its life, so that a broken stream can say how the child ended.
template <class Life>
class ChildRowStream final : public RowStream {
 public:
  ChildRowStream(std::shared_ptr<Life> life, std::unique_ptr<RowStream> rows)
      : life_(std::move(life)), rows_(std::move(rows)) {}
  Result<std::optional<std::string>> NextBlock(const Context& ctx) override {
    auto block = rows_->NextBlock(ctx);
    if (!block.ok()) return life_->Explained(ctx, std::move(block).status());
    return block;
  }

 private:
  std::shared_ptr<Life> life_;
  std::unique_ptr<RowStream> rows_;
};

}  // namespace

ChildEngine::~ChildEngine() = default;

Result<std::unique_ptr<ChildEngine>> ChildEngine::Start(const Context& ctx,
                                                        ChildEngineOptions options) {
  PF_TRY(MakeDirectories(options.data_path));
  auto engine = std::unique_ptr<ChildEngine>(new ChildEngine(std::move(options)));
  PF_ASSIGN(engine->life_, Life::Start(ctx, engine->options_));
  return engine;
}

Status ChildEngine::Restart(const Context& ctx) {
  if (!life_->Ended()) {
    life_->Signal(SIGKILL);
    if (!life_->AwaitEnd(ctx, kKillWaitMs)) {
      return Status(Code::kUnavailable,
                    fmt::format("engine process does not end after SIGKILL: {}", life_->pid()));
    }
  }
  PF_ASSIGN(life_, Life::Start(ctx, options_));
  return {};
}

Result<ExitState> ChildEngine::Stop(const Context& ctx) {
  life_->Signal(SIGTERM);
  auto ended = life_->AwaitEnd(ctx, options_.stop_timeout_ms);
  if (!ended) {
    ctx.log.Warn("engine does not stop, killing it", {{"pid", static_cast<int64_t>(life_->pid())}});
    life_->Signal(SIGKILL);
    ended = life_->AwaitEnd(ctx, kKillWaitMs);
  }
  if (ended) return *ended;
  return Status(Code::kUnavailable,
                fmt::format("engine process does not end after SIGKILL: {}", life_->pid()));
}

Result<ExitState> ChildEngine::Discard(const Context& ctx) {
  life_->Signal(SIGKILL);
  if (auto ended = life_->AwaitEnd(ctx, kKillWaitMs)) return *ended;
  return Status(Code::kUnavailable,
                fmt::format("engine process does not end after SIGKILL: {}", life_->pid()));
}

std::optional<ExitState> ChildEngine::Ended() const {
  return life_->Ended();
}
pid_t ChildEngine::pid() const {
  return life_->pid();
}
std::string ChildEngine::version() const {
  return life_->version();
}
std::string ChildEngine::url() const {
  return life_->url();
}
int64_t ChildEngine::PeakResidentBytes() const {
  return Ended() ? 0 : ProcBytes(pid(), "VmHWM");
}
int64_t ChildEngine::CpuMs() const {
  return Ended() ? 0 : ProcCpuMs(pid());
}
int64_t ChildEngine::ResidentBytes() const {
  return Ended() ? 0 : ProcBytes(pid(), "VmRSS");
}

Result<QueryOutcome> ChildEngine::Query(const Context& ctx, std::string_view sql,
                                        const QueryOptions& options) {
  auto outcome = life_->http().Query(ctx, sql, options);
  if (!outcome.ok()) return life_->Explained(ctx, std::move(outcome).status());
  return outcome;
}

Result<std::unique_ptr<RowStream>> ChildEngine::Select(const Context& ctx, std::string_view sql,
                                                       std::string_view format,
                                                       const QueryOptions& options) {
  auto rows = life_->http().Select(ctx, sql, format, options);
  if (!rows.ok()) return life_->Explained(ctx, std::move(rows).status());
  return std::unique_ptr<RowStream>(
      std::make_unique<ChildRowStream<Life>>(life_, std::move(rows).value()));
}

Result<QueryOutcome> ChildEngine::Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                                         const QueryOptions& options) {
  auto outcome = life_->http().Insert(ctx, sql, rows, options);
  if (!outcome.ok()) return life_->Explained(ctx, std::move(outcome).status());
  return outcome;
}

Status ChildEngine::Kill(const Context& ctx, std::string_view query_id) {
  Status status = life_->http().Kill(ctx, query_id);
  return status.ok() ? status : life_->Explained(ctx, std::move(status));
}

}  // namespace partforge
