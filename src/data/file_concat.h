#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/batch_sink.h"
#include "data/rewrite_plan.h"
#include "store/object_store.h"

namespace partforge::data {

// What `partforge file concat` does: joins Parquet files into one with the rows of all in order, at
// the least cost; values that a command renders.

struct ConcatOptions {
  int64_t row_group_bytes = int64_t{128} << 20;
  bool decodes_always = false;
  bool is_dry_run = false;  // plans only
  // Decodes the file written and counts its rows.
  bool verifies = true;
};

struct ConcatReport {
  std::vector<std::string> inputs;
  std::vector<RewriteStep> steps;  // GroupRef::input counts in `inputs`
  int64_t bytes_in = 0;
  int64_t rows_in = 0;
  // Not set by a dry run.
  WrittenFile output;
  RewriteCounts counts;
};

// The schema is that of the first file; the columns of the others are found by id when all files
// have ids, else by name. The output gets no key-values of the inputs. kInvalidArgument when a file
// lacks a required column or has a type that does not promote; kAlreadyExists when there is an
// object of that name; kRefused for a file that is no Parquet. A failure leaves no object behind.
Result<ConcatReport> ConcatFiles(const Context& ctx, ObjectStore& store,
                                 std::vector<std::string> inputs, const std::string& output,
                                 const ConcatOptions& options, ArrowMemory& memory);

}  // namespace partforge::data
