#include "testing/copy_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"

namespace partforge::testing {
namespace {

constexpr int kSwapsMax = 8;  // of one Apply against other writers

struct CopyTask {
  std::string source, target;
  int64_t from = 0, to = 0;  // lines
  bool is_compacted = false;
  std::string file;  // of a task that waits to be compacted: where its winner put the lines
};

Json DumpTask(const CopyTask& task) {
  JsonDoc payload = JsonDoc::object();
  payload["source"] = task.source;
  payload["target"] = task.target;
  payload["from"] = task.from;
  payload["to"] = task.to;
  payload["is_compacted"] = task.is_compacted;
  payload["file"] = task.file;
  return DumpJson(payload);
}

Result<CopyTask> ParseTask(const Json& payload) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(payload));
  JsonReader reader(doc, "payload of a copy task");
  CopyTask task;
  PF_ASSIGN(task.source, reader.String("source"));
  PF_ASSIGN(task.target, reader.String("target"));
  PF_ASSIGN(task.from, reader.Int("from"));
  PF_ASSIGN(task.to, reader.Int("to"));
  PF_ASSIGN(task.is_compacted, reader.Bool("is_compacted"));
  PF_ASSIGN(task.file, reader.StringOr("file", ""));
  return task;
}

Result<CopyRequest> ParseRequest(const Json& spec) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(spec));
  JsonReader reader(doc, "spec of a copy job");
  CopyRequest request;
  PF_ASSIGN(request.source, reader.String("source"));
  PF_ASSIGN(request.target, reader.String("target"));
  PF_ASSIGN(request.lines_per_task, reader.Int("lines_per_task"));
  PF_ASSIGN(const bool is_compacted, reader.Bool("is_compacted"));
  PF_TRY(reader.Finish());
  request.compaction = is_compacted ? CopyRequest::Compaction::kYes : CopyRequest::Compaction::kNo;
  return request;
}

std::string JoinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Writes the lines under the attempt's own prefix and says what became of them.
Result<TaskResult> WriteAttempt(const Context& ctx, ObjectStore& store, const std::string& target,
                                const TaskId& task, uint64_t epoch, const std::string& text) {
  const std::string key = fmt::format("{}/data/{}.{}/lines", target, task, epoch);
  PF_TRY(WriteObject(ctx, store, key, text));
  PF_FAULT(ctx, "copy.written");
  JsonDoc outputs = JsonDoc::object();
  outputs["file"] = key;
  TaskResult result;
  result.outputs = DumpJson(outputs);
  result.digest = DigestOfCopy(text);
  result.rows_out = result.rows_in = std::count(text.begin(), text.end(), '\n');
  result.bytes_out = result.bytes_in = std::ssize(text);
  result.group_key = target;
  result.partition_id = "all";
  result.parts_out = result.parts_peak = result.partitions_out = 1;
  return result;
}

std::string SnapshotKey(const std::string& target, int64_t version) {
  return fmt::format("{}/snapshot-{:010}", target, version);
}

Result<CopySnapshot> ParseSnapshot(const std::string& text) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(text));
  JsonReader reader(doc, "snapshot");
  CopySnapshot snapshot;
  PF_ASSIGN(snapshot.version, reader.Int("version"));
  PF_ASSIGN(snapshot.commit, reader.String("commit"));
  PF_ASSIGN(snapshot.files, reader.Strings("files"));
  PF_TRY(reader.Finish());
  return snapshot;
}

Json DumpSnapshot(const CopySnapshot& snapshot) {
  JsonDoc doc = JsonDoc::object();
  doc["version"] = snapshot.version;
  doc["commit"] = snapshot.commit;
  doc["files"] = snapshot.files;
  return DumpJson(doc);
}

const CopySnapshot* FindCommit(const std::vector<CopySnapshot>& snapshots, const CommitId& commit) {
  const auto it = std::find_if(snapshots.begin(), snapshots.end(),
                               [&](const CopySnapshot& one) { return one.commit == commit; });
  return it == snapshots.end() ? nullptr : &*it;
}

Json VersionEvidence(int64_t version) {
  JsonDoc doc = JsonDoc::object();
  doc["version"] = version;
  return DumpJson(doc);
}

int64_t CountIn(const JobView& view, std::initializer_list<TaskState> states) {
  int64_t tasks = 0;
  for (const StateCount& count : view.counts) {
    if (std::find(states.begin(), states.end(), count.state) != states.end()) tasks += count.tasks;
  }
  return tasks;
}

// Removes an announced object, whoever announced it, and says so.
Status DropThing(const Context& ctx, ObjectStore& store, CommitScope& scope, const Thing& thing) {
  const std::vector<std::string> keys = {thing.name};
  PF_TRY(store.Delete(ctx, keys));
  Thing gone = thing;
  gone.state = "GONE";
  return scope.SetThing(ctx, thing, gone);
}

}  // namespace

