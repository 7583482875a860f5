#include "base/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <variant>

#include "base/error.h"
#include "base/metric_table.h"
#include "base/process_metrics.h"

namespace partforge {
namespace {

using AnyFamily =
    std::variant<prometheus::Family<prometheus::Counter>*, prometheus::Family<prometheus::Gauge>*,
                 prometheus::Family<prometheus::Histogram>*>;

prometheus::Histogram::BucketBoundaries Bounds(MetricBuckets buckets) {
  const double first = buckets == MetricBuckets::kRequest ? 0.001 : 1.0;
  const int count = buckets == MetricBuckets::kRequest ? 17 : 16;
  prometheus::Histogram::BucketBoundaries bounds;
  for (int i = 0; i < count; ++i) bounds.push_back(first * std::ldexp(1.0, i));
  return bounds;
}

bool ContainsAll(const std::vector<prometheus::ClientMetric::Label>& have,
                 const MetricLabels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& want) {
    return std::any_of(have.begin(), have.end(), [&](const auto& label) {
      return label.name == want.first && label.value == want.second;
    });
  });
}

template <class T>
MetricLabels LabelsOf(const T& series) {
  MetricLabels labels;
  for (const auto& label : series.label) labels.emplace(label.name, label.value);
  return labels;
}

// Only histograms take something beside their labels.
template <class T>
T& Series(prometheus::Family<T>& family, const MetricLabels& labels, MetricBuckets buckets) {
  if constexpr (std::is_same_v<T, prometheus::Histogram>) {
    return family.Add(labels, Bounds(buckets));
  } else {
    return family.Add(labels);
  }
}

std::vector<prometheus::MetricFamily> ProcessFamilies() {
  std::vector<prometheus::MetricFamily> families;
  for (const ProcessMetric& metric : ReadProcessMetrics()) {
    prometheus::ClientMetric series;
    (metric.is_counter ? series.counter.value : series.gauge.value) = metric.value;
    families.push_back({.name = std::string(metric.name),
                        .help = std::string(metric.help),
                        .type = metric.is_counter ? prometheus::MetricType::Counter
                                                  : prometheus::MetricType::Gauge,
                        .metric = {series}});
  }
  return families;
}

}  // namespace

// The lock spans lookup and use of a series: Prometheus' families are thread-safe one call at a
// time, but a series may be removed between our finding it and our changing it.
struct Metrics::Registry {
  prometheus::Registry registry;
  mutable std::mutex mutex;
  std::map<std::string, AnyFamily, std::less<>> families;  // guarded by mutex; filled at first use

  static const MetricEntry& Entry(std::string_view name) {
    const MetricEntry* entry = FindMetric(name);
    PF_CHECK(entry != nullptr, fmt::format("metric is not in metric_table.cc: {}", name));
    return *entry;
  }

  AnyFamily FamilyOf(const MetricEntry& entry) {
    const auto found = families.find(entry.name);
    if (found != families.end()) return found->second;
    const std::string name(entry.name), help(entry.help);
    AnyFamily family;
    switch (entry.kind) {
      case MetricKind::kCounter:
        family = &prometheus::BuildCounter().Name(name).Help(help).Register(registry);
        break;
      case MetricKind::kGauge:
        family = &prometheus::BuildGauge().Name(name).Help(help).Register(registry);
        break;
      case MetricKind::kHistogram:
        family = &prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
        break;
    }
    families.emplace(name, family);
    return family;
  }

  // The series to change; the caller holds the mutex.
  template <class T>
  T& SeriesOf(std::string_view name, const MetricLabels& labels) {
    const MetricEntry& entry = Entry(name);
    const AnyFamily any = FamilyOf(entry);
    auto* const* family = std::get_if<prometheus::Family<T>*>(&any);
    PF_CHECK(family != nullptr, fmt::format("metric is of another kind: {}", name));
    return Series(**family, labels, entry.buckets);
  }

  void RemoveIf(std::string_view name,
                const std::function<bool(const prometheus::ClientMetric&)>& is_wanted) {
    const MetricEntry& entry = Entry(name);
    const std::lock_guard lock(mutex);
    std::visit(
        [&](auto* family) {
          for (const auto& collected : family->Collect()) {
            for (const auto& series : collected.metric) {
              if (is_wanted(series))
                family->Remove(&Series(*family, LabelsOf(series), entry.buckets));
            }
          }
        },
        FamilyOf(entry));
  }
};

Metrics::Metrics() : registry_(std::make_unique<Registry>()) {}
Metrics::~Metrics() = default;

void Metrics::Add(std::string_view counter, const MetricLabels& labels, double amount) {
  PF_CHECK(amount >= 0, fmt::format("a counter cannot fall: {} by {}", counter, amount));
  const std::lock_guard lock(registry_->mutex);
  registry_->SeriesOf<prometheus::Counter>(counter, labels).Increment(amount);
}

void Metrics::Set(std::string_view gauge, const MetricLabels& labels, double value) {
  const std::lock_guard lock(registry_->mutex);
  registry_->SeriesOf<prometheus::Gauge>(gauge, labels).Set(value);
}

void Metrics::Observe(std::string_view histogram, const MetricLabels& labels, double value) {
  const std::lock_guard lock(registry_->mutex);
  registry_->SeriesOf<prometheus::Histogram>(histogram, labels).Observe(value);
}

void Metrics::Remove(std::string_view name, const MetricLabels& labels) {
  registry_->RemoveIf(
      name, [&](const prometheus::ClientMetric& series) { return LabelsOf(series) == labels; });
}

void Metrics::RemoveMatching(std::string_view name, const MetricLabels& labels) {
  registry_->RemoveIf(name, [&](const prometheus::ClientMetric& series) {
    return ContainsAll(series.label, labels);
  });
}

std::string Metrics::Expose() const {
  std::vector<prometheus::MetricFamily> families = ProcessFamilies();
  {
    const std::lock_guard lock(registry_->mutex);
    for (auto& family : registry_->registry.Collect()) families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace partforge
