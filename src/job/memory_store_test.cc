#include <gtest/gtest.h>

#include <memory>

#include "testing/job_store_contract.h"
#include "testing/memory_job_store.h"

namespace partforge::testing {
namespace {

StoreUnderTest MakeMemory(const Context& ctx) {
  auto store = std::make_unique<MemoryJobStore>(ctx.clock);
  StoreUnderTest made;
  made.shift_clock_ms = [memory = store.get()](int64_t ms) { memory->ShiftMs(ms); };
  made.store = std::move(store);
  return made;
}

INSTANTIATE_TEST_SUITE_P(Memory, JobStoreContract,
                         ::testing::Values(NamedStore{"memory", MakeMemory}), StoreName);

}  // namespace
}  // namespace partforge::testing
