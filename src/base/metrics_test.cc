#include "base/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "base/metric_table.h"

namespace partforge {
namespace {

bool IsSnakeCase(std::string_view text) {
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' &&
         text.find("__") == std::string_view::npos &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool HasLine(const Metrics& metrics, const std::string& wanted) {
  const auto lines = Lines(metrics.Expose());
  return std::find(lines.begin(), lines.end(), wanted) != lines.end();
}

std::vector<std::string> LabelNames(const MetricEntry& entry) {
  std::vector<std::string> names;
  std::istringstream in{std::string(entry.labels)};
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

// Gives every metric of the table a value under all its labels.
void ReportEverything(Metrics& metrics) {
  for (const MetricEntry& entry : MetricTable()) {
    MetricLabels labels;
    for (const std::string& name : LabelNames(entry)) labels[name] = "v";
    switch (entry.kind) {
      case MetricKind::kCounter:
        metrics.Add(entry.name, labels);
        break;
      case MetricKind::kGauge:
        metrics.Set(entry.name, labels, 1);
        break;
      case MetricKind::kHistogram:
        metrics.Observe(entry.name, labels, 1);
        break;
    }
  }
}

// user-experience §8: prefix, snake case, base units, counters end in _total and gauges do not,
// help always.
TEST(MetricTable, FollowsTheRulesOfNaming) {
  std::set<std::string_view> names;
  for (const MetricEntry& entry : MetricTable()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(names.insert(entry.name).second) << "twice in the table";
    EXPECT_TRUE(entry.name.starts_with("partforge_"));
    EXPECT_TRUE(IsSnakeCase(entry.name));
    // Two gauges keep the reference's names (clickhouse-parts §14).
    const bool is_exempt = entry.name == "partforge_compact_merge_rows_total" ||
                           entry.name == "partforge_compact_merge_bytes_total";
    EXPECT_EQ(entry.name.ends_with("_total"), is_exempt || entry.kind == MetricKind::kCounter);
    EXPECT_EQ(entry.name.find("_ms"), std::string_view::npos);
    EXPECT_EQ(entry.buckets != MetricBuckets::kNone, entry.kind == MetricKind::kHistogram);
    EXPECT_TRUE(entry.kind != MetricKind::kHistogram || entry.name.ends_with("_seconds"));
    EXPECT_TRUE(entry.help.ends_with(".")) << entry.help;
    EXPECT_EQ(entry.help.find_first_of("\\\n"), std::string_view::npos);
    for (const std::string& label : LabelNames(entry)) EXPECT_TRUE(IsSnakeCase(label)) << label;
  }
}

TEST(MetricTable, HoldsTheNamesOfTheReference) {
  for (const std::string_view name :
       {"partforge_forges_started_total", "partforge_forge_duration_seconds",
        "partforge_current_total_rows_approx", "partforge_rewrite_completed_stage_duration_seconds",
        "partforge_insert_wasted_seconds_total", "partforge_compactions_no_reduction_total",
        "partforge_compact_merge_bytes_total", "partforge_clickhouse_metrics_up"}) {
    EXPECT_NE(FindMetric(name), nullptr) << name;
  }
}

TEST(Metrics, EveryFamilyHasHelpAndTypeOnceAndBeforeItsSeries) {
  Metrics metrics;
  ReportEverything(metrics);
  metrics.Add("partforge_object_requests_total", {{"op", "put"}, {"result", "ok"}});
  std::set<std::string> families;
  std::string family;
  bool has_type = false;
  for (const std::string& line : Lines(metrics.Expose())) {
    std::istringstream words(line);
    std::string hash, word, name;
    if (line.starts_with("# HELP ")) {
      words >> hash >> word >> family;
      EXPECT_TRUE(families.insert(family).second) << line;
      has_type = false;
    } else if (line.starts_with("# TYPE ")) {
      words >> hash >> word >> name;
      EXPECT_EQ(name, family);
      has_type = true;
    } else {
      EXPECT_TRUE(has_type) << line;
      EXPECT_TRUE(line.starts_with(family)) << line;
      EXPECT_NE(line.find(' '), std::string::npos) << line;
    }
  }
  // The process's own, which are not in the table, come on top.
  EXPECT_GE(families.size(), MetricTable().size());
}

TEST(Metrics, ValuesAddUpSetAndFallIntoBuckets) {
  Metrics metrics;
  metrics.Add("partforge_crash_releases_total", {});
  metrics.Add("partforge_crash_releases_total", {}, 2.5);
  metrics.Set("partforge_in_doubt_parts", {}, 7);
  metrics.Set("partforge_in_doubt_parts", {}, 3);
  metrics.Observe("partforge_compaction_duration_seconds",
                  {{"job_id", "j"}, {"result", "completed"}}, 3);
  metrics.Observe("partforge_compaction_duration_seconds",
                  {{"job_id", "j"}, {"result", "completed"}}, 1e9);
  EXPECT_TRUE(HasLine(metrics, "partforge_crash_releases_total 3.5"));
  EXPECT_TRUE(HasLine(metrics, "partforge_in_doubt_parts 3"));
  const std::string series =
      "partforge_compaction_duration_seconds_bucket{job_id=\"j\",result=\"completed\",le=";
  EXPECT_TRUE(HasLine(metrics, series + "\"1\"} 0")) << metrics.Expose();
  EXPECT_TRUE(HasLine(metrics, series + "\"4\"} 1"));
  EXPECT_TRUE(HasLine(metrics, series + "\"32768\"} 1"));  // 2^15, the last bound of the spec
  EXPECT_TRUE(HasLine(metrics, series + "\"+Inf\"} 2"));
}

TEST(Metrics, LabelValuesAreEscaped) {
  Metrics metrics;
  metrics.Set("partforge_publish_parts", {{"state", "a\"b\\c\nd"}}, 1);
  EXPECT_TRUE(HasLine(metrics, R"(partforge_publish_parts{state="a\"b\\c\nd"} 1)"))
      << metrics.Expose();
}

TEST(Metrics, RemoveTakesOneSeriesOfEachKind) {
  Metrics metrics;
  for (const std::string job : {"1", "2"}) {
    metrics.Set("partforge_compact_block_byte_limit", {{"job_id", job}}, 1);
    metrics.Add("partforge_compactions_started_total", {{"job_id", job}});
    metrics.Observe("partforge_compaction_duration_seconds", {{"job_id", job}}, 1);
  }
  for (const std::string_view name :
       {"partforge_compact_block_byte_limit", "partforge_compactions_started_total",
        "partforge_compaction_duration_seconds"}) {
    metrics.Remove(name, {{"job_id", "1"}});
    metrics.Remove(name, {{"job_id", "never seen"}});
    metrics.Remove(name, {});
  }
  EXPECT_EQ(metrics.Expose().find("job_id=\"1\""), std::string::npos);
  EXPECT_TRUE(HasLine(metrics, "partforge_compact_block_byte_limit{job_id=\"2\"} 1"));
  EXPECT_TRUE(HasLine(metrics, "partforge_compactions_started_total{job_id=\"2\"} 1"));
  EXPECT_TRUE(HasLine(metrics, "partforge_compaction_duration_seconds_count{job_id=\"2\"} 1"));
}

TEST(Metrics, RemoveMatchingTakesAllThatHoldTheLabels) {
  Metrics metrics;
  const auto set = [&](const std::string& job, const std::string& part, const std::string& stage) {
    metrics.Set("partforge_rewrite_current_stage",
                {{"job_id", job}, {"part_id", part}, {"stage", stage}}, 1);
  };
  set("1", "a", "claim");
  set("1", "a", "insert");
  set("1", "b", "claim");
  set("2", "a", "claim");
  metrics.RemoveMatching("partforge_rewrite_current_stage", {{"job_id", "1"}, {"part_id", "a"}});
  const auto lines = Lines(metrics.Expose());
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.starts_with("partforge_rewrite_current_stage{");
                          }),
            2);
  metrics.RemoveMatching("partforge_rewrite_current_stage", {});
  EXPECT_EQ(metrics.Expose().find("partforge_rewrite_current_stage"), std::string::npos);
}

TEST(Metrics, ProcessReportsItself) {
  const std::string page = Metrics().Expose();
  for (const std::string_view name : {"process_cpu_seconds_total", "process_resident_memory_bytes",
                                      "process_open_fds", "process_start_time_seconds"}) {
    EXPECT_NE(page.find("\n" + std::string(name) + " "), std::string::npos) << page;
  }
}

TEST(Metrics, ThreadsMayAddRemoveAndExposeAtOnce) {
  Metrics metrics;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          metrics.Add("partforge_crash_releases_total", {});
          metrics.Set("partforge_parts", {{"job_id", "j"}, {"status", std::to_string(i % 7)}}, 1);
          metrics.RemoveMatching("partforge_parts", {{"job_id", "j"}});
          if (i % 50 == 0) (void)metrics.Expose();
        }
      });
    }
  }
  EXPECT_TRUE(HasLine(metrics, "partforge_crash_releases_total 2000"));
}

TEST(MetricsDeathTest, UnknownNameOrWrongKindIsABug) {
  Metrics metrics;
  EXPECT_DEATH(metrics.Add("partforge_typo_total", {}), "partforge_typo_total");
  EXPECT_DEATH(metrics.Set("partforge_crash_releases_total", {}, 1), "another kind");
  EXPECT_DEATH(metrics.Add("partforge_crash_releases_total", {}, -1), "cannot fall");
}

}  // namespace
}  // namespace partforge