Failure ReadCopyFailure(const Status& status) {
  Failure failure = FailureFrom(status);
  const std::string& text = status.message();
  const size_t mark = text.find('#');
  if (mark != std::string::npos)
    std::from_chars(text.data() + mark + 1, text.data() + text.size(), failure.code);
  return failure;
}

JobSpec MakeCopyJob(const JobId& id, const std::string& kind, const CopyRequest& request) {
  JsonDoc doc = JsonDoc::object();
  doc["source"] = request.source;
  doc["target"] = request.target;
  doc["lines_per_task"] = request.lines_per_task;
  doc["is_compacted"] = request.compaction == CopyRequest::Compaction::kYes;
  JobSpec spec;
  spec.id = id;
  spec.kind = kind;
  spec.key = id;
  spec.target = request.target;
  spec.spec = DumpJson(doc);
  return spec;
}

Result<Plan> CopyPlanner::MakePlan(const Context& ctx, const JobSpec& spec) {
  PF_ASSIGN(const CopyRequest request, ParseRequest(spec.spec));
  if (request.lines_per_task < 1) {
    return Status(Code::kInvalidArgument,
                  fmt::format("lines per task must be positive: {}", request.lines_per_task));
  }
  PF_ASSIGN(const std::string text, ReadObject(ctx, store_, request.source));
  const auto line_count = std::ssize(SplitLines(text));
  Plan plan;
  plan.job = spec;
  for (int64_t from = 0; from < line_count; from += request.lines_per_task) {
    CopyTask copy;
    copy.source = request.source;
    copy.target = request.target;
    copy.from = from;
    copy.to = std::min<int64_t>(from + request.lines_per_task, line_count);
    copy.is_compacted = request.compaction == CopyRequest::Compaction::kYes;
    Task task;
    task.id = fmt::format("copy-{:06}", from);
    task.job = spec.id;
    task.kind = spec.kind;
    task.number = std::ssize(plan.tasks);
    task.size_bytes = request.lines_per_task;
    task.payload = DumpTask(copy);
    plan.tasks.push_back(std::move(task));
  }
  return plan;
}

std::vector<TaskEdit> CopyPlanner::Choose(const Candidates& candidates) {
  std::vector<TaskEdit> edits;
  if (candidates.batch.size() < 2) return edits;
  std::string inputs;
  for (const Task& task : candidates.batch) inputs += task.id + " ";
  const TaskId output = "compact-" + Sha256Hex(inputs).substr(0, 16);
  for (const Task& task : candidates.batch) {
    TaskEdit edit;
    edit.id = task.id;
    edit.from = TaskState::kCompactReady;
    edit.epoch = task.epoch;
    edit.to = TaskState::kCompacting;
    edit.superseded_by = output;
    edits.push_back(std::move(edit));
  }
  return edits;
}

Settlement CopyPlanner::Replan(const JobView& view, const Candidates& candidates) {
  Settlement settlement;
  const int64_t coming =
      CountIn(view, {TaskState::kReady, TaskState::kInProgress, TaskState::kCompacting});
  if (coming > 0 || candidates.batch.size() > 1) return settlement;
  for (const Task& task : candidates.batch) {
    TaskEdit edit;
    edit.id = task.id;
    edit.from = TaskState::kCompactReady;
    edit.epoch = task.epoch;
    edit.to = TaskState::kFinished;
    settlement.edits.push_back(std::move(edit));
  }
  return settlement;
}

Result<std::string> CopyExecutor::ReadLines(const Context& ctx, const Task& task) {
  PF_ASSIGN(const CopyTask copy, ParseTask(task.payload));
  PF_ASSIGN(const std::string source, ReadObject(ctx, store_, copy.source));
  const std::vector<std::string> lines = SplitLines(source);
  if (copy.from < 0 || copy.to < copy.from || copy.to > std::ssize(lines)) {
    return Status(Code::kCorruption, fmt::format("source has {} lines, the task wants {} to {}",
                                                 lines.size(), copy.from, copy.to));
  }
  return JoinLines({lines.begin() + copy.from, lines.begin() + copy.to});
}

