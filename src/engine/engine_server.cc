#include "engine/engine_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/files.h"
#include "base/hash.h"
#include "base/http_server.h"
#include "engine/chdb.h"
#include "engine/engine_setup.h"
#include "engine/query_handler.h"

namespace partforge {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitStopForced = 143;
constexpr int64_t kKillAgainMs = 300;
constexpr int64_t kRequestIdleMs = 3'600'000;

// Empty logs under the names a ClickHouse worker asks for (clickhouse-parts §20): libchdb has
// neither, and a missing query_log fails every insert there. The database `system` keeps them in
// memory only.
constexpr const char* kQueryLog =
    "CREATE TABLE IF NOT EXISTS system.query_log (hostname String, type Enum8('QueryStart' = 1, "
    "'QueryFinish' = 2, "
    "'ExceptionBeforeStart' = 3, 'ExceptionWhileProcessing' = 4), event_date Date, event_time "
    "DateTime, "
    "event_time_microseconds DateTime64(6), query_start_time DateTime, query_duration_ms UInt64, "
    "read_rows UInt64, "
    "read_bytes UInt64, total_rows_approx UInt64, written_rows UInt64, written_bytes UInt64, "
    "result_rows UInt64, "
    "result_bytes UInt64, memory_usage UInt64, query String, query_kind String, query_id String, "
    "initial_query_id String, exception_code Int32, exception String, is_initial_query UInt8, user "
    "String, "
    "log_comment String, ProfileEvents Map(String, UInt64), Settings Map(String, String)) ENGINE = "
    "Memory";
constexpr const char* kPartLog =
    "CREATE TABLE IF NOT EXISTS system.part_log (hostname String, query_id String, event_type "
    "Enum8('NewPart' = 1, "
    "'MergeParts' = 2, 'DownloadPart' = 3, 'RemovePart' = 4, 'MutatePart' = 5, 'MovePart' = 6, "
    "'MergePartsStart' = 7, 'MutatePartStart' = 8), event_date Date, event_time DateTime, "
    "event_time_microseconds DateTime64(6), duration_ms UInt64, database String, table String, "
    "table_uuid UUID, "
    "part_name String, partition_id String, partition String, part_type String, disk_name String, "
    "rows UInt64, "
    "size_in_bytes UInt64, merged_from Array(String), bytes_uncompressed UInt64, read_rows UInt64, "
    "read_bytes UInt64, "
    "peak_memory_usage UInt64, error UInt16, exception String) ENGINE = Memory";

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Holds the pid file as a server does: a write lock of fcntl, and the number as text. The lock
// lives as long as the descriptor.
Result<UniqueFd> HoldPidFile(const std::filesystem::path& path) {
  PF_ASSIGN(UniqueFd fd, OpenFile(path, O_RDWR | O_CREAT, 0644));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd.get(), F_SETLK, &lock) != 0) {
    return Status(Code::kConflict,
                  fmt::format("another server holds the pid file {}", path.string()));
  }
  if (ftruncate(fd.get(), 0) != 0) return ErrnoStatus(errno, "empty the pid file " + path.string());
  PF_TRY(WriteAll(fd.get(), AsBytes(fmt::format("{}\n", getpid()))));
  return fd;
}

// What runs between start and stop.
struct RunningEngine {
  UniqueFd pid_file;
  std::shared_ptr<const ChdbLibrary> library;
  std::unique_ptr<ChdbConnection> keep;  // the last connection to close shuts the engine down
  std::unique_ptr<QueryHandler> handler;
  std::unique_ptr<HttpServer> server;
};

// Our own key, else what the configuration's users file asks.
EngineCredentials CredentialsOf(const EngineServerOptions& options, const EngineSetup& setup) {
  if (!options.access_key.empty()) return {.password = options.access_key};
  return {.password = setup.password, .password_sha256 = setup.password_sha256};
}

