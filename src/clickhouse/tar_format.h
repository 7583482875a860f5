#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge::clickhouse {

// Blocks and records of tar archives: POSIX.1-1988 ustar, POSIX.1-2001 PAX, and the long names and
// base-256 numbers of GNU tar.
inline constexpr int64_t kTarBlockBytes = 512;
using TarBlock = std::array<char, kTarBlockBytes>;

inline constexpr int64_t kTarSizeOctalMax = 077777777777;  // 11 octal digits
inline constexpr int64_t kTarExtensionBytesMax = int64_t{1} << 20;
inline constexpr int64_t kTarDepthMax = 8;  // segments of a path; a part needs three
inline constexpr int64_t kTarPathBytesInAllMax = int64_t{256} << 20;

int64_t TarPadding(int64_t size_bytes);  // zero bytes after a content of that size

struct TarHeader {
  std::string name;  // prefix and name joined; a directory may end in '/'
  int64_t size_bytes = 0;
  uint32_t mode = 0;
  char type = '0';
};
// kCorruption on a wrong checksum or a number that does not parse. nullopt for a block of zeros.
Result<std::optional<TarHeader>> ParseTarHeader(const TarBlock& block);
// A ustar header; `name` and `size_bytes` must fit (FitsUstar).
TarBlock FormatTarHeader(const TarHeader& header);
bool FitsUstarName(std::string_view name);

// PAX records "<length> <key>=<value>\n". kCorruption when malformed.
Result<std::map<std::string, std::string>> ParsePaxRecords(std::string_view text);
std::string FormatPaxRecord(std::string_view key, std::string_view value);

// Holds what an archive may not do with its names. Memory is bounded by kTarPathBytesInAllMax.
class TarNames {
 public:
  enum class Kind : uint8_t { kFile, kDirectory };
  // kRefused with PF8005 when the path leaves its directory, PF8002 when it repeats or contradicts
  // an earlier one.
  Status Add(std::string_view path, Kind kind, int64_t entries_max);

 private:
  std::map<std::string, Kind, std::less<>> seen_;
  int64_t path_bytes_ = 0;
  int64_t entries_ = 0;
};

}  // namespace partforge::clickhouse
