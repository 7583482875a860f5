#pragma once

#include "job/sql_text.h"

// Every statement of the job store, under the names of specs state-schema §4. Where more columns
// stand here than there ({task_columns}), it is so that a whole Task comes back; guards and effects
// are the same.
namespace partforge::statements {

inline constexpr SqlStatement kNow = {"now", "SELECT pf_now()"};

// ---- §4.1 jobs and tasks
inline constexpr SqlStatement kCreateJob = {"create_job", R"sql(
INSERT INTO jobs (job_id, kind, idem_key, spec_hash, name, state, publish, target, mode, open_ttl_ms, touched_at, created_at, payload)
VALUES (:job, :kind, :key, :spec_hash, :name, 'OPEN', :publish, :target, :mode, :open_ttl_ms, pf_now(), pf_now(), :payload)
ON CONFLICT (idem_key) DO NOTHING)sql"};
inline constexpr SqlStatement kFindJob = {
    "find_job", "SELECT job_id, spec_hash, state FROM jobs WHERE idem_key = :key"};
inline constexpr SqlStatement kAddTask = {"add_task", R"sql(
INSERT INTO tasks (job_id, task_id, task_no, kind, state, size_bytes, group_key, partition_id, created_at, updated_at, source_job_id, source_task_id, payload)
SELECT job_id, :task, :task_no, :kind, 'READY', :size_bytes, :group, :partition, pf_now(), pf_now(), :source_job, :source_task, :payload FROM jobs WHERE job_id = :job AND state = 'OPEN'
ON CONFLICT (job_id, task_id) DO NOTHING)sql"};
inline constexpr SqlStatement kJobForShare = {
    "job_for_share", "SELECT state FROM jobs WHERE job_id = :job {for_share}"};
inline constexpr SqlStatement kSeal = {"seal", R"sql(
UPDATE jobs SET state = 'SEALED', tasks_expected = :expected, sealed_at = pf_now()
WHERE job_id = :job AND state = 'OPEN' AND (SELECT count(*) FROM tasks t WHERE t.job_id = :job AND t.generation = 0) = :expected)sql"};
inline constexpr SqlStatement kAbortJob = {"abort_job", R"sql(
UPDATE jobs SET state = 'ABORTING', ended_at = pf_now()
WHERE job_id = :job AND state IN ('OPEN', 'SEALED') AND NOT EXISTS (SELECT 1 FROM commits c WHERE c.job_id = :job AND c.state <> 'ABORTED'))sql"};
inline constexpr SqlStatement kAbortJobAttempts = {"abort_job_attempts", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND state = 'OPEN')sql"};
inline constexpr SqlStatement kAbortJobDone = {"abort_job_done", R"sql(
UPDATE jobs SET state = 'ABORTED' WHERE job_id = :job AND state = 'ABORTING'
  AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.job_id = :job AND o.state <> 'GONE'))sql"};
inline constexpr SqlStatement kPause = {"pause",
                                        "UPDATE jobs SET paused = :paused WHERE job_id = :job"};
inline constexpr SqlStatement kTouch = {
    "touch",
    "UPDATE jobs SET touched_at = pf_now() WHERE job_id = :job AND touched_at < pf_now() - 60000"};

