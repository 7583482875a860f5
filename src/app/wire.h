#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/command.h"
#include "base/machine.h"
#include "clickhouse/ddl.h"
#include "clickhouse/part_gatherer.h"
#include "clickhouse/rewrite_executor.h"
#include "clickhouse/slot_engines.h"
#include "engine/engine.h"
#include "job/job_store.h"
#include "job/run_folder.h"
#include "job/state_url.h"
#include "store/limited_store.h"
#include "store/object_store.h"

namespace partforge::app {

// Builds the few objects of a command from its settings. Nothing here decides anything about data.

// The state store that --state-url or --postgres-url name; without them the SQLite file of this
// user.
Result<std::unique_ptr<SqlJobStore>> OpenState(const CommandInput& input, SchemaUse use);

// Applies pending migrations to that store; how many.
Result<int64_t> Migrate(const CommandInput& input);
// How many Migrate would apply; writes nothing.
Result<int64_t> PendingMigrations(const CommandInput& input);

// Object stores by bucket, opened once each. Thread-safe.
class BucketStores {
 public:
  explicit BucketStores(const CommandInput& input) : input_(input) {}
  Result<ObjectStore*> Get(const Context& ctx, const std::string& bucket);
  // For executors and committers; refers to this object.
  clickhouse::RewriteExecutor::StoreOfBucket function();

 private:
  RateLimit* Limit(std::string_view name, std::unique_ptr<RateLimit>& limit);

  const CommandInput& input_;
  std::mutex mutex_;
  // Of all stores together; null: no limit.
  std::unique_ptr<RateLimit> download_, upload_;                // guarded by mutex_
  std::map<std::string, std::unique_ptr<ObjectStore>> stores_;  // guarded by mutex_
};

// The server at --clickhouse-url.
Result<std::unique_ptr<Engine>> OpenServer(const CommandInput& input);

// How an engine child is started: library, program, memory.
struct EngineChoice {
  std::filesystem::path library, binary;  // binary empty = the embedded engine
  int64_t memory_bytes_max = 0;           // of one child; 0 = no limit
  bool uses_huge_pages = false;
};
Result<EngineChoice> ChooseEngine(const CommandInput& input, int64_t slots);

// Children of the slots of a worker (SlotEngines); stopped by the destructor.
std::unique_ptr<clickhouse::SlotEngines> MakeSlotEngines(EngineChoice choice, int64_t slots);

// An embedded engine on a run folder of its own, for checks of SQL; both go with the object. What a
// killed process leaves is swept as the scratch of workers is.
class ScratchEngine {
 public:
  // `input.ctx` must outlive the object.
  static Result<std::unique_ptr<ScratchEngine>> Start(const CommandInput& input);
  ~ScratchEngine();
  Engine& engine() { return *engine_; }

 private:
  explicit ScratchEngine(const Context& ctx) : ctx_(ctx) {}
  const Context ctx_;  // of the command, which outlives this, without its stop
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<clickhouse::SlotEngines> engines_;
  Engine* engine_ = nullptr;
};

std::filesystem::path WorkDir(const CommandInput& input);
// The same, made when absent. kInvalidArgument (PF1015) when this user cannot use it or others may
// write to it; the default one, in a folder of all users, must be of this user alone.
Result<std::filesystem::path> OpenWorkDir(const CommandInput& input);
// What scripts/setup filled, when this program runs from a source tree; empty otherwise.
std::filesystem::path DepsFolder(const std::map<std::string, std::string>& environment);

// What a rewrite may use: --parallel, --memory and the machine's limits.
struct MachineUse {
  MachineLimits limits;
  int64_t slots = 1, memory_cap_bytes = 0;
};
Result<MachineUse> ChooseMachineUse(const CommandInput& input);
Result<clickhouse::RewriteSettings> RewriteSettingsFrom(const CommandInput& input,
                                                        const MachineUse& use);
// How waiting parts share an insert under these settings, the same for `plan` and for a worker.
clickhouse::GatherRules GatherRulesFrom(const clickhouse::RewriteSettings& settings);

// "<host>-<pid>".
std::string ProcessName(const CommandInput& input);

// --database and --table. kRefused (PF8006) on a name that is never sent to a server: above 200
// bytes, or with a NUL.
Result<clickhouse::TableName> TableFrom(const CommandInput& input);

// The job of commands that take it as the argument or as --job-id; empty when neither is given.
// kInvalidArgument (PF1010) when they name two.
Result<JobId> JobNamed(const CommandInput& input);

// Whole text of a file named by a flag; PF1013 when it cannot be read or is blank.
Result<std::string> ReadTextFlag(const CommandInput& input, std::string_view flag);

}  // namespace partforge::app
