#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/files.h"
#include "clickhouse/checksums.h"
#include "clickhouse/part_name.h"

namespace partforge::clickhouse {

struct PartColumn {
  std::string name;
  std::string type;  // as ClickHouse prints it
  bool operator==(const PartColumn&) const = default;
};
// columns.txt: "columns format version: 1\n<n> columns:\n`name` Type\n…". kCorruption with the line
// otherwise.
Result<std::vector<PartColumn>> ParseColumnsTxt(std::string_view text);
// Whether a part with these columns carries a mask of deleted rows (PF2110: column _row_exists).
bool HasDeleteMask(const std::vector<PartColumn>& columns);

struct ColumnSubstreams {
  std::string column;
  std::vector<std::string> streams;  // file name stems, before ".bin"
};
// columns_substreams.txt, version 1: for each column of the part the streams it is stored in.
Result<std::vector<ColumnSubstreams>> ParseColumnsSubstreams(std::string_view text);

// serialization.json: the columns that are stored sparsely (only values that are no default).
Result<std::vector<std::string>> ParseSparseColumns(std::string_view json);

Result<int64_t> ParseCountTxt(std::string_view text);         // rows, ≥ 0
Result<int64_t> ParseMetadataVersion(std::string_view text);  // ≥ 0

enum class PartLayout : uint8_t { kWide, kCompact };

// What the files of one part say about it. Nothing here needs an engine.
struct PartInfo {
  std::string name;  // last component of the directory
  PartLayout layout = PartLayout::kWide;
  int64_t rows = 0;                     // count.txt: with rows that a lightweight delete masks
  int64_t size_bytes = 0;               // Σ sizes of all files, projections included
  int64_t bytes_on_disk = 0;            // as system.parts counts: files listed in checksums.txt
  int64_t data_compressed_bytes = 0;    // the column files
  int64_t data_uncompressed_bytes = 0;  // raw bytes of the columns, for the block estimate
  std::vector<PartColumn> columns;
  std::vector<std::string> projections;     // without ".proj"
  bool has_lightweight_delete = false;      // HasDeleteMask
  bool has_partition_file = false;          // partition.dat; absent without PARTITION BY
  bool has_ttl_file = false;                // ttl.txt: carries TTL bounds (PF2111)
  std::vector<std::string> sparse_columns;  // of serialization.json
  std::optional<int64_t> metadata_version;
  std::string default_codec;  // text of default_compression_codec.txt, "" when absent
  PartChecksums checksums;
  std::string checksums_txt_sha256;  // 64 hex digits; equal parts have equal ones
  std::vector<FileEntry> files;      // lexical order; relative paths; directories included
};

// Reads and cross-checks the metadata files of a part directory. A zero-length or missing file, or
// a stream named in columns_substreams.txt that checksums.txt lacks, is kCorruption with PF2140.
// Reads no column data.
Result<PartInfo> ReadPart(const Context& ctx, const std::filesystem::path& directory);

// Names and types of `part` against what a table declares (matrix 30): a column of the part that
// the table lacks, or of another type, is kCorruption with PF2121: ClickHouse would silently ignore
// or misread it. Columns that only the table has are answered (they read as defaults). `part` may
// hold _row_exists and the block number columns.
Result<std::vector<std::string>> CheckPartColumns(const PartInfo& part,
                                                  const std::vector<PartColumn>& table,
                                                  std::string_view table_name);

}  // namespace partforge::clickhouse
