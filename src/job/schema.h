#pragma once

#include <array>
#include <string_view>

namespace partforge {

// One numbered migration (specs state-schema §1): its number is its place, from 1. Never changed
// once released.
struct Migration {
  std::string_view name;
  std::string_view both;      // with the macros of sql_text.h
  std::string_view postgres;  // run after `both`, there only; may be empty
};

// Tables, columns and their meaning: specs state-schema §2. Eight tables of state, three of
// bookkeeping. No foreign keys: SqlJobStore::DeleteJob removes what belongs to a job.
inline constexpr std::string_view kSchemaTables = R"sql(
CREATE TABLE meta       (k TEXT PRIMARY KEY, v TEXT NOT NULL){strict};
CREATE TABLE migrations (version {bigint} PRIMARY KEY, name TEXT NOT NULL, applied_at {bigint} NOT NULL){strict};

CREATE TABLE jobs (
  job_id         TEXT PRIMARY KEY,
  kind           TEXT NOT NULL,
  idem_key       TEXT NOT NULL UNIQUE,
  spec_hash      TEXT NOT NULL,
  name           TEXT NOT NULL,
  state          TEXT NOT NULL,
  publish        TEXT NOT NULL,
  paused         {bigint} NOT NULL DEFAULT 0,
  target         TEXT NOT NULL,
  mode           TEXT NOT NULL DEFAULT '',
  tasks_expected {bigint} NOT NULL DEFAULT -1,
  open_ttl_ms    {bigint} NOT NULL DEFAULT 0,
  touched_at     {bigint} NOT NULL,
  created_at     {bigint} NOT NULL, sealed_at {bigint} NOT NULL DEFAULT 0, ended_at {bigint} NOT NULL DEFAULT 0,
  payload        TEXT NOT NULL){strict};
CREATE INDEX jobs_state ON jobs (state, created_at);

CREATE TABLE tasks (
  job_id        TEXT NOT NULL,
  task_id       TEXT NOT NULL,
  task_no       {bigint} NOT NULL,
  kind          TEXT NOT NULL,
  state         TEXT NOT NULL,
  size_bytes    {bigint} NOT NULL,
  epoch         {bigint} NOT NULL DEFAULT 0,
  winner        {bigint} NOT NULL DEFAULT 0,
  commit_id     TEXT NOT NULL DEFAULT '',
  group_key     TEXT NOT NULL DEFAULT '',
  partition_id  TEXT NOT NULL DEFAULT '',
  generation    {bigint} NOT NULL DEFAULT 0,
  superseded_by TEXT NOT NULL DEFAULT '',
  output_id     TEXT NOT NULL DEFAULT '',
  parts_out     {bigint} NOT NULL DEFAULT 0,
  parts_peak    {bigint} NOT NULL DEFAULT 0,
  partitions_out {bigint} NOT NULL DEFAULT 0,
  rows_out      {bigint} NOT NULL DEFAULT 0,
  bytes_out     {bigint} NOT NULL DEFAULT 0,
  attempts      {bigint} NOT NULL DEFAULT 0,
  crashes       {bigint} NOT NULL DEFAULT 0,
  not_before    {bigint} NOT NULL DEFAULT 0,
  ready_at      {bigint} NOT NULL DEFAULT 0,
  finalize_at   {bigint} NOT NULL DEFAULT 0,
  failure_class TEXT NOT NULL DEFAULT '', failure_code {bigint} NOT NULL DEFAULT 0,
  source_job_id TEXT NOT NULL DEFAULT '', source_task_id TEXT NOT NULL DEFAULT '',
  created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL, started_at {bigint} NOT NULL DEFAULT 0,
  payload       TEXT NOT NULL,
  PRIMARY KEY (job_id, task_id)){strict};
CREATE INDEX tasks_claim      ON tasks (job_id, kind, size_bytes DESC, created_at, task_id) WHERE state = 'READY';
CREATE INDEX tasks_state      ON tasks (job_id, state, task_id);
CREATE INDEX tasks_fragmented ON tasks (job_id, parts_out DESC, created_at, task_id) WHERE state = 'COMPACT_READY' AND parts_peak > 1;
CREATE INDEX tasks_normalized ON tasks (job_id, group_key, partition_id, bytes_out, task_id) WHERE state = 'COMPACT_READY' AND parts_out = 1;
CREATE INDEX tasks_smallest   ON tasks (job_id, bytes_out, task_id) WHERE state = 'COMPACT_READY' AND parts_out = 1;
CREATE INDEX tasks_window     ON tasks (job_id, ready_at) WHERE generation = 0 AND ready_at > 0;
CREATE INDEX tasks_commit     ON tasks (commit_id) WHERE commit_id <> '';
CREATE INDEX tasks_source     ON tasks (source_job_id, source_task_id) WHERE source_job_id <> '';

CREATE TABLE attempts (
  job_id TEXT NOT NULL, task_id TEXT NOT NULL, epoch {bigint} NOT NULL,
  label       TEXT NOT NULL DEFAULT '',
  state       TEXT NOT NULL,
  owner       TEXT NOT NULL,
  token       TEXT NOT NULL,
  serial      {bigint} NOT NULL,
  lease_until {bigint} NOT NULL,
  stage TEXT NOT NULL DEFAULT '', fraction {double} NOT NULL DEFAULT 0,
  rows_done {bigint} NOT NULL DEFAULT 0, bytes_done {bigint} NOT NULL DEFAULT 0, progress_at {bigint} NOT NULL DEFAULT 0,
  blocks      {bigint} NOT NULL DEFAULT 0,
  progress    TEXT NOT NULL DEFAULT '{}',
  rows_result {bigint} NOT NULL DEFAULT 0, bytes_result {bigint} NOT NULL DEFAULT 0, digest TEXT NOT NULL DEFAULT '',
  result      TEXT NOT NULL DEFAULT '{}',
  opened_at {bigint} NOT NULL, ended_at {bigint} NOT NULL DEFAULT 0,
  PRIMARY KEY (job_id, task_id, epoch)){strict};
CREATE INDEX attempts_open  ON attempts (job_id, task_id) WHERE state = 'OPEN';
CREATE INDEX attempts_token ON attempts (token);
CREATE UNIQUE INDEX attempts_serial ON attempts (serial);
CREATE UNIQUE INDEX attempts_label  ON attempts (job_id, task_id, label) WHERE label <> '';

CREATE TABLE commits (
  commit_id   TEXT PRIMARY KEY,
  job_id      TEXT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL,
  protocol    TEXT NOT NULL,
  state       TEXT NOT NULL,
  epoch       {bigint} NOT NULL DEFAULT 0,
  serial      {bigint} NOT NULL,
  owner       TEXT NOT NULL DEFAULT '', lease_until {bigint} NOT NULL DEFAULT 0,
  in_doubt    TEXT NOT NULL DEFAULT '',
  piece_count {bigint} NOT NULL, rows_decided {bigint} NOT NULL, bytes_decided {bigint} NOT NULL,
  intent      TEXT NOT NULL,
  staged      TEXT NOT NULL DEFAULT '{}',
  evidence    TEXT NOT NULL DEFAULT '{}',
  decided_at {bigint} NOT NULL, bound_at {bigint} NOT NULL DEFAULT 0, published_at {bigint} NOT NULL DEFAULT 0,
  cleaned_at {bigint} NOT NULL DEFAULT 0, aborted_at {bigint} NOT NULL DEFAULT 0){strict};
CREATE UNIQUE INDEX commits_serial ON commits (serial);
CREATE INDEX commits_job  ON commits (job_id, decided_at);
CREATE INDEX commits_live ON commits (kind, decided_at) WHERE cleaned_at = 0;

CREATE TABLE pieces (
  commit_id TEXT NOT NULL, piece_no {bigint} NOT NULL,
  task_id TEXT NOT NULL, epoch {bigint} NOT NULL,
  shard {bigint} NOT NULL DEFAULT 0, partition_id TEXT NOT NULL,
  stage_table TEXT NOT NULL DEFAULT '', stage_part TEXT NOT NULL DEFAULT '',
  token     TEXT NOT NULL DEFAULT '',
  row_count {bigint} NOT NULL, size_bytes {bigint} NOT NULL, files_hash TEXT NOT NULL DEFAULT '',
  dev {bigint} NOT NULL DEFAULT 0, ino {bigint} NOT NULL DEFAULT 0,
  state     TEXT NOT NULL,
  supersedes {bigint} NOT NULL DEFAULT -1, updated_epoch {bigint} NOT NULL DEFAULT 0,
  PRIMARY KEY (commit_id, piece_no)){strict};

CREATE TABLE objects (
  object_id {identity},
  job_id TEXT NOT NULL, commit_id TEXT NOT NULL DEFAULT '', task_id TEXT NOT NULL DEFAULT '',
  epoch {bigint} NOT NULL DEFAULT 0,
  shard {bigint} NOT NULL DEFAULT 0,
  kind TEXT NOT NULL,
  name TEXT NOT NULL, uuid TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL,
  updated_at {bigint} NOT NULL,
  UNIQUE (job_id, shard, kind, name)){strict};

CREATE TABLE locks (
  target TEXT NOT NULL, scope TEXT NOT NULL,
  holder TEXT NOT NULL,
  job_id TEXT NOT NULL, mode TEXT NOT NULL,
  lease_until {bigint} NOT NULL,
  PRIMARY KEY (target, scope, holder)){strict};
CREATE INDEX locks_holder ON locks (holder);

CREATE TABLE events (
  seq {identity}, at {bigint} NOT NULL,
  job_id TEXT NOT NULL, task_id TEXT NOT NULL DEFAULT '', commit_id TEXT NOT NULL DEFAULT '', epoch {bigint} NOT NULL DEFAULT 0,
  actor TEXT NOT NULL,
  event TEXT NOT NULL, from_state TEXT NOT NULL DEFAULT '', to_state TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '{}'){strict};
CREATE INDEX events_job ON events (job_id, seq);

CREATE TABLE counters (
  job_id TEXT NOT NULL, state TEXT NOT NULL, slot {bigint} NOT NULL,
  n {bigint} NOT NULL, bytes {bigint} NOT NULL, parts {bigint} NOT NULL, row_count {bigint} NOT NULL,
  PRIMARY KEY (job_id, state, slot)){strict};
)sql";

// pf_now() is the store's clock; SQLite's driver registers its own. Tests move it by a setting.
inline constexpr std::string_view kSchemaPostgres = R"sql(
CREATE FUNCTION pf_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + coalesce(nullif(current_setting('partforge.clock_offset_ms', true), '')::bigint, 0) $$;
ALTER TABLE tasks    SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE attempts SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
)sql";

inline constexpr std::array<Migration, 1> kMigrations = {
    Migration{"the state schema", kSchemaTables, kSchemaPostgres}};

}  // namespace partforge
