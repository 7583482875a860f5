#pragma once

#include <memory>
#include <string>

#include "base/context.h"

namespace partforge {

// The real outside world, owned by main(). Not copied; contexts refer to it.
class World {
 public:
  struct Options {
    Log::Options log;
    Log::Sink log_sink;  // empty: stderr
    int64_t memory_bytes = int64_t{1} << 31;
    std::string fault_spec,
        fault_trace_path;  // values of PARTFORGE_FAULT and PARTFORGE_FAULT_TRACE
  };
  static Result<std::unique_ptr<World>> Open(const Options& options);
  Context MakeContext(std::stop_token stop);

 private:
  World(const Options& options, std::unique_ptr<Faults> faults);
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<Faults> faults_;
  Log log_;
  Metrics metrics_;
  MemoryBudget memory_;
};

}  // namespace partforge
