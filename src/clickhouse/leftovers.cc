#include "clickhouse/leftovers.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "clickhouse/artifact.h"
#include "clickhouse/rewrite_job.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kPageTasks = 1000;
constexpr std::array<std::string_view, 3> kFolders = {"finished/", "meta/", "chunks/"};
constexpr std::array<TaskState, 9> kStates = {
    TaskState::kReady,      TaskState::kInProgress, TaskState::kCompactReady,
    TaskState::kCompacting, TaskState::kSuperseded, TaskState::kFinished,
    TaskState::kImporting,  TaskState::kImported,   TaskState::kFailed};

// "<task>.<epoch>" of every attempt whose objects must stay.
Result<std::set<std::string>> NamesInUse(const Context& ctx, StateReader& state,
                                         const std::string& job) {
  std::set<std::string> names;
  for (const TaskState wanted : kStates) {
    std::string after;
    while (true) {
      PF_ASSIGN(const TaskPage page, state.Page(ctx, job, wanted, after, kPageTasks));
      for (const Task& task : page.tasks) {
        names.insert(task.id);  // the reference's layout, without an epoch
        if (task.winner != 0) names.insert(fmt::format("{}.{}", task.id, task.winner));
        const bool is_owned =
            task.state == TaskState::kInProgress || task.state == TaskState::kCompacting;
        if (is_owned) names.insert(fmt::format("{}.{}", task.id, task.epoch));
      }
      if (!page.next) break;
      after = *page.next;
    }
  }
  return names;
}

// The attempt that owns a key: the first segment behind the folder, without ".json".
std::string AttemptOf(std::string_view rest) {
  std::string name(rest.substr(0, rest.find('/')));
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  return name;
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
    PF_ASSIGN(const std::set<std::string> in_use, NamesInUse(ctx, state, job));
    for (const ObjectInfo& object : objects) {
      const std::string_view rest = std::string_view(object.key).substr(prefix.size());
      if (in_use.contains(AttemptOf(rest)) || object.modified_ms >= before_ms) continue;
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
