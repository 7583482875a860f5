#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace partforge {

// Identifiers of jobs and parts (clickhouse-parts §6).

// Lower-case hex SHA-256 over each value's bytes followed by one zero byte; all 64 digits.
std::string ChainDigest(std::span<const std::string_view> values);

struct PartIdInput {
  std::string_view disk, relative_path, part_name, source_schema, destination_schema, insert_select;
};
std::string MakePartId(const PartIdInput& input);  // "part-" + 16 hex
std::string MakeCompactId(int64_t generation,
                          std::vector<std::string> input_ids);  // "compact-" + 16 hex
std::string MakeJobId(Random& random);                          // "job-" + 16 hex

// True for a key segment we accept as a job or part id: [A-Za-z0-9._-]{1,128}, not "." or "..".
bool IsValidId(std::string_view id);

}  // namespace partforge