Result<RunningEngine> StartEngine(const EngineServerOptions& options) {
  RunningEngine engine;
  PF_TRY(MakeDirectories(options.data_path));
  if (!options.pid_file.empty()) {
    PF_ASSIGN(engine.pid_file, HoldPidFile(options.pid_file));
  }
  PF_ASSIGN(EngineSetup setup, WriteEngineSetup(options));
  // The library takes its zone from the environment and none from its configuration, which would
  // read times of a server in another zone as those of this process.
  if (!setup.timezone.empty()) setenv("TZ", setup.timezone.c_str(), 1);
  PF_ASSIGN(engine.library, ChdbLibrary::Load(options.library));
  engine.library->DisableSignalHandlers();
  PF_ASSIGN(engine.keep, ChdbConnection::Open(engine.library, setup.arguments));
  PF_TRY(engine.keep->Run(kQueryLog, "TabSeparated", {}));
  PF_TRY(engine.keep->Run(kPartLog, "TabSeparated", {}));
  PF_ASSIGN(ChdbAnswer zone, engine.keep->Run("SELECT serverTimezone()", "TabSeparatedRaw", {}));
  while (zone.text.ends_with('\n')) zone.text.pop_back();
  engine.handler = std::make_unique<QueryHandler>(
      QueryHandler::Options{.library = engine.library,
                            .connection_arguments = setup.arguments,
                            .credentials = CredentialsOf(options, setup),
                            .allows_external_reads = options.allows_external_reads,
                            .timezone = std::move(zone.text)});
  PF_ASSIGN(engine.server,
            HttpServer::Start({.host = options.host,
                               .port = options.port,
                               .threads = options.threads,
                               .idle_timeout_ms = kRequestIdleMs},
                              [handler = engine.handler.get()](const HttpServerRequest& request) {
                                return handler->Handle(request);
                              }));
  return engine;
}

[[noreturn]] void EndProcess(int exit_code) {
  std::fflush(nullptr);
  _exit(exit_code);
}

// Ends statements, requests, connections and the library, in that order.
void StopEngine(const Context& ctx, RunningEngine& engine) {
  {
    // A statement may begin between one kill and the end of its request, so kills are repeated.
    const std::jthread killer([&ctx, &engine](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        Ignore(ctx, engine.handler->KillAll(), "the process ends anyway");
        ctx.clock.SleepMs(kKillAgainMs, stop);
      }
    });
    engine.server->Stop();
  }
  engine.server.reset();
  engine.handler->CloseSessions();
  engine.handler.reset();
  engine.keep.reset();
  engine.library->Shutdown();
}

}  // namespace

int RunEngineServer(const Context& ctx, const EngineServerOptions& options) {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before the engine makes threads
  signal(SIGPIPE, SIG_IGN);
  auto engine = StartEngine(options);
  if (!engine.ok()) {
    ctx.log.Error("engine does not start", {{"error", engine.status().ToString()}});
    std::fflush(nullptr);
    return kExitFailed;
  }
  std::printf("{\"ready\":true,\"port\":%d,\"pid\":%d,\"version\":\"%s\"}\n",
              engine->server->port(), static_cast<int>(getpid()),
              engine->library->version().c_str());
  std::fflush(stdout);
  ctx.log.Debug("engine ready", {{"port", static_cast<int64_t>(engine->server->port())}});

  int number = 0;
  sigwait(&signals, &number);
  ctx.log.Debug("engine stops", {{"signal", static_cast<int64_t>(number)}});
  const std::jthread watchdog([&ctx](const std::stop_token& stop) {
    ctx.clock.SleepMs(kEngineStopMsMax, stop);
    if (!stop.stop_requested()) _exit(kExitStopForced);
  });
  StopEngine(ctx, *engine);
  if (!options.pid_file.empty()) {
    std::error_code error;
    std::filesystem::remove(options.pid_file, error);
  }
  EndProcess(0);
}

}  // namespace partforge
