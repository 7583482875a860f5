#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "store/object_store.h"
#include "testing/test_world.h"

namespace partforge::testing {

// A store and what it needs to live, fresh for each test.
class StoreRig {
 public:
  virtual ~StoreRig() = default;
  virtual ObjectStore& store() = 0;
};

struct StoreCase {
  std::string name;
  std::function<std::unique_ptr<StoreRig>()> make;

  friend void PrintTo(const StoreCase& store_case, std::ostream* out) { *out << store_case.name; }
};

// The promises of ObjectStore. A test binary instantiates the suite for its implementations:
//   INSTANTIATE_TEST_SUITE_P(Local, ObjectStoreContract, ::testing::Values(StoreCase{…}),
//   StoreCaseName);
class ObjectStoreContract : public ::testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override { rig_ = GetParam().make(); }
  ObjectStore& store() { return rig_->store(); }
  Context ctx() { return world_.context(); }
  TestWorld& world() { return world_; }

  void Write(const std::string& key, const std::string& bytes);
  std::string Read(const std::string& key);
  std::vector<std::string> Keys(const std::string& prefix);

 private:
  TestWorld world_;
  std::unique_ptr<StoreRig> rig_;
};

std::string StoreCaseName(const ::testing::TestParamInfo<StoreCase>& info);

// `size` bytes that depend on `seed` and do not repeat soon.
std::string TestBytes(size_t size, uint64_t seed);

}  // namespace partforge::testing
