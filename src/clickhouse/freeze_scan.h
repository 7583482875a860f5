#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "clickhouse/part_name.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

// A disk of the table's storage policy.
struct TableDisk {
  std::string name;
  std::filesystem::path path;
};
// Where the source table keeps its data.
struct TableLocation {
  std::string uuid;                     // "" or all-zero: Ordinary database
  std::vector<std::string> data_paths;  // system.tables.data_paths
  std::vector<TableDisk> disks;
};
// kRefused (PF2103) naming a disk of the table's policy that is not plain local; kNotFound when the
// table is absent.
Result<TableLocation> ReadTableLocation(const Context& ctx, Engine& engine, const TableName& table);

struct FrozenPart {
  std::string disk;
  std::filesystem::path directory;  // absolute
  std::string relative_path;        // below <disk>/shadow/<freeze>: store/1f2/<uuid>/all_1_1_0
  std::string freeze;
  PartName name;
  int64_t size_bytes = 0;  // Σ file sizes
  int64_t rows = 0;
  std::string checksums_txt_sha256;
};

enum class CoveredParts : uint8_t {
  kRefuse,  // kRefused (PF2136) naming the pair: rows would appear twice
  kSkip,    // take the parts that nothing covers, list the rest
};

struct FreezeScan {
  std::vector<FrozenPart> parts;          // sorted by disk, relative path
  std::vector<FrozenPart> skipped;        // covered by one of `parts`
  std::vector<std::string> other_tables;  // data paths of other tables under the same freeze name
};

// Finds the frozen parts of one table (clickhouse-parts §8.2 steps 6–7): on every disk, below
// shadow/<freeze>, directories that hold checksums.txt and columns.txt, whose path holds the
// table's data path; and those beside them that have a part's name or files and lack one of the two
// (PF2140, as every incomplete part). kNotFound when there is none; kRefused on patch parts
// (PF2107), parts that overlap without covering, and one part twice (matrix 32, PF2119).
Result<FreezeScan> ScanFreeze(const Context& ctx, const TableLocation& location,
                              const TableName& table, const std::vector<std::string>& freezes,
                              CoveredParts covered);

// Where a disk keeps a freeze: the server writes the name as EscapeForFileName does ("autumn-01" is
// shadow/autumn%2D01). A folder of the plain name, made by hand, is taken when that is absent.
std::filesystem::path ShadowFolder(const TableDisk& disk, std::string_view freeze);

// The freeze that `rewrite` makes for a job: letters of the id that a freeze name may hold, and a
// hash of all of it, since two ids may differ in the other letters only.
std::string FreezeNameOfJob(std::string_view job_id);

// ClickHouse's escapeForFileName: every byte outside [A-Za-z0-9_] becomes %XX.
std::string EscapeForFileName(std::string_view name);

}  // namespace partforge::clickhouse
