// partforge_sim --seed N --steps M --histories K: runs K histories from seed N on; M steps of each
// may go wrong. A broken law prints the seed and the whole history, and ends with 1; the same seed
// replays it exactly.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "history.h"

namespace {

using partforge::sim::HistoryOptions;
using partforge::sim::Mistake;

bool ParseNumber(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0;
}

void PrintHistory(HistoryOptions options) {
  options.is_traced = true;
  const auto outcome = RunHistory(options);
  for (const std::string& line : outcome.trace) std::printf("%s\n", line.c_str());
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(options.seed),
              outcome.broken.empty() ? "every law held" : outcome.broken.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  int64_t seed = 1, steps = 600, histories = 1, is_traced = 0, mistake = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    int64_t* value = flag == "--seed"        ? &seed
                     : flag == "--steps"     ? &steps
                     : flag == "--histories" ? &histories
                     : flag == "--trace"     ? &is_traced
                     : flag == "--mistake"   ? &mistake
                                             : nullptr;
    if (value == nullptr || !ParseNumber(argv[i + 1], value)) {
      std::fprintf(stderr,
                   "usage: partforge_sim [--seed N] [--steps M] [--histories K] [--trace 0|1]\n");
      return 2;
    }
  }
  int64_t all_steps = 0, all_crashes = 0;
  for (int64_t i = 0; i < histories; ++i) {
    HistoryOptions options;
    options.seed = static_cast<uint64_t>(seed + i);
    options.faulty_steps = steps;
    options.mistake = static_cast<Mistake>(mistake);
    if (is_traced != 0) {
      PrintHistory(options);
      continue;
    }
    const auto outcome = RunHistory(options);
    all_steps += outcome.steps;
    all_crashes += outcome.crashes;
    if (!outcome.broken.empty()) {
      PrintHistory(options);
      return 1;
    }
  }
  std::printf("%lld histories, %lld steps, %lld crashes: every law held\n",
              static_cast<long long>(histories), static_cast<long long>(all_steps),
              static_cast<long long>(all_crashes));
  return 0;
}