// ---- §4.2 claim
inline constexpr SqlStatement kClaimHeads = {"claim_heads", R"sql(
SELECT j.job_id, coalesce((SELECT max(t.size_bytes) FROM tasks t WHERE t.job_id = j.job_id AND t.kind = :kind AND t.state = 'READY'), -1) AS head
FROM jobs j WHERE j.state IN ('OPEN', 'SEALED') AND j.paused = 0 ORDER BY head DESC, j.created_at, j.job_id LIMIT 8 OFFSET :offset)sql"};
inline constexpr SqlStatement kClaimHeadOf = {"claim_head_of", R"sql(
SELECT j.job_id, coalesce((SELECT max(t.size_bytes) FROM tasks t WHERE t.job_id = j.job_id AND t.kind = :kind AND t.state = 'READY'), -1) AS head
FROM jobs j WHERE j.job_id = :job AND j.state IN ('OPEN', 'SEALED') AND j.paused = 0)sql"};
inline constexpr SqlStatement kClaim = {"claim", R"sql(
WITH pick AS MATERIALIZED (
  SELECT job_id, task_id FROM tasks
  WHERE job_id = :job AND kind = :kind AND state = 'READY' AND not_before <= pf_now() AND size_bytes <= :size_max
  ORDER BY size_bytes DESC, created_at, task_id LIMIT :limit {skip_locked})
UPDATE tasks SET state = 'IN_PROGRESS', epoch = epoch + 1, attempts = attempts + 1, started_at = pf_now(), updated_at = pf_now()
FROM pick WHERE tasks.job_id = pick.job_id AND tasks.task_id = pick.task_id AND tasks.state = 'READY'
RETURNING {task_columns})sql"};
// Tasks that are taken together (tier T5b of performance §4): what there is, then those chosen.
inline constexpr SqlStatement kOfferHead = {"offer_head", R"sql(
SELECT size_bytes FROM tasks
WHERE job_id = :job AND kind = :kind AND state = 'READY' AND not_before <= pf_now() AND size_bytes <= :size_max
ORDER BY size_bytes DESC LIMIT 1)sql"};
inline constexpr SqlStatement kOfferJob = {"offer_job", R"sql(
SELECT j.payload, (SELECT coalesce(sum(c.bytes), 0) FROM counters c WHERE c.job_id = :job AND c.state = 'READY')
FROM jobs j WHERE j.job_id = :job)sql"};
inline constexpr SqlStatement kOffer = {"offer", R"sql(
SELECT {task_columns} FROM tasks
WHERE job_id = :job AND kind = :kind AND state = 'READY' AND not_before <= pf_now() AND size_bytes <= :size_max
ORDER BY size_bytes DESC, created_at, task_id LIMIT :limit {skip_locked})sql"};
inline constexpr SqlStatement kClaimGathered = {"claim_gathered", R"sql(
UPDATE tasks SET state = 'IN_PROGRESS', epoch = epoch + 1, attempts = attempts + 1, started_at = pf_now(), updated_at = pf_now()
WHERE job_id = :job AND state = 'READY' AND task_id IN {ids}
RETURNING {task_columns})sql"};
inline constexpr SqlStatement kOpenGathered = {"open_gathered", R"sql(
INSERT INTO attempts (job_id, task_id, epoch, label, state, owner, token, serial, lease_until, opened_at)
SELECT job_id, task_id, epoch, '', 'OPEN', :owner, :token, :serial + row_number() OVER (), pf_now() + :lease_ms, pf_now()
FROM tasks WHERE job_id = :job AND task_id IN {ids}
RETURNING task_id, serial)sql"};
inline constexpr SqlStatement kNoteMany = {"note_many", R"sql(
INSERT INTO events (at, job_id, task_id, epoch, actor, event, from_state, to_state)
SELECT pf_now(), job_id, task_id, epoch, :actor, :event, :from, :to FROM tasks WHERE job_id = :job AND task_id IN {ids} ORDER BY task_id)sql"};
// A token is a lease's, and a lease is one task here: :token is its first 24 digits.
inline constexpr SqlStatement kClaimPostgres = {"claim_postgres", R"sql(
WITH pick AS MATERIALIZED (
  SELECT job_id, task_id FROM tasks
  WHERE job_id = :job AND kind = :kind AND state = 'READY' AND not_before <= pf_now() AND size_bytes <= :size_max
  ORDER BY size_bytes DESC, created_at, task_id LIMIT :limit FOR UPDATE SKIP LOCKED),
won AS (
  UPDATE tasks SET state = 'IN_PROGRESS', epoch = epoch + 1, attempts = attempts + 1, started_at = pf_now(), updated_at = pf_now()
  FROM pick WHERE tasks.job_id = pick.job_id AND tasks.task_id = pick.task_id AND tasks.state = 'READY'
  RETURNING {task_columns}),
opened AS (
  INSERT INTO attempts (job_id, task_id, epoch, label, state, owner, token, serial, lease_until, opened_at)
  SELECT job_id, task_id, epoch, '', 'OPEN', :owner, :token || lpad(to_hex(row_number() OVER ()), 8, '0'), :serial + row_number() OVER (), pf_now() + :lease_ms, pf_now() FROM won
  RETURNING task_id, serial, token),
counted AS (
  INSERT INTO counters (job_id, state, slot, n, bytes, parts, row_count)
  SELECT job_id, s, :slot, count(*) * k, sum(size_bytes) * k, 0, 0 FROM won, (VALUES ('IN_PROGRESS', 1), ('READY', -1)) AS v (s, k) GROUP BY job_id, s, k ORDER BY s
  ON CONFLICT (job_id, state, slot) DO UPDATE SET n = counters.n + excluded.n, bytes = counters.bytes + excluded.bytes),
noted AS (
  INSERT INTO events (at, job_id, task_id, epoch, actor, event, from_state, to_state)
  SELECT pf_now(), job_id, task_id, epoch, :owner, 'claimed', 'READY', 'IN_PROGRESS' FROM won)
SELECT won.*, opened.serial, opened.token FROM won JOIN opened ON opened.task_id = won.task_id)sql"};
inline constexpr SqlStatement kOpenAttempt = {"open_attempt", R"sql(
INSERT INTO attempts (job_id, task_id, epoch, label, state, owner, token, serial, lease_until, opened_at)
VALUES (:job, :task, :epoch, :label, 'OPEN', :owner, :token, :serial, pf_now() + :lease_ms, pf_now()))sql"};
inline constexpr SqlStatement kFindLabel = {"find_label", R"sql(
SELECT epoch, state, owner, token, serial FROM attempts WHERE job_id = :job AND task_id = :task AND label = :label AND label <> '')sql"};
inline constexpr SqlStatement kClaimNamed = {"claim_named", R"sql(
UPDATE tasks SET state = CASE WHEN state = 'READY' THEN 'IN_PROGRESS' ELSE state END, epoch = epoch + 1, attempts = attempts + 1, updated_at = pf_now()
WHERE job_id = :job AND task_id = :task AND commit_id = '' AND state IN ('READY', 'IN_PROGRESS', 'FINISHED')
  AND EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = :job AND j.state IN ('OPEN', 'SEALED'))
RETURNING {task_columns})sql"};
inline constexpr SqlStatement kClaimTwin = {"claim_twin", R"sql(
UPDATE tasks SET epoch = epoch + 1, attempts = attempts + 1, updated_at = pf_now()
WHERE job_id = :job AND task_id = :task AND state = 'IN_PROGRESS' AND epoch = :epoch
  AND (SELECT count(*) FROM attempts a WHERE a.job_id = :job AND a.task_id = :task AND a.state = 'OPEN') = 1
RETURNING {task_columns})sql"};

// ---- §4.3 claim a batch
inline constexpr SqlStatement kJobIsWorking = {
    "job_is_working",
    "SELECT count(*) FROM jobs WHERE job_id = :job AND state IN ('OPEN', 'SEALED') AND paused = 0"};
