#pragma once

#include <cstdint>
#include <filesystem>

#include "base/context.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

// The engines of a worker's slots: one child each, for the slot's whole life (clickhouse-parts §9
// step 3). Different slots may be used at once, one slot by one thread at a time.
class SlotEngines {
 public:
  virtual ~SlotEngines() = default;
  // The slot's engine, started on `data_path` at its first use, and again when it has ended.
  // kUnavailable (PF2142) when it cannot be started.
  virtual Result<Engine*> Get(const Context& ctx, int slot,
                              const std::filesystem::path& data_path) = 0;
  // False once the process has ended; then Get starts another one on the same path.
  virtual bool IsAlive(int slot) = 0;
  // Ends it now, e.g. because it hangs. The next Get starts another one.
  virtual void Stop(const Context& ctx, int slot) = 0;
  // Largest resident set of the slot's process so far; 0 = unknown.
  virtual int64_t PeakMemoryBytes(int slot) = 0;
};

}  // namespace partforge::clickhouse
