#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "app/wire.h"
#include "clickhouse/slot_engines.h"
#include "engine/child_engine.h"

namespace partforge::app {

// One engine child a slot, started when the slot first needs it. Thread-safe for different slots.
class SlotChildren final : public clickhouse::SlotEngines {
 public:
  SlotChildren(EngineChoice choice, int64_t slots)
      : choice_(std::move(choice)), slots_(static_cast<size_t>(slots)) {}

  Result<Engine*> Get(const Context& ctx, int slot, const clickhouse::EngineWish& wish) override;
  bool IsAlive(int slot) override;
  void Stop(const Context& ctx, int slot) override;
  void Discard(const Context& ctx, int slot) override;
  int64_t CpuMs(int slot) override;
  int64_t PeakMemoryBytes(int slot) override;

 private:
  const EngineChoice choice_;
  struct Slot {
    std::optional<clickhouse::EngineWish> wish;  // of the child
    std::unique_ptr<ChildEngine> child;
  };
  std::vector<Slot> slots_;  // each changed by its slot's thread only
};

}  // namespace partforge::app
