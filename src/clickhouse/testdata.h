#pragma once

// Only for this room's tests: parts written by ClickHouse 26.7 (testdata/README.md).

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace partforge::clickhouse {

// What system.parts said of a golden part.
struct GoldenPart {
  std::string table, name, part_type;
  int64_t rows = 0, bytes_on_disk = 0, data_compressed_bytes = 0, data_uncompressed_bytes = 0;
  std::string hash_of_all_files;
  bool has_lightweight_delete = false;

  std::filesystem::path directory() const {
    return std::filesystem::path(PARTFORGE_CLICKHOUSE_TESTDATA) / "parts" / table / name;
  }
  std::string Read(const std::string& file) const {
    std::ifstream in(directory() / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

inline std::vector<GoldenPart> GoldenParts() {
  std::ifstream in(std::filesystem::path(PARTFORGE_CLICKHOUSE_TESTDATA) / "parts.tsv");
  std::vector<GoldenPart> parts;
  GoldenPart part;
  int mask = 0;
  while (in >> part.table >> part.name >> part.part_type >> part.rows >> part.bytes_on_disk >>
         part.data_compressed_bytes >> part.data_uncompressed_bytes >> part.hash_of_all_files >>
         mask) {
    part.has_lightweight_delete = mask != 0;
    parts.push_back(part);
  }
  return parts;
}

inline GoldenPart Golden(const std::string& table) {
  for (const GoldenPart& part : GoldenParts()) {
    if (part.table == table) return part;
  }
  return {};
}

}  // namespace partforge::clickhouse
