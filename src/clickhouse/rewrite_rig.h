#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "clickhouse/local_tables.h"
#include "clickhouse/slot_engines.h"
#include "engine/child_engine.h"
#include "testing/engine_child_fixture.h"
#include "testing/test_world.h"

// What the engine tests of this room share; not part of the product.
namespace partforge::clickhouse {

// Slots with real engine children; a test may kill them.
class TestSlots final : public SlotEngines {
 public:
  explicit TestSlots(ChildEngineOptions options = {}) : options_(std::move(options)) {}

  Result<Engine*> Get(const Context& ctx, int slot, const EngineWish& wish) override;
  bool IsAlive(int slot) override;
  void Stop(const Context& ctx, int slot) override;
  int64_t PeakMemoryBytes(int slot) override;

  // SIGKILL, and waits until the process is gone.
  void Kill(int slot);
  pid_t pid(int slot) const { return children_.at(slot)->pid(); }
  int64_t starts() const { return starts_; }

 private:
  const ChildEngineOptions options_;  // program and data path are filled in
  std::map<int, std::unique_ptr<ChildEngine>> children_;
  int64_t starts_ = 0;
};

// Calls what the test has set for a point, with the number of the hit (from 1). Thread-safe.
class FaultHooks final : public Faults {
 public:
  using Hook = std::function<Status(int64_t hit)>;
  void Set(const std::string& point, Hook hook);
  void Clear();
  Status Hit(std::string_view point) override;
  int64_t hits(const std::string& point) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Hook, std::less<>> hooks_;    // guarded by mutex_
  std::map<std::string, int64_t, std::less<>> hits_;  // guarded by mutex_
};

// The text an engine answers, without the last line end; the failure as text when it fails.
std::string Ask(const Context& ctx, Engine& engine, std::string_view sql,
                const std::map<std::string, std::string>& settings = {});
// Runs statements one after the other; each must work.
void MustRun(const Context& ctx, Engine& engine, const std::vector<std::string>& statements);

}  // namespace partforge::clickhouse