Result<Settlement> CopyExecutor::Execute(const Context& ctx, const Lease& lease, TaskScope& scope) {
  const Task& first = lease.tasks.front();
  PF_ASSIGN(CopyTask copy, ParseTask(first.payload));
  PF_ASSIGN(const auto permit, scope.Enter(ctx, partforge::Stage::kNetwork));
  std::string text, inputs;
  for (const Task& task : lease.tasks) {
    PF_ASSIGN(const std::string lines, ReadLines(ctx, task));
    text += lines;
    inputs += task.id + " ";
  }
  Progress progress;
  progress.stage = "write";
  progress.rows = std::count(text.begin(), text.end(), '\n');
  PF_TRY(scope.Report(ctx, progress));
  PF_TRY(scope.CheckLease());
  PF_ASSIGN(TaskResult result, WriteAttempt(ctx, store_, copy.target, first.id, first.epoch, text));
  const TaskState done = copy.is_compacted ? TaskState::kCompactReady : TaskState::kFinished;
  PF_ASSIGN(copy.file, CopyFileOf(result.outputs));
  Settlement settlement;
  Task output;
  output.id = "gathered-" + Sha256Hex(inputs).substr(0, 16);
  for (const Task& task : lease.tasks) {
    TaskEdit edit;
    edit.id = task.id;
    edit.from = task.state;
    edit.epoch = task.epoch;
    edit.to = lease.tasks.size() > 1 ? TaskState::kSuperseded : done;
    if (lease.tasks.size() > 1) edit.superseded_by = output.id;
    output.size_bytes += task.size_bytes;
    settlement.edits.push_back(std::move(edit));
  }
  if (lease.tasks.size() == 1) {
    settlement.edits.front().result = std::move(result);
    settlement.edits.front().payload = DumpTask(copy);
    return settlement;
  }
  output.job = first.job;
  output.kind = first.kind;
  output.state = done;
  output.generation = 1;
  output.payload = DumpTask(copy);
  settlement.added.push_back(std::move(output));
  settlement.added_results.push_back(std::move(result));
  return settlement;
}

std::vector<std::vector<size_t>> CopyGatherer::Gather(const ClaimOffer& offer,
                                                      const Limits& limits) const {
  std::vector<std::vector<size_t>> leases;
  bool is_open = false;
  for (size_t i = 0; i < offer.tasks.size(); ++i) {
    const bool may_share = offer.tasks[i].failure_class.empty() && offer.tasks[i].crashes == 0;
    if (may_share && is_open && std::ssize(leases.back()) < tasks_max_) {
      leases.back().push_back(i);
      continue;
    }
    if (std::ssize(leases) >= limits.leases_max) break;
    leases.push_back({i});
    is_open = may_share;
  }
  return leases;
}

Result<Settlement> CopyBatchExecutor::Execute(const Context& ctx, const Lease& lease,
                                              TaskScope& scope) {
  PF_ASSIGN(CopyTask copy, ParseTask(lease.tasks.front().payload));
  std::string text;
  Settlement settlement;
  for (const Task& task : lease.tasks) {
    PF_ASSIGN(const CopyTask input, ParseTask(task.payload));
    PF_ASSIGN(const std::string one, ReadObject(ctx, store_, input.file));
    text += one;
    TaskEdit edit;
    edit.id = task.id;
    edit.from = task.state;
    edit.epoch = task.epoch;
    edit.to = TaskState::kSuperseded;
    edit.superseded_by = lease.output;
    settlement.edits.push_back(std::move(edit));
  }
  Progress progress;
  progress.stage = "merge";
  PF_TRY(scope.Report(ctx, progress));
  PF_TRY(scope.CheckLease());
  Task output;
  output.id = lease.output;
  output.job = lease.tasks.front().job;
  output.kind = lease.tasks.front().kind;
  output.state = TaskState::kCompactReady;
  output.size_bytes = std::ssize(text);
  for (const Task& task : lease.tasks)
    output.generation = std::max(output.generation, task.generation + 1);
  // Two attempts of one batch have the same output id and may not meet: the epoch tells them apart.
  const std::string attempt = fmt::format("{}-{}", lease.output, lease.tasks.front().epoch);
  PF_ASSIGN(TaskResult result, WriteAttempt(ctx, store_, copy.target, attempt, 1, text));
  PF_ASSIGN(copy.file, CopyFileOf(result.outputs));
  output.payload = DumpTask(copy);
  settlement.added.push_back(std::move(output));
  settlement.added_results.push_back(std::move(result));
  return settlement;
}

Result<Prepared> CopyCommitter::Prepare(const Context&, const Commit& proposal) {
  Prepared prepared;
  prepared.protocol = "COPY";
  prepared.target = proposal.target;
  return prepared;
}