inline constexpr SqlStatement kPickFragmented = {"pick_fragmented", R"sql(
SELECT {task_columns} FROM tasks
WHERE job_id = :job AND state = 'COMPACT_READY' AND parts_peak > 1 ORDER BY parts_out DESC, created_at, task_id LIMIT 16 {skip_locked})sql"};
inline constexpr SqlStatement kPickSmallest = {"pick_smallest", R"sql(
SELECT {task_columns_t} FROM tasks t
WHERE t.job_id = :job AND t.state = 'COMPACT_READY' AND t.parts_out = 1
  AND EXISTS (SELECT 1 FROM tasks s WHERE s.job_id = t.job_id AND s.group_key = t.group_key AND s.partition_id = t.partition_id
              AND s.state = 'COMPACT_READY' AND s.parts_out = 1 AND s.task_id <> t.task_id AND s.bytes_out + t.bytes_out <= :bytes_max)
ORDER BY t.bytes_out, t.task_id LIMIT 1 {skip_locked_t})sql"};
inline constexpr SqlStatement kPickSiblings = {"pick_siblings", R"sql(
SELECT {task_columns} FROM tasks
WHERE job_id = :job AND group_key = :group AND partition_id = :partition AND state = 'COMPACT_READY' AND parts_out = 1 AND task_id <> :task
ORDER BY bytes_out, task_id LIMIT :limit {skip_locked})sql"};
inline constexpr SqlStatement kClaimBatch = {"claim_batch", R"sql(
UPDATE tasks SET state = 'COMPACTING', epoch = epoch + 1, attempts = attempts + 1, output_id = :output, finalize_at = 0, updated_at = pf_now()
WHERE job_id = :job AND task_id = :task AND state = 'COMPACT_READY' AND epoch = :epoch RETURNING {task_columns})sql"};

// ---- §4.4 renew
inline constexpr SqlStatement kRenew = {"renew", R"sql(
UPDATE attempts SET lease_until = pf_now() + :lease_ms WHERE job_id = :job AND task_id = :task AND epoch = :epoch AND token = :token AND state = 'OPEN')sql"};
inline constexpr SqlStatement kProgress = {"progress", R"sql(
UPDATE attempts SET stage = :stage, fraction = :fraction, rows_done = :rows, bytes_done = :bytes, blocks = :blocks, progress = :progress, progress_at = pf_now()
WHERE job_id = :job AND task_id = :task AND epoch = :epoch AND token = :token AND state = 'OPEN')sql"};
inline constexpr SqlStatement kAskedToFinalize = {"asked_to_finalize", R"sql(
SELECT count(*) FROM tasks WHERE job_id = :job AND output_id = :output AND state = 'COMPACTING' AND finalize_at > 0)sql"};

// The same of several tasks at once; a token belongs to one attempt of a task.
inline constexpr SqlStatement kRenewMany = {"renew_many", R"sql(
UPDATE attempts SET lease_until = pf_now() + :lease_ms WHERE job_id = :job AND task_id IN {ids} AND token = :token AND state = 'OPEN')sql"};
inline constexpr SqlStatement kProgressMany = {"progress_many", R"sql(
UPDATE attempts SET stage = :stage, fraction = :fraction, rows_done = :rows, bytes_done = :bytes, blocks = :blocks, progress = :progress, progress_at = pf_now()
WHERE job_id = :job AND task_id IN {ids} AND token = :token AND state = 'OPEN')sql"};

// ---- §4.5 settle
inline constexpr SqlStatement kTaskForUpdate = {"task_for_update", R"sql(
SELECT {task_columns} FROM tasks WHERE job_id = :job AND task_id = :task {for_update})sql"};
inline constexpr SqlStatement kOpenAttempts = {"open_attempts", R"sql(
SELECT epoch, label, token FROM attempts WHERE job_id = :job AND task_id = :task AND state = 'OPEN' ORDER BY epoch)sql"};
inline constexpr SqlStatement kSettleTask = {"settle_task", R"sql(
UPDATE tasks SET state = :to, winner = :winner, group_key = :group, partition_id = :partition, parts_out = :parts_out, parts_peak = :parts_peak,
  partitions_out = :partitions_out, rows_out = :rows_out, bytes_out = :bytes_out, ready_at = :ready_at, failure_class = '', failure_code = 0, updated_at = pf_now(), payload = :payload
WHERE job_id = :job AND task_id = :task AND state = :from AND commit_id = ''
  AND EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = :job AND a.task_id = :task AND a.epoch = :epoch AND a.token = :token AND a.state = 'OPEN'))sql"};
inline constexpr SqlStatement kSettleEnd = {"settle_end", R"sql(
UPDATE tasks SET state = :to, superseded_by = :superseded_by, not_before = pf_now() + :backoff_ms, output_id = '', finalize_at = 0,
  ready_at = CASE WHEN ready_at = 0 THEN :ready_at ELSE ready_at END,
  failure_class = :failure_class, failure_code = :failure_code, updated_at = pf_now(), payload = :payload
WHERE job_id = :job AND task_id = :task AND state = :from AND commit_id = ''
  AND EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = :job AND a.task_id = :task AND a.epoch = :epoch AND a.token = :token AND a.state = 'OPEN'))sql"};
