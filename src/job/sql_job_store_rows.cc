#include "job/sql_job_store_rows.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "job/job_rows.h"
#include "job/sql_statements.h"

namespace partforge {
namespace {

constexpr uint64_t kSerialMask = (uint64_t{1} << 42) - 1;
// A claim of several tasks counts on from its serial, so the top of the range stays free.
constexpr uint64_t kSerialReserve = 1 << 16;

}  // namespace

uint64_t DrawSerial(Random& random) {
  return 1 + RandomBelow(random, kSerialMask - kSerialReserve);
}

Result<int64_t> StoreNow(SqlSession& session) {
  PF_ASSIGN(const SqlRows rows, session.Run(statements::kNow, {}));
  return rows.row(0).Int(0);
}

Result<Task> LockTask(SqlSession& session, const JobId& job, const TaskId& task) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kTaskForUpdate, {{"job", job}, {"task", task}}));
  if (rows.empty()) {
    return NoSuchTask(job, task);
  }
  return ReadTask(rows.row(0));
}

namespace {

template <class T>
std::string DumpIds(const std::vector<T>& all) {
  JsonDoc ids = JsonDoc::array();
  for (const T& one : all) ids.push_back(one.id);
  return DumpJson(ids);
}

}  // namespace

std::string IdsOf(const std::vector<Task>& tasks) {
  return DumpIds(tasks);
}

std::string IdsOf(const std::vector<TaskEdit>& edits) {
  return DumpIds(edits);
}

std::string IdsOf(const std::set<TaskId>& ids) {
  return DumpJson(JsonDoc(ids));
}

Result<std::vector<Chosen>> LoadChosenIds(SqlSession& session, const CommitId& id) {
  PF_ASSIGN(SqlRows rows, session.Run(statements::kChosenIds, {{"commit", id}}));
  if (rows.empty()) {
    PF_ASSIGN(rows, session.Run(statements::kChosenByPieces, {{"commit", id}}));
  }
  std::vector<Chosen> chosen(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    chosen[i].task = rows.row(i).Text(0);
    chosen[i].epoch = rows.row(i).Uint(1);
  }
  return chosen;
}

Result<Commit> LoadCommit(SqlSession& session, const CommitId& id, WithResults with_results) {
  PF_ASSIGN(const SqlRows rows, session.Run(statements::kOneCommit, {{"commit", id}}));
  if (rows.empty()) return Status(Code::kNotFound, fmt::format("no such commit: {}", id));
  PF_ASSIGN(Commit commit, ReadCommit(rows.row(0)));
  if (with_results == WithResults::kYes) {
    PF_ASSIGN(const SqlRows chosen, session.Run(statements::kChosen, {{"commit", id}}));
    for (size_t i = 0; i < chosen.size(); ++i) commit.chosen.push_back(ReadChosen(chosen.row(i)));
    if (!commit.chosen.empty()) return commit;
  }
  PF_ASSIGN(commit.chosen, LoadChosenIds(session, id));
  return commit;
}

Json WithError(const Json& payload, std::string_view error) {
  // Most payloads never had an error: leave their text as the planner wrote it.
  if (error.empty() && payload.find("\"error\"") == std::string::npos) return payload;
  Result<JsonDoc> doc = ParseJson(payload);
  if (!doc.ok() || !doc->is_object()) return payload;
  if (error.empty()) {
    doc->erase("error");
  } else {
    (*doc)["error"] = std::string(error);
  }
  return DumpJson(*doc);
}

Json ErrorDetail(std::string_view error) {
  if (error.empty()) return "{}";
  JsonDoc doc = JsonDoc::object();
  doc["error"] = std::string(error);
  return DumpJson(doc);
}

Status NoSuchJob(const JobId& job) {
  return Status(Code::kNotFound, fmt::format("no such job: {}", job))
      .Explain(2130, job, "partforge list-jobs   lists the jobs of this state store");
}

Status NoSuchTask(const JobId& job, const TaskId& task) {
  return Status(Code::kNotFound, fmt::format("no such part in job {}: {}", job, task))
      .Explain(2151, fmt::format("{}, part {}", job, task),
               fmt::format("partforge job-status --job-id={} --parts", job));
}

Status LeaseLost(std::string_view doing, std::string_view task, uint64_t epoch) {
  return Status(Code::kLeaseLost,
                fmt::format("{}: the attempt is no longer open: {}.{}", doing, task, epoch));
}

}  // namespace partforge
