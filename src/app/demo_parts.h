#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "app/wire.h"
#include "base/context.h"

namespace partforge::app {

struct DemoRequest {
  std::filesystem::path folder, data;
  bool is_real = false, is_own_data = false;
  EngineChoice library;
  std::function<void(std::string_view)> on_note;
};

// What one run measured; nothing here is a constant.
struct DemoResult {
  std::string before, after, query, killed_at;
  int64_t source_rows = 0, destination_rows = 0, rows_different = 0;
  int64_t source_parts = 0, destination_parts = 0, source_bytes = 0, destination_bytes = 0;
  int64_t attempts_of_killed = 0, rows_read_before = 0, rows_read_after = 0;
  int64_t load_ms = 0, upload_ms = 0, killed_ms = 0, worker_ms = 0, import_ms = 0, compare_ms = 0;
  bool was_killed = false, hashes_equal = false;
};

// The main job end to end with this very program: an engine process plays the serving cluster;
// upload-freeze, two workers and import-finished run as children, the first worker is killed with
// SIGKILL at a fault point. Everything lies below `folder`.
Result<DemoResult> RunDemoParts(const Context& ctx, const DemoRequest& request);

std::filesystem::path SelfFolder();

}  // namespace partforge::app
