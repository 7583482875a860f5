#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/context.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

// How a slot's engine must be. A path alone stands for an engine in UTC without external reads.
struct EngineWish {
  // NOLINTNEXTLINE(google-explicit-constructor)
  EngineWish(std::filesystem::path path, std::string zone = "UTC")
      : data_path(std::move(path)), timezone(std::move(zone)) {}
  bool operator==(const EngineWish&) const = default;

  std::filesystem::path data_path;
  std::string timezone;  // of the job: dates and partition keys depend on it
  bool allows_external_reads = false;
};

// The engines of a worker's slots: one child each, for the slot's whole life (clickhouse-parts §9
// step 3). Different slots may be used at once, one slot by one thread at a time.
class SlotEngines {
 public:
  virtual ~SlotEngines() = default;
  // The slot's engine, started at its first use, again when it has ended, and anew when the present
  // one was started with another wish. kUnavailable (PF2142) when it cannot be started.
  virtual Result<Engine*> Get(const Context& ctx, int slot, const EngineWish& wish) = 0;
  // False once the process has ended; then Get starts another one on the same path.
  virtual bool IsAlive(int slot) = 0;
  // Ends it in order. The next Get starts another one.
  virtual void Stop(const Context& ctx, int slot) = 0;
  // Kills it at once, because it hangs: nothing is asked of it any more. The next Get starts
  // another process behind the same Engine.
  virtual void Discard(const Context& ctx, int slot) { Stop(ctx, slot); }
  // CPU time the slot's process has used so far; a process that hangs uses none. 0 = unknown.
  virtual int64_t CpuMs(int /*slot*/) { return 0; }
  // Largest resident set of the slot's process so far; 0 = unknown.
  virtual int64_t PeakMemoryBytes(int slot) = 0;
};

}  // namespace partforge::clickhouse