// What the attempt read, kept where its progress was: rows_in and bytes_in of the result.
inline constexpr SqlStatement kSettleRead = {"settle_read", R"sql(
UPDATE attempts SET rows_done = :rows, bytes_done = :bytes WHERE job_id = :job AND task_id = :task AND epoch = :epoch)sql"};
inline constexpr SqlStatement kSettleAttempt = {"settle_attempt", R"sql(
UPDATE attempts SET state = :attempt_state, rows_result = :rows, bytes_result = :bytes, digest = :digest, result = :result, ended_at = pf_now()
WHERE job_id = :job AND task_id = :task AND epoch = :epoch AND token = :token AND state = 'OPEN')sql"};
// The same end for many inputs of one output at once.
inline constexpr SqlStatement kTasksForUpdate = {"tasks_for_update", R"sql(
SELECT {task_columns} FROM tasks WHERE job_id = :job AND task_id IN {ids} ORDER BY tasks.task_id {for_update})sql"};
inline constexpr SqlStatement kOpenAttemptsOf = {"open_attempts_of", R"sql(
SELECT task_id, epoch, token FROM attempts WHERE job_id = :job AND task_id IN {ids} AND state = 'OPEN')sql"};
inline constexpr SqlStatement kSupersedeTasks = {"supersede_tasks", R"sql(
UPDATE tasks SET state = 'SUPERSEDED', superseded_by = :output, not_before = 0, output_id = '', finalize_at = 0,
  ready_at = CASE WHEN ready_at = 0 THEN :ready_at ELSE ready_at END, failure_class = '', failure_code = 0, updated_at = pf_now()
WHERE job_id = :job AND task_id IN {ids} AND state = 'IN_PROGRESS' AND commit_id = '')sql"};
inline constexpr SqlStatement kEndAttemptsOf = {"end_attempts_of", R"sql(
UPDATE attempts SET state = 'ABORTED', ended_at = pf_now() WHERE job_id = :job AND task_id IN {ids} AND token = :token AND state = 'OPEN')sql"};
inline constexpr SqlStatement kSettleTwins = {"settle_twins", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND task_id = :task AND state = 'OPEN' AND epoch <> :epoch)sql"};
inline constexpr SqlStatement kAddOutput = {"add_output", R"sql(
INSERT INTO tasks (job_id, task_id, task_no, kind, state, size_bytes, epoch, winner, group_key, partition_id, generation, parts_out, parts_peak, partitions_out, rows_out, bytes_out, ready_at, created_at, updated_at, payload)
VALUES (:job, :task, 0, :kind, :state, :size_bytes, :epoch, :epoch, :group, :partition, :generation, :parts_out, :parts_peak, :partitions_out, :rows_out, :bytes_out, :ready_at, pf_now(), pf_now(), :payload))sql"};
inline constexpr SqlStatement kAddOutputAttempt = {"add_output_attempt", R"sql(
INSERT INTO attempts (job_id, task_id, epoch, state, owner, token, serial, lease_until, rows_done, bytes_done, rows_result, bytes_result, digest, result, opened_at, ended_at)
VALUES (:job, :task, :epoch, 'FINISHED', :owner, '', :serial, 0, :rows_in, :bytes_in, :rows, :bytes, :digest, :result, pf_now(), pf_now()))sql"};

// ---- §4.6 reap
inline constexpr SqlStatement kExpired = {"expired", R"sql(
SELECT a.job_id, a.task_id, a.epoch, a.token, (SELECT count(*) FROM attempts m WHERE m.token = a.token AND m.token <> '')
FROM attempts a WHERE a.state = 'OPEN' AND a.lease_until < pf_now() ORDER BY a.job_id, a.task_id, a.epoch LIMIT 100)sql"};
inline constexpr SqlStatement kReapAttempt = {"reap_attempt", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND task_id = :task AND epoch = :epoch AND state = 'OPEN' AND lease_until < pf_now())sql"};
inline constexpr SqlStatement kReapTask = {"reap_task", R"sql(
UPDATE tasks SET state = :to, crashes = crashes + 1, not_before = pf_now() + :backoff_ms, output_id = '', failure_class = :failure_class, failure_code = 0, updated_at = pf_now()
WHERE job_id = :job AND task_id = :task AND state = :from AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = :job AND a.task_id = :task AND a.state = 'OPEN'))sql"};

// The end of a lease of several tasks that is no settlement: each goes back to where it was claimed
// from. First the attempts, then the tasks that nobody works on any more.
inline constexpr SqlStatement kOpenOfLease = {"open_of_lease", R"sql(
SELECT task_id FROM attempts WHERE token = :token AND job_id = :job AND state = 'OPEN' ORDER BY task_id)sql"};
inline constexpr SqlStatement kLoseAttempts = {"lose_attempts", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND task_id IN {ids} AND token = :token AND state = 'OPEN' RETURNING task_id)sql"};
inline constexpr SqlStatement kLoseExpiredAttempts = {"lose_expired_attempts", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND task_id IN {ids} AND token = :token AND state = 'OPEN' AND lease_until < pf_now() RETURNING task_id)sql"};
inline constexpr SqlStatement kHandBack = {"hand_back", R"sql(
UPDATE tasks SET state = :to, not_before = pf_now() + :backoff_ms, output_id = '', finalize_at = 0, failure_class = :failure_class, failure_code = :failure_code, updated_at = pf_now()
WHERE job_id = :job AND task_id IN {ids} AND state = :from AND commit_id = ''
  AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = tasks.job_id AND a.task_id = tasks.task_id AND a.state = 'OPEN')
RETURNING task_id, size_bytes, parts_out, rows_out)sql"};

// ---- §4.7 amend
inline constexpr SqlStatement kAmend = {"amend", R"sql(
UPDATE tasks SET state = :to, epoch = epoch + 1, winner = :winner, ready_at = :ready_at, superseded_by = :superseded_by, finalize_at = :finalize_at, crashes = 0, not_before = 0, failure_class = :failure_class, failure_code = :failure_code,
  updated_at = pf_now(), payload = :payload
WHERE job_id = :job AND task_id = :task AND state = :from AND epoch = :epoch AND commit_id = ''
  AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = :job AND a.task_id = :task AND a.state = 'OPEN'))sql"};