Result<Staged> CopyCommitter::Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  JsonDoc files = JsonDoc::array();
  for (const Chosen& chosen : fenced.chosen) {
    PF_ASSIGN(const std::string file, CopyFileOf(chosen.result.outputs));
    PF_ASSIGN(const std::string text, ReadObject(ctx, store_, file));
    const std::string digest = DigestOfCopy(text);
    if (digest != chosen.result.digest) {
      return Status(Code::kCorruption, fmt::format("{} should have digest {}, it has {}", file,
                                                   chosen.result.digest, digest));
    }
    files.push_back(file);
  }
  Thing manifest;
  manifest.kind = "prefix";
  manifest.name = fmt::format("{}/meta/manifest-{}-{}", fenced.target, fenced.id, fenced.serial);
  PF_ASSIGN(const Thing intended, scope.Intend(ctx, manifest));
  JsonDoc doc = JsonDoc::object();
  doc["files"] = files;
  PF_TRY(WriteObject(ctx, store_, intended.name, DumpJson(doc)));
  PF_FAULT(ctx, "copy.staged_manifest");
  Staged staged;
  doc["manifest"] = intended.name;
  staged.staged = DumpJson(doc);
  return staged;
}

// One snapshot object can be made by one writer only, so a bound name needs no renaming from epoch
// to epoch.
Status CopyCommitter::Take(const Context&, const Commit&, CommitScope&) {
  return {};
}

Result<Evidence> CopyCommitter::Inspect(const Context& ctx, const Commit& fenced, CommitScope&) {
  PF_ASSIGN(const auto snapshots, ReadCopySnapshots(ctx, store_, fenced.target));
  return FindCommit(snapshots, fenced.id) != nullptr ? Evidence::kApplied : Evidence::kNotApplied;
}

Result<Json> CopyCommitter::Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  PF_ASSIGN(const JsonDoc staged, ParseJson(fenced.staged));
  JsonReader reader(staged, "staged of a copy");
  PF_ASSIGN(const std::vector<std::string> files, reader.Strings("files"));
  for (int tries = 0; tries < kSwapsMax; ++tries) {
    PF_TRY(scope.Hold(ctx));
    PF_ASSIGN(const auto snapshots, ReadCopySnapshots(ctx, store_, fenced.target));
    if (const CopySnapshot* ours = FindCommit(snapshots, fenced.id);
        ours != nullptr && identity_ == Identity::kKept) {
      return VersionEvidence(ours->version);
    }
    CopySnapshot next = snapshots.empty() ? CopySnapshot{} : snapshots.back();
    ++next.version;
    next.commit = fenced.id;
    next.files.insert(next.files.end(), files.begin(), files.end());
    const Json text = DumpSnapshot(next);
    PF_ASSIGN(const PutOutcome put,
              store_.PutIfAbsent(ctx, SnapshotKey(fenced.target, next.version), AsBytes(text)));
    if (put == PutOutcome::kAlreadyThere) continue;
    PF_FAULT(ctx, "copy.swapped");
    return VersionEvidence(next.version);
  }
  return Status(Code::kConflict,
                fmt::format("lost {} races for the next snapshot of {}", kSwapsMax, fenced.target));
}

Status CopyCommitter::Retract(const Context&, const Commit& fenced, CommitScope&) {
  return Status(Code::kRefused, fmt::format("a copy can only go forward: {}", fenced.id));
}

Status CopyCommitter::Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) {
  const std::string ours = fmt::format("{}/meta/manifest-{}-", fenced.target, fenced.id);
  PF_ASSIGN(const auto things, scope.Things(ctx));
  for (const Thing& thing : things) {
    if (thing.state == "GONE" || !thing.name.starts_with(ours)) continue;
    PF_TRY(DropThing(ctx, store_, scope, thing));
  }
  return {};
}

Result<std::vector<CopySnapshot>> ReadCopySnapshots(const Context& ctx, ObjectStore& store,
                                                    const std::string& target) {
  PF_ASSIGN(const auto objects, ListAll(ctx, store, target + "/snapshot-"));
  std::vector<CopySnapshot> snapshots;
  for (const ObjectInfo& object : objects) {
    PF_ASSIGN(const std::string text, ReadObject(ctx, store, object.key));
    PF_ASSIGN(CopySnapshot snapshot, ParseSnapshot(text));
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

Result<std::vector<std::string>> ReadCopyTable(const Context& ctx, ObjectStore& store,
                                               const std::string& target) {
  PF_ASSIGN(const auto snapshots, ReadCopySnapshots(ctx, store, target));
  std::vector<std::string> lines;
  if (snapshots.empty()) return lines;
  for (const std::string& file : snapshots.back().files) {
    PF_ASSIGN(const std::string text, ReadObject(ctx, store, file));
    for (std::string& line : SplitLines(text)) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string DigestOfCopy(std::string_view text) {
  return Sha256Hex(text);
}

Result<std::string> CopyFileOf(const Json& outputs) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(outputs));
  return JsonReader(doc, "outputs of a copy task").String("file");
}

}  // namespace partforge::testing
