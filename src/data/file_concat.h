#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/batch_sink.h"
#include "data/file_verify.h"
#include "data/parquet_sink.h"
#include "data/rewrite_plan.h"
#include "store/object_store.h"

namespace partforge::data {

// What `partforge file concat` does: joins Parquet files into one with the rows of all in order, at
// the least cost; values that a command renders.

// A file that a person named.
struct StoredFile {
  ObjectStore* store = nullptr;  // outlives the call
  std::string key;
  std::string name;  // as the person wrote it; for messages
};

struct ConcatOptions {
  int64_t row_group_bytes = int64_t{128} << 20;
  bool decodes_always = false;
  bool is_dry_run = false;                  // plans only
  VerifyMode verify = VerifyMode::kSample;  // before the file takes the place of another
  bool overwrites = false;
  // Of all pages of the output; none: each row group keeps its own. Pages with another codec are
  // recompressed, not decoded.
  std::optional<ParquetCodec> codec = std::nullopt;
  std::optional<int> codec_level = std::nullopt;
};

// What became of one leaf column.
struct ConcatColumn {
  std::string path;
  int64_t chunks_copied = 0;  // whole row groups, byte by byte
  ColumnStitchCounts pages;   // of row groups that were joined or recompressed
  int64_t rows_decoded = 0;   // of all kinds
  std::string decode_reason = {};
};

struct ConcatReport {
  std::vector<std::string> inputs;  // names
  std::vector<RewriteStep> steps;   // GroupRef::input counts in `inputs`
  int64_t bytes_in = 0;
  int64_t rows_in = 0;
  // Keys that the inputs' footers carry with differing values, or not all of them: left out of the
  // output.
  std::vector<std::string> dropped_keys = {};
  // Not set by a dry run.
  WrittenFile output;
  RewriteCounts counts;
  std::vector<ConcatColumn> columns = {};
  VerifyMode verify = VerifyMode::kNone;
  VerifyCounts verified = {};
};

// The files must have one schema, that of the first: the columns of the others are found by id when
// all files have ids, else by name, in any order; a type may be narrower when it promotes.
// Key-value pairs that all inputs share are kept. Failures carry a PF number and the file's name:
// kInvalidArgument for a file that lacks a column, has one more or one of another type;
// kAlreadyExists when there is an object of that name and it must not be replaced; kRefused for a
// file that is no Parquet or is encrypted; kCorruption for a damaged one. A failure leaves no
// object behind, and an object that was to be replaced as it was.
Result<ConcatReport> ConcatFiles(const Context& ctx, std::vector<StoredFile> inputs,
                                 const StoredFile& output, const ConcatOptions& options,
                                 ArrowMemory& memory);
// The same within one store; keys are names.
Result<ConcatReport> ConcatFiles(const Context& ctx, ObjectStore& store,
                                 std::vector<std::string> inputs, const std::string& output,
                                 const ConcatOptions& options, ArrowMemory& memory);

}  // namespace partforge::data