inline constexpr SqlStatement kFinalize = {"finalize", R"sql(
WITH pick AS MATERIALIZED (
  SELECT job_id, task_id FROM tasks WHERE job_id = :job AND state = 'COMPACT_READY' ORDER BY task_id LIMIT 1000 {skip_locked})
UPDATE tasks SET state = 'FINISHED', updated_at = pf_now() FROM pick WHERE tasks.job_id = pick.job_id AND tasks.task_id = pick.task_id AND tasks.state = 'COMPACT_READY'
RETURNING {task_columns})sql"};
inline constexpr SqlStatement kAskFinalize = {"ask_finalize", R"sql(
UPDATE tasks SET finalize_at = pf_now() WHERE job_id = :job AND output_id = :output AND state = 'COMPACTING')sql"};
inline constexpr SqlStatement kWindow = {"window", R"sql(
SELECT coalesce(max(ready_at), 0) FROM tasks WHERE job_id = :job AND generation = 0 AND ready_at > 0)sql"};

// By an operator's force, before amend.
inline constexpr SqlStatement kEndAttempts = {"end_attempts", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND task_id = :task AND state = 'OPEN')sql"};
inline constexpr SqlStatement kEndExpiredAttempts = {"end_expired_attempts", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND task_id = :task AND state = 'OPEN' AND lease_until < pf_now())sql"};
// Other tasks of the leases that have one of :ids.
inline constexpr SqlStatement kLeaseMates = {"lease_mates", R"sql(
SELECT DISTINCT m.token, m.task_id FROM attempts a JOIN attempts m ON m.token = a.token AND m.job_id = a.job_id
WHERE a.job_id = :job AND a.task_id IN {ids} AND a.state = 'OPEN' AND a.token <> '' AND m.state = 'OPEN' AND m.task_id NOT IN {ids}
ORDER BY m.token, m.task_id)sql"};
inline constexpr SqlStatement kIsTaskCopied = {"is_task_copied", R"sql(
SELECT job_id FROM tasks WHERE source_job_id = :job AND source_job_id <> '' AND source_task_id = :task AND job_id <> :job LIMIT 1)sql"};
inline constexpr SqlStatement kSupersededLeft = {"superseded_left", R"sql(
SELECT task_id FROM tasks WHERE job_id = :job AND state = 'SUPERSEDED' AND superseded_by = :output LIMIT 1)sql"};
inline constexpr SqlStatement kDeleteTaskAttempts = {
    "delete_task_attempts", "DELETE FROM attempts WHERE job_id = :job AND task_id = :task"};
inline constexpr SqlStatement kDeleteTask = {
    "delete_task", "DELETE FROM tasks WHERE job_id = :job AND task_id = :task"};
// One statement, so one snapshot: the difference stays right while others count on.
inline constexpr SqlStatement kRepairCounters = {"repair_counters", R"sql(
INSERT INTO counters (job_id, state, slot, n, bytes, parts, row_count)
SELECT :job, d.state, 0, sum(d.n), sum(d.bytes), sum(d.parts), sum(d.row_count) FROM (
  SELECT state, count(*) AS n, sum(size_bytes) AS bytes, sum(CASE WHEN state IN ('READY', 'IN_PROGRESS') THEN 0 ELSE parts_out END) AS parts,
    sum(CASE WHEN state IN ('READY', 'IN_PROGRESS') THEN 0 ELSE rows_out END) AS row_count FROM tasks WHERE job_id = :job GROUP BY state
  UNION ALL SELECT state, -n, -bytes, -parts, -row_count FROM counters WHERE job_id = :job) d
GROUP BY d.state HAVING sum(d.n) <> 0 OR sum(d.bytes) <> 0 OR sum(d.parts) <> 0 OR sum(d.row_count) <> 0
ON CONFLICT (job_id, state, slot) DO UPDATE SET n = counters.n + excluded.n, bytes = counters.bytes + excluded.bytes, parts = counters.parts + excluded.parts, row_count = counters.row_count + excluded.row_count)sql"};

// ---- §4.8 decide, fence, advance
inline constexpr SqlStatement kJobForUpdate = {
    "job_for_update", "SELECT state, publish FROM jobs WHERE job_id = :job {for_update}"};
inline constexpr SqlStatement kCountTasks = {"count_tasks",
                                             "SELECT count(*) FROM tasks WHERE job_id = :job"};
// Of any decision of the job that stands: they all name one target.
inline constexpr SqlStatement kTargetOfJob = {"target_of_job", R"sql(
SELECT target FROM commits WHERE job_id = :job AND state <> 'ABORTED' ORDER BY decided_at LIMIT 1)sql"};
inline constexpr SqlStatement kDecide = {"decide", R"sql(
INSERT INTO commits (commit_id, job_id, kind, target, protocol, state, serial, piece_count, rows_decided, bytes_decided, intent, decided_at)
VALUES (:commit, :job, :kind, :target, :protocol, 'DECIDED', :serial, :pieces, :rows, :bytes, :intent, pf_now()) ON CONFLICT (commit_id) DO NOTHING)sql"};
inline constexpr SqlStatement kDecideTask = {"decide_task", R"sql(
UPDATE tasks SET state = 'IMPORTING', commit_id = :commit, winner = :epoch, updated_at = pf_now()
WHERE job_id = :job AND task_id = :task AND state = 'FINISHED' AND commit_id = ''
  AND EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = :job AND a.task_id = :task AND a.epoch = :epoch AND a.state = 'FINISHED'))sql"};
