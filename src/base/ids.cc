#include "base/ids.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace partforge {
namespace {

constexpr size_t kIdDigits = 16;
constexpr size_t kIdBytesMax = 128;

std::string ShortId(std::string_view prefix, std::span<const std::string_view> values) {
  return std::string(prefix) + ChainDigest(values).substr(0, kIdDigits);
}

}  // namespace

std::string ChainDigest(std::span<const std::string_view> values) {
  Sha256 hash;
  for (const std::string_view value : values) {
    hash.Update(value);
    hash.Update(std::string_view("\0", 1));
  }
  return hash.FinishHex();
}

std::string MakePartId(const PartIdInput& input) {
  const std::string_view values[] = {
      input.disk,          input.relative_path,      input.part_name,
      input.source_schema, input.destination_schema, input.insert_select};
  return ShortId("part-", values);
}

std::string MakeCompactId(int64_t generation, std::vector<std::string> input_ids) {
  std::sort(input_ids.begin(), input_ids.end());
  const std::string number = fmt::format("{}", generation);
  std::vector<std::string_view> values = {number};
  values.insert(values.end(), input_ids.begin(), input_ids.end());
  return ShortId("compact-", values);
}

std::string MakeJobId(Random& random) {
  return "job-" + RandomHex(random, kIdDigits / 2);
}

bool IsValidId(std::string_view id) {
  if (id.empty() || id.size() > kIdBytesMax || id == "." || id == "..") return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace partforge
