#pragma once

#include <span>
#include <string_view>

namespace partforge {

enum class MetricKind { kCounter, kGauge, kHistogram };

// How the buckets of a histogram grow: each bound is twice the one before.
enum class MetricBuckets {
  kNone,
  kTask,     // 1 s · 2^0 … 2^15, about nine hours (clickhouse-parts §14)
  kRequest,  // 1 ms · 2^0 … 2^16, about a minute
};

// One metric that this program may report.
struct MetricEntry {
  std::string_view name;
  MetricKind kind = MetricKind::kGauge;
  std::string_view
      labels;  // in the order of the spec, separated by commas; for readers and the docs
  std::string_view help;
  MetricBuckets buckets = MetricBuckets::kNone;
};

// Every metric, in the order of the specs: clickhouse-parts §14, user-experience §8, exactly-once
// §12.
std::span<const MetricEntry> MetricTable();

// The entry called `name`, nullptr when there is none.
const MetricEntry* FindMetric(std::string_view name);

}  // namespace partforge