inline constexpr SqlStatement kDecideAttempt = {"decide_attempt", R"sql(
UPDATE attempts SET state = 'CHOSEN' WHERE job_id = :job AND task_id = :task AND epoch = :epoch AND state = 'FINISHED')sql"};
inline constexpr SqlStatement kDecideLosers = {"decide_losers", R"sql(
UPDATE attempts SET state = 'LOST', ended_at = pf_now() WHERE job_id = :job AND task_id = :task AND state IN ('OPEN', 'FINISHED'))sql"};
inline constexpr SqlStatement kDecidePiece = {"decide_piece", R"sql(
INSERT INTO pieces (commit_id, piece_no, task_id, epoch, shard, partition_id, stage_table, stage_part, token, row_count, size_bytes, files_hash, state)
VALUES (:commit, :piece, :task, :epoch, :shard, :partition, :stage_table, :stage_part, :token, :rows, :bytes, :files_hash, 'STAGED'))sql"};
inline constexpr SqlStatement kFence = {"fence", R"sql(
UPDATE commits SET epoch = epoch + 1, owner = :owner, lease_until = pf_now() + :lease_ms, serial = CASE WHEN state = 'DECIDED' THEN :serial ELSE serial END
WHERE commit_id = :commit AND cleaned_at = 0 AND (owner = :owner OR owner = '' OR lease_until < pf_now())
RETURNING job_id, state, epoch)sql"};
inline constexpr SqlStatement kHold = {"hold", R"sql(
UPDATE commits SET lease_until = pf_now() + :lease_ms WHERE commit_id = :commit AND epoch = :epoch AND cleaned_at = 0)sql"};
inline constexpr SqlStatement kOwn = {"own", R"sql(
SELECT state, job_id, owner FROM commits WHERE commit_id = :commit AND epoch = :epoch {for_update})sql"};
inline constexpr SqlStatement kBind = {"bind", R"sql(
UPDATE commits SET state = 'COMMITTING', staged = :staged, bound_at = pf_now(), in_doubt = ''
WHERE commit_id = :commit AND epoch = :epoch AND state IN ('DECIDED', 'COMMITTING'))sql"};
inline constexpr SqlStatement kBindPiece = {"bind_piece", R"sql(
UPDATE pieces SET token = :token, dev = :dev, ino = :ino, updated_epoch = :epoch WHERE commit_id = :commit AND piece_no = :piece AND state = 'STAGED')sql"};
inline constexpr SqlStatement kMarkPiece = {"mark_piece", R"sql(
UPDATE pieces SET state = :to, updated_epoch = :epoch WHERE commit_id = :commit AND piece_no = :piece AND state = :from)sql"};
inline constexpr SqlStatement kMarkSent = {"mark_sent", R"sql(
UPDATE pieces SET state = 'SENT', updated_epoch = :epoch WHERE commit_id = :commit AND state = 'STAGED' AND piece_no BETWEEN :first AND :last)sql"};
inline constexpr SqlStatement kDoubt = {"doubt", R"sql(
UPDATE commits SET in_doubt = :reason WHERE commit_id = :commit AND epoch = :epoch AND state = 'COMMITTING')sql"};
inline constexpr SqlStatement kPublished = {"published", R"sql(
UPDATE commits SET state = 'PUBLISHED', evidence = :evidence, in_doubt = '', published_at = pf_now()
WHERE commit_id = :commit AND epoch = :epoch AND state = 'COMMITTING'
  AND NOT EXISTS (SELECT 1 FROM pieces p WHERE p.commit_id = :commit AND p.state NOT IN ('CONFIRMED', 'REPLACED')))sql"};
inline constexpr SqlStatement kPublishedTasks = {"published_tasks", R"sql(
UPDATE tasks SET state = 'IMPORTED', updated_at = pf_now() WHERE commit_id = :commit AND state = 'IMPORTING')sql"};
inline constexpr SqlStatement kCleaned = {"cleaned", R"sql(
UPDATE commits SET state = CASE WHEN state = 'PUBLISHED' THEN 'CLEANED' ELSE state END, cleaned_at = pf_now(), owner = '', lease_until = 0
WHERE commit_id = :commit AND epoch = :epoch AND state IN ('PUBLISHED', 'ABORTED')
  AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.commit_id = :commit AND o.state <> 'GONE'))sql"};
inline constexpr SqlStatement kAbortCommit = {"abort_commit", R"sql(
UPDATE commits SET state = 'ABORTED', in_doubt = '', evidence = :evidence, aborted_at = pf_now() WHERE commit_id = :commit AND epoch = :epoch AND state = :from)sql"};
inline constexpr SqlStatement kAbortAttempts = {"abort_attempts", R"sql(
UPDATE attempts SET state = 'FINISHED' WHERE state = 'CHOSEN' AND (job_id, task_id) IN (SELECT job_id, task_id FROM tasks WHERE commit_id = :commit))sql"};
inline constexpr SqlStatement kAbortTasks = {"abort_tasks", R"sql(
UPDATE tasks SET state = :to, commit_id = '', failure_class = :failure_class, failure_code = :failure_code, updated_at = pf_now() WHERE commit_id = :commit AND state = 'IMPORTING')sql"};
// Why an import failed, kept with the task; only of commits that failed.
inline constexpr SqlStatement kAbortedTasks = {
    "aborted_tasks",
    "SELECT task_id, payload FROM tasks WHERE commit_id = :commit AND state = 'IMPORTING'"};
inline constexpr SqlStatement kSetPayload = {
    "set_payload", "UPDATE tasks SET payload = :payload WHERE job_id = :job AND task_id = :task"};
