#include "base/world.h"

namespace partforge {

Result<std::unique_ptr<World>> World::Open(const Options& options) {
  std::unique_ptr<Faults> faults = std::make_unique<NoFaults>();
  if (!options.fault_spec.empty() || !options.fault_trace_path.empty()) {
    PF_ASSIGN(faults, EnvironmentFaults::Parse(options.fault_spec, options.fault_trace_path));
  }
  return std::unique_ptr<World>(new World(options, std::move(faults)));
}

World::World(const Options& options, std::unique_ptr<Faults> faults)
    : faults_(std::move(faults)),
      log_(options.log_sink ? Log(clock_, options.log, options.log_sink)
                            : Log(clock_, options.log)),
      memory_(options.memory_bytes) {}

Context World::MakeContext(std::stop_token stop) {
  return Context{clock_, random_, *faults_, log_, metrics_, memory_, std::move(stop)};
}

}  // namespace partforge
