#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/context.h"
#include "testing/sim_clock.h"

namespace partforge::testing {

// A folder that is removed with the object, below $TMPDIR or /tmp.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// A repeatable source of chance (SplitMix64).
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override;

 private:
  std::mutex mutex_;
  uint64_t state_;  // guarded by mutex_
};

// Seed of a random test: PARTFORGE_TEST_SEED when set, else drawn; print it on failure with
// SCOPED_TRACE.
uint64_t TestSeed();

// Fails the n-th Hit (from 1) of any point, or of the points that start with `prefix`.
class FailNth final : public Faults {
 public:
  explicit FailNth(int64_t nth, std::string prefix = "", Code code = Code::kUnavailable)
      : nth_(nth), prefix_(std::move(prefix)), code_(code) {}
  Status Hit(std::string_view point) override;
  bool has_fired() const { return has_fired_; }
  const std::string& fired_point() const { return fired_point_; }

 private:
  const int64_t nth_;
  const std::string prefix_;
  const Code code_;
  int64_t seen_ = 0;
  bool has_fired_ = false;
  std::string fired_point_;
};

// Everything a Context needs, for tests: real clock (or SimClock), seeded chance, captured log.
class TestWorld {
 public:
  explicit TestWorld(int64_t memory_bytes = int64_t{1} << 31);
  Context context() {
    return Context{*clock_, random_, *faults_, log_, metrics_, memory_, stop_.get_token()};
  }
  void UseFaults(Faults& faults) { faults_ = &faults; }
  void UseClock(Clock& clock) { clock_ = &clock; }
  void RequestStop() { stop_.request_stop(); }
  std::vector<std::string> log_lines() const;
  Metrics& metrics() { return metrics_; }

 private:
  SystemClock system_clock_;
  Clock* clock_ = &system_clock_;
  SeededRandom random_;
  NoFaults no_faults_;
  Faults* faults_ = &no_faults_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;  // guarded by mutex_
  Log log_;
  Metrics metrics_;
  MemoryBudget memory_;
  std::stop_source stop_;
};

}  // namespace partforge::testing
