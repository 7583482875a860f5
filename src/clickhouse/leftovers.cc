#include "clickhouse/leftovers.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <utility>

#include "base/ids.h"
#include "clickhouse/artifact.h"
#include "clickhouse/rewrite_job.h"
#include "job/each_task.h"

namespace partforge::clickhouse {
namespace {

constexpr std::array<std::string_view, 3> kFolders = {"finished/", "meta/", "chunks/"};
// The attempt that owns a key: the first segment behind the folder, without ".json".
std::string AttemptOf(std::string_view rest) {
  std::string name(rest.substr(0, rest.find('/')));
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  return name;
}

// Of the attempts of this task whose objects must stay, "<task>.<epoch>".
void AddNamesInUse(const Task& task, std::set<std::string>& names) {
  names.insert(task.id);  // the reference's layout, without an epoch
  if (task.winner != 0) names.insert(fmt::format("{}.{}", task.id, task.winner));
  const bool is_owned =
      task.state == TaskState::kInProgress || task.state == TaskState::kCompacting;
  if (is_owned) names.insert(fmt::format("{}.{}", task.id, task.epoch));
}

// The same of an output of several inputs: its objects lie under the name of an input's attempt, as
// its result says.
Status AddNamesOfOutput(const Context& ctx, StateReader& state, const JobKeys& keys,
                        const Task& output, std::set<std::string>& names) {
  PF_ASSIGN(const std::vector<AttemptView> attempts, state.Attempts(ctx, output.job, output.id));
  for (const AttemptView& attempt : attempts) {
    if (output.winner == 0 || attempt.epoch != output.winner) continue;
    PF_ASSIGN(const RewriteOutput result, RewriteOutput::FromJson(attempt.result));
    for (const auto& [key, folder] :
         {std::pair(result.finished_key, kFolders[0]), std::pair(result.meta_key, kFolders[1])}) {
      const std::string prefix = fmt::format("{}/{}", keys.root(), folder);
      if (key.starts_with(prefix)) names.insert(AttemptOf(key.substr(prefix.size())));
    }
  }
  return {};
}

Result<std::set<std::string>> NamesInUse(const Context& ctx, StateReader& state,
                                         const JobKeys& keys, const std::string& job) {
  std::set<std::string> names;
  PF_TRY(ForEachTask(ctx, state, job, [&](const Task& task) -> Status {
    AddNamesInUse(task, names);
    return task.generation > 0 ? AddNamesOfOutput(ctx, state, keys, task, names) : Status();
  }));
  return names;
}

// Asks the row of the task itself about an attempt that no task seen so far has named: a task may
// have moved since it was seen, and what is deleted does not come back.
Status AskRowOf(const Context& ctx, StateReader& state, const JobKeys& keys, const std::string& job,
                const std::string& attempt, std::set<std::string>& names) {
  std::vector<std::string> ids = {attempt};
  if (const size_t dot = attempt.rfind('.'); dot != std::string::npos)
    ids.push_back(attempt.substr(0, dot));
  for (const std::string& id : ids) {
    if (!IsValidId(id)) continue;
    const Result<Task> task = state.GetTask(ctx, job, id);
    if (!task.ok() && task.status().code() == Code::kNotFound) continue;
    PF_TRY(task);
    AddNamesInUse(*task, names);
    if (task->superseded_by.empty()) continue;
    // It may have been superseded since it was seen, by an output that was not there yet.
    const Result<Task> output = state.GetTask(ctx, job, task->superseded_by);
    if (!output.ok() && output.status().code() == Code::kNotFound) continue;
    PF_TRY(output);
    PF_TRY(AddNamesOfOutput(ctx, state, keys, *output, names));
  }
  return {};
}

}  // namespace

Result<std::vector<Leftover>> FindLeftovers(const Context& ctx, StateReader& state,
                                            ObjectStore& store, const std::string& job,
                                            int64_t before_ms) {
  PF_ASSIGN(const JobView view, state.View(ctx, job));
  PF_ASSIGN(const RewriteJobSpec spec, RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const JobKeys keys, JobKeys::Make(spec.prefix, job));
  std::vector<Leftover> leftovers;
  for (const std::string_view folder : kFolders) {
    const std::string prefix = fmt::format("{}/{}", keys.root(), folder);
    // Objects first, rows second: what was written after the listing is not in it, and what the
    // rows name now stays.
    PF_ASSIGN(const std::vector<ObjectInfo> objects, ListAll(ctx, store, prefix));
    PF_ASSIGN(std::set<std::string> in_use, NamesInUse(ctx, state, keys, job));
    std::set<std::string> asked;
    for (const ObjectInfo& object : objects) {
      const std::string attempt = AttemptOf(std::string_view(object.key).substr(prefix.size()));
      if (in_use.contains(attempt) || object.modified_ms >= before_ms) continue;
      if (asked.insert(attempt).second) PF_TRY(AskRowOf(ctx, state, keys, job, attempt, in_use));
      if (in_use.contains(attempt)) continue;
      leftovers.push_back(Leftover{
          .key = object.key, .size_bytes = object.size_bytes, .modified_ms = object.modified_ms});
    }
  }
  return leftovers;
}

Status DeleteLeftovers(const Context& ctx, ObjectStore& store, const std::string& bucket,
                       const std::string& job, const std::vector<Leftover>& leftovers) {
  std::vector<std::string> keys;
  for (const Leftover& leftover : leftovers) {
    PF_TRY(DeletionRoot(bucket, leftover.key, job));
    keys.push_back(leftover.key);
  }
  if (keys.empty()) return {};
  PF_TRY(store.Delete(ctx, keys));
  PF_FAULT(ctx, "clickhouse.leftovers_deleted");
  return {};
}

}  // namespace partforge::clickhouse
