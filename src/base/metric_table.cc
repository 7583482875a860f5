#include "base/metric_table.h"

#include <algorithm>
#include <array>

namespace partforge {
namespace {

constexpr auto kCounter = MetricKind::kCounter;
constexpr auto kGauge = MetricKind::kGauge;
constexpr auto kHistogram = MetricKind::kHistogram;
constexpr auto kTask = MetricBuckets::kTask;
constexpr auto kRequest = MetricBuckets::kRequest;

constexpr std::string_view kJobTables = "job_id,source_table,destination_table";
constexpr std::string_view kJobPart = "job_id,part_id";
constexpr std::string_view kBatch = "job_id,output_part_id";
constexpr std::string_view kBatchPartition = "role,job_id,output_part_id,partition_id";
constexpr std::string_view kMerge = "job_id,output_part_id,partition_id,result_part_name";

constexpr auto kTable = std::to_array<MetricEntry>({
    // Rewrites (clickhouse-parts §14; names and labels are the reference's).
    {"partforge_forges_started_total", kCounter, kJobTables, "Part rewrites started."},
    {"partforge_forges_completed_total", kCounter, kJobTables, "Part rewrites finished."},
    {"partforge_forges_failed_total", kCounter, "job_id,source_table,destination_table,code",
     "Part rewrites failed."},
    {"partforge_forge_duration_seconds", kHistogram, "job_id,source_table,destination_table,result",
     "Time of one part rewrite from claim to settlement.", kTask},
    {"partforge_forge_stage_seconds", kHistogram, "stage,retried",
     "Time of one stage of a part rewrite.", kTask},
    {"partforge_rows_read_total", kCounter, "job_id,source_table,destination_table,kind",
     "Rows read."},
    {"partforge_bytes_read_total", kCounter, "job_id,source_table,destination_table,kind",
     "Bytes read."},
    {"partforge_rows_written_total", kCounter, "job_id,source_table,destination_table,kind",
     "Rows written."},
    {"partforge_bytes_written_total", kCounter, "job_id,source_table,destination_table,kind",
     "Bytes written."},
    {"partforge_current_read_rows", kGauge, kJobPart, "Rows read so far by the running rewrite."},
    {"partforge_current_read_bytes", kGauge, kJobPart, "Bytes read so far by the running rewrite."},
    {"partforge_current_total_rows_approx", kGauge, kJobPart,
     "Estimated rows the running rewrite will read."},
    {"partforge_current_written_rows", kGauge, kJobPart,
     "Rows written so far by the running rewrite."},
    {"partforge_current_written_bytes", kGauge, kJobPart,
     "Bytes written so far by the running rewrite."},
    {"partforge_active_part_count", kGauge, "role,job_id,part_id",
     "Active parts of the rewrite's tables."},
    {"partforge_active_part_rows", kGauge, "role,job_id,part_id",
     "Rows in active parts of the rewrite's tables."},
    {"partforge_active_part_bytes", kGauge, "role,job_id,part_id",
     "Bytes on disk in active parts of the rewrite's tables."},
    {"partforge_rewrite_current_stage", kGauge, "job_id,part_id,stage",
     "Always 1; the label names the running stage."},
    {"partforge_rewrite_current_stage_elapsed_seconds", kGauge, "job_id,part_id,stage",
     "Time in the running stage."},
    {"partforge_rewrite_completed_stage_duration_seconds", kGauge, "job_id,part_id,stage",
     "Time of a stage that is done."},
    {"partforge_rewrite_total_elapsed_seconds", kGauge, kJobPart,
     "Time since the running rewrite started."},
    {"partforge_insert_attempt_duration_seconds", kHistogram,
     "job_id,source_table,destination_table,result", "Time of one insert attempt.", kTask},
    {"partforge_insert_duration_seconds", kHistogram,
     "job_id,source_table,destination_table,result,retried",
     "Time of the whole insert loop of a rewrite.", kTask},
    {"partforge_insert_wasted_seconds_total", kCounter,
     "job_id,source_table,destination_table,result,retried",
     "Insert time that produced nothing: the loop less its successful attempts and partition "
     "moves."},
    {"partforge_insert_retries_total", kCounter, "reason", "Insert attempts after the first."},
    {"partforge_chunks_completed_total", kCounter, "job_id,source_table,destination_table",
     "Insert chunks completed."},

    // States of parts (user-experience §8).
    {"partforge_parts", kGauge, "job_id,status", "Parts of a job in each status."},
    {"partforge_backlog_age_seconds", kGauge, "status",
     "Age of the oldest part in each status that waits for work."},
    {"partforge_job_finalize_eta_seconds", kGauge, "job_id",
     "Estimated time until a job can be finalized."},

    // ClickHouse compaction (clickhouse-parts §14).
    {"partforge_compactions_started_total", kCounter, "job_id", "Compaction batches started."},
    {"partforge_compactions_completed_total", kCounter, "job_id", "Compaction batches completed."},
    {"partforge_compactions_failed_total", kCounter, "job_id,code", "Compaction batches failed."},
    {"partforge_compactions_no_reduction_total", kCounter, "job_id",
     "Compaction batches that reduced nothing."},
    {"partforge_compaction_duration_seconds", kHistogram, "job_id,result",
     "Time of one compaction batch.", kTask},
    {"partforge_compact_input_artifacts", kGauge, kBatch,
     "Artifacts taken into the running batch."},
    {"partforge_compact_batch_active", kGauge, kBatch, "1 while a batch runs."},
    {"partforge_compact_active_merges", kGauge, kBatch, "Merges running in the batch."},
    {"partforge_compact_stage", kGauge, "job_id,output_part_id,stage",
     "Always 1; the label names the running stage."},
    {"partforge_compact_part_count", kGauge, "role,job_id,output_part_id", "Parts of the batch."},
    {"partforge_compact_part_rows", kGauge, "role,job_id,output_part_id",
     "Rows in the parts of the batch."},
    {"partforge_compact_part_bytes", kGauge, "role,job_id,output_part_id",
     "Bytes in the parts of the batch."},
    {"partforge_compact_partition_parts", kGauge, kBatchPartition,
     "Parts of a partition of the batch."},
    {"partforge_compact_partition_rows", kGauge, kBatchPartition,
     "Rows in a partition of the batch."},
    {"partforge_compact_partition_bytes", kGauge, kBatchPartition,
     "Bytes in a partition of the batch."},
    {"partforge_compact_merge_progress_ratio", kGauge, kMerge, "Progress of a merge, 0 to 1."},
    {"partforge_compact_merge_elapsed_seconds", kGauge, kMerge, "Time a merge has run."},
    {"partforge_compact_merge_source_parts", kGauge, kMerge, "Parts a merge reads."},
    {"partforge_compact_merge_rows_read", kGauge, kMerge, "Rows a merge has read."},
    {"partforge_compact_merge_rows_total", kGauge, kMerge, "Rows a merge will read."},
    {"partforge_compact_merge_bytes_read", kGauge, kMerge, "Uncompressed bytes a merge has read."},
    {"partforge_compact_merge_bytes_total", kGauge, kMerge,
     "Uncompressed bytes a merge will read."},
    {"partforge_compact_block_byte_limit", kGauge, "job_id",
     "Byte limit of a merge block now in force."},
    {"partforge_compact_memory_backoffs_total", kCounter, "job_id",
     "Times a merge failed on memory and the limit was lowered."},
    {"partforge_compact_heartbeat_age_seconds", kGauge, "job_id",
     "Time since a compaction last reported."},

    // The engine's own metrics page (clickhouse-parts §14).
    {"partforge_clickhouse_metrics_up", kGauge, "",
     "1 when the last scrape of the engine's metrics succeeded, else 0."},
    {"partforge_clickhouse_metrics_scrapes_total", kCounter, "",
     "Scrapes of the engine's metrics."},
    {"partforge_clickhouse_metrics_scrape_failures_total", kCounter, "",
     "Scrapes of the engine's metrics that failed."},
    {"partforge_clickhouse_metrics_scrape_duration_seconds", kHistogram, "",
     "Time of one scrape of the engine's metrics.", kRequest},

    // Leases and publishing (clickhouse-parts §14, the last row).
    {"partforge_lease_renewals_total", kCounter, "result", "Lease renewals."},
    {"partforge_lease_lost_total", kCounter, "status", "Leases lost to another owner or to time."},
    {"partforge_crash_releases_total", kCounter, "",
     "Items released because their owner was found dead."},
    {"partforge_verification_failures_total", kCounter, "check,what",
     "Verifications that found a difference."},
    {"partforge_conservation_checks_total", kCounter, "result",
     "Checks that no row was lost or doubled."},
    {"partforge_publish_parts", kGauge, "state", "Produced parts in each state of publication."},
    {"partforge_in_doubt_parts", kGauge, "",
     "Produced parts whose publication could not be confirmed."},

    // Table maintenance (user-experience §8).
    {"partforge_table_files", kGauge, "format,table,content", "Live files of a table."},
    {"partforge_table_small_file_ratio", kGauge, "format,table",
     "Share of a table's files below the target size, 0 to 1."},
    {"partforge_table_delete_ratio", kGauge, "format,table",
     "Share of a table's rows that are deleted, 0 to 1."},
    {"partforge_table_snapshots", kGauge, "format,table", "Snapshots of a table."},
    {"partforge_table_last_compaction_timestamp_seconds", kGauge, "format,table",
     "Unix time of a table's last compaction."},
    {"partforge_maintenance_runs_total", kCounter, "format,action,result", "Maintenance runs."},
    {"partforge_maintenance_seconds", kHistogram, "format,action", "Time of one maintenance run.",
     kTask},
    {"partforge_maintenance_input_files_total", kCounter, "format,action",
     "Files read by maintenance."},
    {"partforge_maintenance_output_files_total", kCounter, "format,action",
     "Files written by maintenance."},
    {"partforge_maintenance_bytes_copied_total", kCounter, "format,action",
     "Bytes copied without decoding."},
    {"partforge_maintenance_bytes_rewritten_total", kCounter, "format,action",
     "Bytes decoded and encoded again."},
    {"partforge_commit_conflicts_total", kCounter, "format,kind",
     "Commits refused because the table had changed."},
    {"partforge_commit_rebases_total", kCounter, "format",
     "Commits planned again on a newer snapshot."},
    {"partforge_commit_unknown_total", kCounter, "format",
     "Commits whose outcome had to be looked up."},
    {"partforge_orphan_files_removed_total", kCounter, "format",
     "Files removed because nothing refers to them."},

    // Loads (user-experience §8, exactly-once §12).
    {"partforge_loads", kGauge, "state", "Loads in each state."},
    {"partforge_load_attempts_total", kCounter, "result", "Attempts of load tasks."},
    {"partforge_load_publish_seconds", kHistogram, "protocol",
     "Time from decision to publication of a load.", kTask},
    {"partforge_load_recoveries_total", kCounter, "",
     "Loads taken over after their publisher died."},
    {"partforge_load_pieces_total", kCounter, "protocol,outcome", "Pieces of loads published."},
    {"partforge_load_suppressed_total", kCounter, "",
     "Pieces found already published and not sent again."},
    {"partforge_load_recovered_total", kCounter, "observed",
     "Pieces settled by looking at the target."},
    {"partforge_load_in_doubt", kGauge, "", "Pieces whose outcome is not known yet."},
    {"partforge_load_staged_bytes", kGauge, "", "Bytes staged and not published."},
    {"partforge_load_gc_objects_total", kCounter, "",
     "Staged objects removed after their load ended."},
    {"partforge_fenced_writes_total", kCounter, "",
     "Writes refused because the writer's epoch had passed."},

    // Dependencies.
    {"partforge_object_requests_total", kCounter, "op,result", "Requests to the object store."},
    {"partforge_object_request_seconds", kHistogram, "op",
     "Time of one request to the object store.", kRequest},
    {"partforge_object_bytes_total", kCounter, "direction",
     "Bytes moved from and to the object store."},
    {"partforge_state_query_seconds", kHistogram, "query",
     "Time of one statement of the state store.", kRequest},
    {"partforge_state_errors_total", kCounter, "code",
     "Statements of the state store that failed."},
    {"partforge_engine_restarts_total", kCounter, "", "Times the engine child was started again."},
    {"partforge_engine_memory_bytes", kGauge, "", "Resident memory of the engine child."},
    {"partforge_memory_budget_bytes", kGauge, "state", "Bytes of the memory budget."},
    {"partforge_work_dir_free_bytes", kGauge, "",
     "Free bytes of the file system that holds the work directory."},

    // Build and process.
    {"partforge_build_info", kGauge, "version,revision,engine_version",
     "Always 1; the labels say what runs."},
    {"partforge_start_time_seconds", kGauge, "", "Unix time at which this process was ready."},
});

}  // namespace

std::span<const MetricEntry> MetricTable() {
  return kTable;
}

const MetricEntry* FindMetric(std::string_view name) {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [&](const MetricEntry& entry) { return entry.name == name; });
  return found == kTable.end() ? nullptr : &*found;
}

}  // namespace partforge
