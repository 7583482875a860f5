#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partforge::sim {

// Which product is under test: the real one, or one with a known mistake, to see that the laws have
// teeth.
enum class Mistake : uint8_t {
  kNone,
  kSharedNames,  // staged names are the same in every epoch
  kCopies,       // what is bound is copied into place instead of moved
  kBlindApply,   // a lake commit is added without asking whether it is there
};

struct HistoryOptions {
  uint64_t seed = 1;
  int64_t faulty_steps = 600;
  Mistake mistake = Mistake::kNone;
  bool is_traced = false;
};
struct HistoryOutcome {
  std::string broken;  // empty: every law held and everything finished
  int64_t steps = 0, crashes = 0;
  std::vector<std::string> trace;  // when asked for
};

// Two jobs (parts that are compacted and imported into a table, files of a lake), two workers, two
// importers and a server, on simulated time, with everything going wrong that may. Deterministic in
// its options.
HistoryOutcome RunHistory(const HistoryOptions& options);

}  // namespace partforge::sim
