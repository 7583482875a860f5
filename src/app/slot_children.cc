#include "app/slot_children.h"

#include <fmt/format.h>

namespace partforge::app {
namespace {

ChildEngineOptions OptionsFor(const EngineChoice& choice, const std::filesystem::path& data_path) {
  ChildEngineOptions options;
  options.data_path = data_path;
  options.library = choice.library;
  options.uses_huge_pages = choice.uses_huge_pages;
  options.server_binary = choice.binary;
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
                                  const std::filesystem::path& data_path) {
  auto& child = children_.at(static_cast<size_t>(slot));
  if (child == nullptr) {
    PF_ASSIGN(child, ChildEngine::Start(ctx, OptionsFor(choice_, data_path)));
    ctx.log.Debug("engine started",
                  {{"slot", slot}, {"pid", child->pid()}, {"version", child->version()}});
  } else if (child->Ended()) {
    ctx.metrics.Add("partforge_engine_restarts_total", {});
    PF_TRY(child->Restart(ctx));
    ctx.log.Warn("engine started again", {{"slot", slot}, {"pid", child->pid()}});
  }
  return child.get();
}

bool SlotChildren::IsAlive(int slot) {
  const auto& child = children_.at(static_cast<size_t>(slot));
  return child != nullptr && !child->Ended();
}

void SlotChildren::Stop(const Context& ctx, int slot) {
  auto& child = children_.at(static_cast<size_t>(slot));
  if (child == nullptr) return;
  const Result<ExitState> ended = child->Stop(ctx);
  if (!ended.ok()) Ignore(ctx, ended.status(), "its data are scratch");
  child.reset();
}

int64_t SlotChildren::PeakMemoryBytes(int slot) {
  const auto& child = children_.at(static_cast<size_t>(slot));
  return child == nullptr ? 0 : child->PeakResidentBytes();
}

}  // namespace partforge::app
