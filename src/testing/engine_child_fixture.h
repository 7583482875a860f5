#pragma once

#include <string>
#include <vector>

#include "base/process.h"
#include "engine/child_engine.h"
#include "testing/test_world.h"

namespace partforge::testing {

// Options of a ChildEngine that starts the test program `engine_child`, which stands beside the
// test binary.
inline ChildEngineOptions EngineChildOptions(const std::filesystem::path& data_path) {
  ChildEngineOptions options;
  options.program = {(SelfPath().parent_path() / "engine_child").string(), "engine"};
  options.data_path = data_path;
  return options;
}

// Rows given as strings, one block each.
class StringRows final : public RowStream {
 public:
  explicit StringRows(std::vector<std::string> blocks) : blocks_(std::move(blocks)) {}
  Result<std::optional<std::string>> NextBlock(const Context&) override {
    if (next_ == blocks_.size()) return std::optional<std::string>();
    return std::optional<std::string>(blocks_[next_++]);
  }

 private:
  std::vector<std::string> blocks_;
  size_t next_ = 0;
};

// All rows of a stream; fails with the stream's failure.
inline Result<std::string> ReadAll(const Context& ctx, RowStream& rows) {
  std::string all;
  while (true) {
    PF_ASSIGN(const auto block, rows.NextBlock(ctx));
    if (!block) return all;
    all += *block;
  }
}

}  // namespace partforge::testing
