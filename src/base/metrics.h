#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace partforge {

using MetricLabels = std::map<std::string, std::string>;

// Counters, gauges and histograms behind Prometheus' registry, and one text exposition.
// Thread-safe. Names and help texts stand in one table in metrics.cc (names: clickhouse-parts §14,
// user-experience §8); a name that is not in the table is a bug of ours (PF_CHECK).
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void Add(std::string_view counter, const MetricLabels& labels, double amount = 1.0);
  void Set(std::string_view gauge, const MetricLabels& labels, double value);
  void Observe(std::string_view histogram, const MetricLabels& labels, double value);
  // Takes away one series, e.g. a gauge whose work item has ended. Nothing happens when it does not
  // exist.
  void Remove(std::string_view name, const MetricLabels& labels);
  // Takes away every series of `name` whose labels contain all of `labels`.
  void RemoveMatching(std::string_view name, const MetricLabels& labels);

  // The page in Prometheus text format 0.0.4.
  std::string Expose() const;

 private:
  struct Registry;
  std::unique_ptr<Registry> registry_;
};

}  // namespace partforge