// What published_tasks and abort_tasks are about to move; stable, because `own` holds the commit.
inline constexpr SqlStatement kSumImporting = {"sum_importing", R"sql(
SELECT count(*), coalesce(sum(size_bytes), 0), coalesce(sum(parts_out), 0), coalesce(sum(rows_out), 0) FROM tasks WHERE commit_id = :commit AND state = 'IMPORTING')sql"};
inline constexpr SqlStatement kNoteImporting = {"note_importing", R"sql(
INSERT INTO events (at, job_id, task_id, commit_id, epoch, actor, event, from_state, to_state)
SELECT pf_now(), job_id, task_id, commit_id, epoch, :actor, :event, 'IMPORTING', :to FROM tasks WHERE commit_id = :commit AND state = 'IMPORTING' ORDER BY task_id)sql"};

// ---- §4.9 locks
inline constexpr SqlStatement kMutexPostgres = {
    "mutex_postgres", "SELECT pg_advisory_xact_lock(hashtextextended(:target, 0))"};
inline constexpr SqlStatement kLockConflicts = {"lock_conflicts", R"sql(
SELECT holder, scope, mode FROM locks
WHERE target = :target AND holder <> :holder AND (lease_until = 0 OR lease_until > pf_now())
  AND (mode = 'exclusive' OR :mode = 'exclusive') AND (scope = :scope OR (scope <> '@import' AND :scope <> '@import' AND (scope = '*' OR :scope = '*'))))sql"};
inline constexpr SqlStatement kLock = {"lock", R"sql(
INSERT INTO locks (target, scope, holder, job_id, mode, lease_until) VALUES (:target, :scope, :holder, :job, :mode, :lease_until)
ON CONFLICT (target, scope, holder) DO UPDATE SET mode = excluded.mode, lease_until = excluded.lease_until)sql"};
inline constexpr SqlStatement kUnlock = {"unlock", "DELETE FROM locks WHERE holder = :holder"};

// ---- §4.10 objects, counters, history
inline constexpr SqlStatement kAttemptIsOpen = {"attempt_is_open", R"sql(
SELECT count(*) FROM attempts WHERE job_id = :job AND task_id = :task AND epoch = :epoch AND token = :token AND state = 'OPEN')sql"};
inline constexpr SqlStatement kFindObject = {"find_object", R"sql(
SELECT object_id, kind, name, uuid, state, shard, commit_id, task_id, epoch FROM objects
WHERE job_id = :job AND shard = :shard AND kind = :kind AND name = :name)sql"};
inline constexpr SqlStatement kIntend = {"intend", R"sql(
INSERT INTO objects (job_id, commit_id, task_id, epoch, shard, kind, name, uuid, state, updated_at)
VALUES (:job, :commit, :task, :epoch, :shard, :kind, :name, :uuid, 'INTENT', pf_now()) RETURNING object_id)sql"};
inline constexpr SqlStatement kObjectState = {"object_state", R"sql(
UPDATE objects SET state = :to, uuid = :uuid, name = :name, updated_at = pf_now() WHERE object_id = :object AND state = :from)sql"};
inline constexpr SqlStatement kCount = {"count", R"sql(
INSERT INTO counters (job_id, state, slot, n, bytes, parts, row_count) VALUES (:job, :state, :slot, :n, :bytes, :parts, :rows)
ON CONFLICT (job_id, state, slot) DO UPDATE SET n = counters.n + excluded.n, bytes = counters.bytes + excluded.bytes, parts = counters.parts + excluded.parts, row_count = counters.row_count + excluded.row_count)sql"};
inline constexpr SqlStatement kNote = {"note", R"sql(
INSERT INTO events (at, job_id, task_id, commit_id, epoch, actor, event, from_state, to_state, detail)
VALUES (pf_now(), :job, :task, :commit, :epoch, :actor, :event, :from, :to, :detail))sql"};

// ---- reading
inline constexpr SqlStatement kJobs = {"jobs", R"sql(
SELECT job_id, kind, idem_key, name, state, publish, paused, target, tasks_expected, created_at, sealed_at, payload FROM jobs ORDER BY created_at, job_id)sql"};
inline constexpr SqlStatement kOneJob = {"one_job", R"sql(
SELECT job_id, kind, idem_key, name, state, publish, paused, target, tasks_expected, created_at, sealed_at, payload FROM jobs WHERE job_id = :job)sql"};
inline constexpr SqlStatement kOpenJobs = {"open_jobs", R"sql(
SELECT job_id, kind, idem_key, name, state, publish, paused, target, tasks_expected, created_at, sealed_at, payload FROM jobs j
WHERE j.state <> 'ABORTED' AND (j.state IN ('OPEN', 'ABORTING')
  OR EXISTS (SELECT 1 FROM tasks t WHERE t.job_id = j.job_id AND t.state IN ('READY', 'IN_PROGRESS', 'COMPACT_READY', 'COMPACTING', 'FINISHED', 'IMPORTING'))
  OR EXISTS (SELECT 1 FROM commits c WHERE c.job_id = j.job_id AND c.cleaned_at = 0))
ORDER BY j.created_at, j.job_id)sql"};
inline constexpr SqlStatement kCounts = {"counts", R"sql(
SELECT state, sum(n), sum(bytes), sum(parts), sum(row_count) FROM counters WHERE job_id = :job GROUP BY state ORDER BY state)sql"};
inline constexpr SqlStatement kAllCounts = {"all_counts", R"sql(
SELECT job_id, state, sum(n), sum(bytes), sum(parts), sum(row_count) FROM counters GROUP BY job_id, state ORDER BY job_id, state)sql"};
inline constexpr SqlStatement kAllTaskSums = {"all_task_sums", R"sql(
SELECT job_id, max(updated_at), coalesce(min(CASE WHEN started_at > 0 THEN started_at END), 0), sum(CASE WHEN state = 'SUPERSEDED' THEN 0 ELSE partitions_out END)
FROM tasks GROUP BY job_id)sql"};
inline constexpr SqlStatement kPage = {"page", R"sql(
SELECT {task_columns} FROM tasks WHERE job_id = :job AND state = :state AND task_id > :after ORDER BY task_id LIMIT :limit)sql"};
inline constexpr SqlStatement kOneTask = {
    "one_task", "SELECT {task_columns} FROM tasks WHERE job_id = :job AND task_id = :task"};
