#include <memory>

#include "store/limited_store.h"
#include "store/local_store.h"
#include "store/s3_store.h"
#include "testing/faulty_store.h"
#include "testing/memory_store.h"
#include "testing/object_store_contract.h"
#include "testing/s3_fake.h"

namespace partforge::testing {
namespace {

class LocalRig final : public StoreRig {
 public:
  ObjectStore& store() override { return store_; }

 private:
  TempDir folder_;
  LocalStore store_{folder_ / "bucket"};
};

// A limit that nobody reaches: the store behaves as the one behind it.
class LimitedRig final : public StoreRig {
 public:
  ObjectStore& store() override { return *store_; }

 private:
  TempDir folder_;
  RateLimit limit_{int64_t{1} << 50};
  const std::unique_ptr<ObjectStore> store_ =
      LimitRates(std::make_unique<LocalStore>(folder_ / "bucket"), &limit_, &limit_);
};

class MemoryRig final : public StoreRig {
 public:
  ObjectStore& store() override { return store_; }

 private:
  MemoryStore store_;
};

class FaultyRig final : public StoreRig {
 public:
  ObjectStore& store() override { return store_; }

 private:
  MemoryStore inner_;
  FaultyStore store_{inner_};
};

// Small parts, so that the contract's objects cross their borders.
class S3FakeRig final : public StoreRig {
 public:
  explicit S3FakeRig(S3FakeOptions options) : fake_(std::move(options)) {
    S3StoreOptions store = fake_.store_options();
    store.part_bytes = store.part_bytes_min = fake_.options().part_bytes_min;
    store_ = std::make_unique<S3Store>(std::move(store));
  }
  ObjectStore& store() override { return *store_; }

 private:
  S3Fake fake_;
  std::unique_ptr<S3Store> store_;
};

template <class Rig>
StoreCase Case(std::string name) {
  return {.name = std::move(name), .make = [] { return std::make_unique<Rig>(); }};
}

StoreCase FakeCase(std::string name, S3FakeOptions options) {
  options.part_bytes_min = 64 << 10;
  return {.name = std::move(name),
          .make = [options] { return std::make_unique<S3FakeRig>(options); }};
}

INSTANTIATE_TEST_SUITE_P(
    Stores, ObjectStoreContract,
    ::testing::Values(Case<LocalRig>("Local"), Case<LimitedRig>("Limited"),
                      Case<MemoryRig>("Memory"), Case<FaultyRig>("Faulty"), FakeCase("S3Fake", {}),
                      FakeCase("S3FakeWithoutDeleteMany", {.knows_delete_many = false})),
    StoreCaseName);

}  // namespace
}  // namespace partforge::testing
