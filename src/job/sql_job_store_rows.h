#pragma once

#include <set>

#include "job/commit.h"
#include "job/sql_db.h"
#include "job/task.h"

// What several files of SqlJobStore need inside their transactions.
namespace partforge {

// 42 random bits, above zero: base of MARKER values and of staged names.
uint64_t DrawSerial(Random& random);

// Milliseconds of the store's clock.
Result<int64_t> StoreNow(SqlSession& session);

// A task, locked where rows can be. kNotFound when it is absent.
Result<Task> LockTask(SqlSession& session, const JobId& job, const TaskId& task);

// A JSON array of ids, for statements with {ids}.
std::string IdsOf(const std::vector<Task>& tasks);
std::string IdsOf(const std::vector<TaskEdit>& edits);
std::string IdsOf(const std::set<TaskId>& ids);

// A commit with its `chosen`, with or without their results. kNotFound when it is absent.
enum class WithResults : uint8_t { kNo, kYes };
Result<Commit> LoadCommit(SqlSession& session, const CommitId& id, WithResults with_results);
// Ids and epochs of the chosen attempts.
Result<std::vector<Chosen>> LoadChosenIds(SqlSession& session, const CommitId& id);

// The payload with `error` set to the text, or without it when the text is empty. A payload that is
// no JSON object is given back as it is.
Json WithError(const Json& payload, std::string_view error);

// {"error": …} for a note, {} when empty.
Json ErrorDetail(std::string_view error);

// A job or a task that the store does not know (PF2130, PF2151).
Status NoSuchJob(const JobId& job);
Status NoSuchTask(const JobId& job, const TaskId& task);

// The failure of a statement that changed nothing.
Status LeaseLost(std::string_view doing, std::string_view task, uint64_t epoch);

}  // namespace partforge