inline constexpr SqlStatement kAttempts = {"attempts", R"sql(
SELECT task_id, epoch, label, state, owner, lease_until, opened_at, ended_at, stage, fraction, rows_done, bytes_done, progress_at, progress, rows_result, bytes_result, digest, result, blocks
FROM attempts WHERE job_id = :job AND task_id = :task ORDER BY epoch)sql"};
inline constexpr SqlStatement kOneCommit = {"one_commit", R"sql(
SELECT commit_id, job_id, kind, target, protocol, state, epoch, serial, cleaned_at, owner, in_doubt, intent, staged, evidence, decided_at, published_at FROM commits WHERE commit_id = :commit)sql"};
inline constexpr SqlStatement kLiveCommits = {"live_commits", R"sql(
SELECT commit_id, job_id, kind, target, protocol, state, epoch, serial, cleaned_at, owner, in_doubt, intent, staged, evidence, decided_at, published_at FROM commits
WHERE job_id = :job AND cleaned_at = 0 ORDER BY decided_at, commit_id LIMIT 1000)sql"};
inline constexpr SqlStatement kAllLiveCommits = {"all_live_commits", R"sql(
SELECT commit_id, job_id, kind, target, protocol, state, epoch, serial, cleaned_at, owner, in_doubt, intent, staged, evidence, decided_at, published_at FROM commits
WHERE cleaned_at = 0 ORDER BY job_id, decided_at, commit_id)sql"};
inline constexpr SqlStatement kChosen = {"chosen", R"sql(
SELECT t.task_id, t.winner, a.result, a.rows_done, a.rows_result, a.bytes_done, a.bytes_result, a.digest, t.group_key, t.partition_id, t.parts_out, t.parts_peak, t.partitions_out
FROM tasks t JOIN attempts a ON a.job_id = t.job_id AND a.task_id = t.task_id AND a.epoch = t.winner
WHERE t.commit_id = :commit ORDER BY t.task_id)sql"};
inline constexpr SqlStatement kChosenIds = {"chosen_ids",
                                            "SELECT task_id, winner FROM tasks WHERE commit_id = "
                                            ":commit AND commit_id <> '' ORDER BY task_id"};
// Of an aborted commit: its tasks have been let go.
inline constexpr SqlStatement kChosenByPieces = {
    "chosen_by_pieces",
    "SELECT DISTINCT task_id, epoch FROM pieces WHERE commit_id = :commit ORDER BY task_id, epoch"};
inline constexpr SqlStatement kPieces = {"pieces", R"sql(
SELECT piece_no, task_id, epoch, shard, partition_id, stage_table, stage_part, token, files_hash, row_count, size_bytes, dev, ino, state
FROM pieces WHERE commit_id = :commit AND piece_no BETWEEN :first AND :last ORDER BY piece_no)sql"};
inline constexpr SqlStatement kThings = {"things", R"sql(
SELECT object_id, kind, name, uuid, state, shard FROM objects WHERE job_id = :job ORDER BY object_id)sql"};
inline constexpr SqlStatement kEvents = {"events", R"sql(
SELECT seq, at, job_id, task_id, commit_id, actor, event, from_state, to_state, epoch, detail FROM events
WHERE job_id = :job AND seq > :after AND (:task = '' OR task_id = :task) ORDER BY seq LIMIT :limit)sql"};

// ---- delete-job
inline constexpr SqlStatement kIsCopied = {"is_copied", R"sql(
SELECT job_id FROM tasks WHERE source_job_id = :job AND source_job_id <> '' AND job_id <> :job LIMIT 1)sql"};
inline constexpr SqlStatement kHasLiveWork = {"has_live_work", R"sql(
SELECT (SELECT count(*) FROM attempts WHERE job_id = :job AND state = 'OPEN' AND lease_until > pf_now())
     + (SELECT count(*) FROM commits WHERE job_id = :job AND cleaned_at = 0))sql"};
inline constexpr SqlStatement kDeleteEvents = {"delete_events",
                                               "DELETE FROM events WHERE job_id = :job"};
inline constexpr SqlStatement kDeleteCounters = {"delete_counters",
                                                 "DELETE FROM counters WHERE job_id = :job"};
inline constexpr SqlStatement kDeletePieces = {
    "delete_pieces",
    "DELETE FROM pieces WHERE commit_id IN (SELECT commit_id FROM commits WHERE job_id = :job)"};
inline constexpr SqlStatement kDeleteObjects = {"delete_objects",
                                                "DELETE FROM objects WHERE job_id = :job"};
inline constexpr SqlStatement kDeleteLocks = {"delete_locks",
                                              "DELETE FROM locks WHERE job_id = :job"};
inline constexpr SqlStatement kDeleteCommits = {"delete_commits",
                                                "DELETE FROM commits WHERE job_id = :job"};
inline constexpr SqlStatement kDeleteAttempts = {"delete_attempts",
                                                 "DELETE FROM attempts WHERE job_id = :job"};
inline constexpr SqlStatement kDeleteTasks = {"delete_tasks",
                                              "DELETE FROM tasks WHERE job_id = :job"};
inline constexpr SqlStatement kDeleteJob = {"delete_job", "DELETE FROM jobs WHERE job_id = :job"};

}  // namespace partforge::statements
