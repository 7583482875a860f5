#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "engine/engine.h"

namespace partforge {

struct ChildEngineOptions {
  // The program and its first words; empty = this executable and "engine".
  std::vector<std::string> program = {};
  // A `clickhouse` binary of the user's instead: started as a server by server_command.h
  // (`program`, `library`, log options and allows_external_reads do not apply). Empty = the
  // embedded engine.
  std::filesystem::path server_binary = {};
  std::filesystem::path data_path = {};  // made when absent; one child a path
  std::filesystem::path library = {};    // libchdb.so; empty = the child looks for it
  // Configuration keys of the engine, e.g. max_server_memory_usage, background_pool_size,
  // background_merges_mutations_concurrency_ratio, background_merges_mutations_scheduling_policy,
  // merge_tree.…
  std::map<std::string, std::string> config = {};
  std::map<std::string, std::string> settings = {};  // of every query
  std::string timezone = "UTC";  // of the engine: times without a zone of their own are in it
  bool allows_external_reads = false;
  bool uses_huge_pages = false;            // pays in a long-lived child only (performance.md §3)
  std::filesystem::path stderr_path = {};  // empty = our stderr
  std::filesystem::path log_file = {};     // the engine's own log; empty = none
  std::string log_level = "warning";
  int64_t ready_timeout_ms = 90'000;
  int64_t stop_timeout_ms = 30'000;  // from SIGTERM to SIGKILL
  // A statement whose caller was stopped may go on so long before the child is killed.
  int64_t kill_wait_on_stop_ms = 10'000;
};

// The embedded engine: starts `partforge engine` on a data path, waits for its ready line, and
// speaks HTTP to it. The child dies with this process. Its death is an ordinary failure: every call
// then answers kUnavailable (PF2142) with how it ended, until Restart. A statement that was under
// way when the child died may have taken effect: look at the tables. Safe for concurrent use, but
// for Restart and Stop, which one thread calls while no statement runs.
class ChildEngine final : public Engine {
 public:
  // kUnavailable when the child ends or stays silent instead of becoming ready, with what it ended
  // with.
  static Result<std::unique_ptr<ChildEngine>> Start(const Context& ctx, ChildEngineOptions options);
  // Kills a child that still runs.
  ~ChildEngine() override;

  // Ends the child if it still runs (SIGKILL) and starts another on the same path: same data.
  // Settings of sessions, temporary tables and every SYSTEM STOP … are lost.
  Status Restart(const Context& ctx);
  // SIGTERM, which kills running statements; SIGKILL after stop_timeout_ms. Answers how it ended.
  Result<ExitState> Stop(const Context& ctx);

  // SIGKILL, for a child that hangs. Restart starts another one.
  Result<ExitState> Discard(const Context& ctx);

  // Empty while the child runs.
  std::optional<ExitState> Ended() const;
  pid_t pid() const;
  std::string version() const;  // of the library, from the ready line
  std::string url() const;      // http://127.0.0.1:port; asks a key that only this object has
  // VmHWM and VmRSS of /proc; 0 when the child has ended.
  int64_t PeakResidentBytes() const;
  int64_t ResidentBytes() const;
  // User and system time of /proc so far; 0 when the child has ended.
  int64_t CpuMs() const;

  Result<QueryOutcome> Query(const Context& ctx, std::string_view sql,
                             const QueryOptions& options) override;
  Result<std::unique_ptr<RowStream>> Select(const Context& ctx, std::string_view sql,
                                            std::string_view format,
                                            const QueryOptions& options) override;
  Result<QueryOutcome> Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                              const QueryOptions& options) override;
  Status Kill(const Context& ctx, std::string_view query_id) override;
  std::optional<std::filesystem::path> data_path() const override { return options_.data_path; }

 private:
  class Life;
  explicit ChildEngine(ChildEngineOptions options) : options_(std::move(options)) {}

  const ChildEngineOptions options_;
  std::shared_ptr<Life> life_;  // of the present child; replaced by Restart
};

}  // namespace partforge
