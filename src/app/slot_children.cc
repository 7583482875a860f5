#include "app/slot_children.h"

#include <fmt/format.h>

#include "app/version.h"

namespace partforge::app {
namespace {

// From SIGTERM to SIGKILL: all that a slot's engine holds is scratch (clickhouse-parts §9.9).
constexpr int64_t kStopMs = 10'000;

ChildEngineOptions OptionsFor(const EngineChoice& choice, const clickhouse::EngineWish& wish) {
  ChildEngineOptions options;
  options.data_path = wish.data_path;
  options.timezone = wish.timezone;
  options.allows_external_reads = wish.allows_external_reads;
  options.library = choice.library;
  options.uses_huge_pages = choice.uses_huge_pages;
  options.server_binary = choice.binary;
  options.stop_timeout_ms = kStopMs;
  // The engine refuses an allocation before the kernel would kill it; room for its own base is left
  // on top of the cap.
  if (choice.memory_bytes_max > 0)
    options.config["max_server_memory_usage"] = fmt::format("{}", choice.memory_bytes_max);
  options.config["background_pool_size"] = "2";
  options.config["background_merges_mutations_concurrency_ratio"] = "1";
  // So small a pool is refused with the engine's own thresholds.
  options.config["merge_tree.number_of_free_entries_in_pool_to_lower_max_size_of_merge"] = "1";
  options.config["merge_tree.number_of_free_entries_in_pool_to_execute_mutation"] = "1";
  options.config["merge_tree.number_of_free_entries_in_pool_to_execute_optimize_entire_partition"] =
      "1";
  return options;
}

}  // namespace

Result<Engine*> SlotChildren::Get(const Context& ctx, int slot,
                                  const clickhouse::EngineWish& wish) {
  Slot& own = slots_.at(static_cast<size_t>(slot));
  if (own.child != nullptr && own.wish != wish) Stop(ctx, slot);
  if (own.child == nullptr) {
    PF_ASSIGN(own.child, ChildEngine::Start(ctx, OptionsFor(choice_, wish)));
    own.wish = wish;
    TellBuild(ctx, own.child->version());
    ctx.log.Debug("engine started", {{"slot", slot},
                                     {"pid", own.child->pid()},
                                     {"version", own.child->version()},
                                     {"timezone", wish.timezone}});
  } else if (own.child->Ended()) {
    ctx.metrics.Add("partforge_engine_restarts_total", {});
    PF_TRY(own.child->Restart(ctx));
    ctx.log.Warn("engine started again", {{"slot", slot}, {"pid", own.child->pid()}});
  }
  return own.child.get();
}

bool SlotChildren::IsAlive(int slot) {
  const auto& child = slots_.at(static_cast<size_t>(slot)).child;
  return child != nullptr && !child->Ended();
}

void SlotChildren::Stop(const Context& ctx, int slot) {
  auto& child = slots_.at(static_cast<size_t>(slot)).child;
  if (child == nullptr) return;
  const Result<ExitState> ended = child->Stop(ctx);
  if (!ended.ok()) Ignore(ctx, ended.status(), "its data are scratch");
  child.reset();
}

void SlotChildren::Discard(const Context& ctx, int slot) {
  auto& child = slots_.at(static_cast<size_t>(slot)).child;
  if (child == nullptr) return;
  ctx.log.Warn("engine is killed", {{"slot", slot}, {"pid", child->pid()}});
  // The object stays: who holds it goes on with the process that Get starts.
  const Result<ExitState> ended = child->Discard(ctx);
  if (!ended.ok()) Ignore(ctx, ended.status(), "its data are scratch");
}

int64_t SlotChildren::CpuMs(int slot) {
  const auto& child = slots_.at(static_cast<size_t>(slot)).child;
  return child == nullptr ? 0 : child->CpuMs();
}

int64_t SlotChildren::PeakMemoryBytes(int slot) {
  const auto& child = slots_.at(static_cast<size_t>(slot)).child;
  return child == nullptr ? 0 : child->PeakResidentBytes();
}

}  // namespace partforge::app
