#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/rewrite_plan.h"
#include "store/object_store.h"

namespace partforge::data {

// Looking at Parquet files that were written by bytes before anybody relies on them (data-room
// §18). What is read are the bytes in the store, not what their writer remembers of them.

enum class VerifyMode : uint8_t {
  kNone,
  // The footer; of each column one page, drawn by chance, of every 64 row groups: its checksum,
  // levels, indices and values, the bounds and counts that the file states, and its rows compared
  // with those of the inputs.
  kSample,
  // All pages likewise, and every row compared with the inputs.
  kFull,
};
std::string_view VerifyModeName(VerifyMode mode);  // none, sample, full
std::optional<VerifyMode> VerifyModeOf(std::string_view name);

// A file as its writer left it.
struct WrittenObject {
  ByteSource* bytes = nullptr;  // outlives the call
  std::string name;             // for messages
  int64_t row_count = 0;        // that were written
};

struct VerifyCounts {
  int64_t pages = 0;  // that were decoded and compared with what the file says of them
  // Of these, with rows of the inputs: where the mode is full all of them, by whole rows.
  int64_t pages_compared = 0;
  int64_t rows_compared = 0;  // of a column where the mode is a sample, else whole rows
  int64_t pages_unread = 0;   // that only the library can read: not looked into
};

// What RunRewrite did: rows of the inputs, without the deleted ones, in the schema of the target.
struct VerifiedRewrite {
  const std::vector<RewriteInput>& inputs;
  const RewriteTarget& target;
  std::shared_ptr<arrow::Schema> schema;  // of rows; for VerifyMode::kFull
};

// Verifies the files that came of it, in their order. Chance comes from the context. kCorruption
// for a file that contradicts itself, or that cannot be decoded: of an input, named, where its
// pages do so already; kInternal when rows or their number differ from the inputs.
Result<VerifyCounts> VerifyRewrite(const Context& ctx, VerifyMode mode,
                                   const VerifiedRewrite& rewrite,
                                   const std::vector<WrittenObject>& outputs, ArrowMemory& memory);

// The same of one file whose rows are in no order of inputs (sorted, merged): without a comparison
// of rows.
Result<VerifyCounts> VerifyFile(const Context& ctx, VerifyMode mode, const WrittenObject& output,
                                ArrowMemory& memory);

}  // namespace partforge::data
