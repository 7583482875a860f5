#include "clickhouse/rewrite_rig.h"

#include <signal.h>

namespace partforge::clickhouse {

Result<Engine*> TestSlots::Get(const Context& ctx, int slot, const EngineWish& wish) {
  std::unique_ptr<ChildEngine>& child = children_[slot];
  if (child == nullptr) {
    ChildEngineOptions options = options_;
    options.program = testing::EngineChildOptions(wish.data_path).program;
    options.data_path = wish.data_path;
    options.timezone = wish.timezone;
    PF_ASSIGN(child, ChildEngine::Start(ctx, options));
    ++starts_;
  } else if (child->Ended()) {
    PF_TRY(child->Restart(ctx));
    ++starts_;
  }
  return child.get();
}

bool TestSlots::IsAlive(int slot) {
  const auto it = children_.find(slot);
  return it != children_.end() && it->second && !it->second->Ended();
}

void TestSlots::Stop(const Context& ctx, int slot) {
  const auto it = children_.find(slot);
  if (it == children_.end() || !it->second) return;
  const auto stopped = it->second->Stop(ctx);
  if (!stopped.ok()) Ignore(ctx, stopped.status(), "the test ends anyway");
}

int64_t TestSlots::PeakMemoryBytes(int slot) {
  const auto it = children_.find(slot);
  return it == children_.end() || !it->second ? 0 : it->second->PeakResidentBytes();
}

void TestSlots::Kill(int slot) {
  const auto it = children_.find(slot);
  if (it == children_.end() || !it->second) return;
  kill(it->second->pid(), SIGKILL);
  while (!it->second->Ended()) {
  }
}

void FaultHooks::Set(const std::string& point, Hook hook) {
  const std::lock_guard lock(mutex_);
  hooks_[point] = std::move(hook);
}

void FaultHooks::Clear() {
  const std::lock_guard lock(mutex_);
  hooks_.clear();
  hits_.clear();
}

Status FaultHooks::Hit(std::string_view point) {
  Hook hook;
  int64_t hit = 0;
  {
    const std::lock_guard lock(mutex_);
    hit = ++hits_[std::string(point)];
    const auto it = hooks_.find(point);
    if (it != hooks_.end()) hook = it->second;
  }
  return hook ? hook(hit) : Status();
}

int64_t FaultHooks::hits(const std::string& point) const {
  const std::lock_guard lock(mutex_);
  const auto it = hits_.find(point);
  return it == hits_.end() ? 0 : it->second;
}

std::string Ask(const Context& ctx, Engine& engine, std::string_view sql,
                const std::map<std::string, std::string>& settings) {
  QueryOptions options;
  options.settings = settings;
  const Result<QueryOutcome> outcome = engine.Query(ctx, sql, options);
  if (!outcome.ok()) return outcome.status().ToString();
  std::string text = outcome->text;
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void MustRun(const Context& ctx, Engine& engine, const std::vector<std::string>& statements) {
  for (const std::string& sql : statements) {
    QueryOptions options;
    options.idle_timeout_ms = 120'000;
    const Result<QueryOutcome> outcome = engine.Query(ctx, sql, options);
    ASSERT_TRUE(outcome.ok()) << sql << "\n" << outcome.status().ToString();
  }
}

}  // namespace partforge::clickhouse
