#include "testing/test_world.h"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace partforge::testing {

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "pf-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

uint64_t SeededRandom::Next() {
  const std::lock_guard lock(mutex_);
  uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t TestSeed() {
  if (const char* text = std::getenv("PARTFORGE_TEST_SEED"); text != nullptr) {
    return std::strtoull(text, nullptr, 10);
  }
  SystemRandom random;
  return random.Next();
}

Status FailNth::Hit(std::string_view point) {
  if (!point.starts_with(prefix_)) return {};
  if (++seen_ != nth_) return {};
  has_fired_ = true;
  fired_point_ = point;
  return Status(code_, "injected fault at " + std::string(point));
}

TestWorld::TestWorld(int64_t memory_bytes)
    : random_(TestSeed()),
      log_(system_clock_,
           Log::Options{.level = LogLevel::kDebug, .format = LogFormat::kText, .common = {}},
           [this](std::string_view line) {
             const std::lock_guard lock(mutex_);
             lines_.emplace_back(line);
           }),
      memory_(memory_bytes) {}

std::vector<std::string> TestWorld::log_lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

}  // namespace partforge::testing
