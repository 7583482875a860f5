#include <fmt/format.h>

#include "job/kind.h"

namespace partforge {

Status KindTable::Add(const JobKind& kind) {
  const auto [it, is_new] = kinds_.try_emplace(kind.name, kind);
  if (!is_new) {
    return Status(Code::kAlreadyExists, fmt::format("job kind is registered twice: {}", kind.name));
  }
  return {};
}

Result<JobKind> KindTable::Find(std::string_view name) const {
  const auto it = kinds_.find(name);
  if (it == kinds_.end()) {
    return Status(Code::kNotFound, fmt::format("job kind is not known here: {}", name));
  }
  return it->second;
}

std::vector<std::string> KindTable::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds_) names.push_back(name);
  return names;
}

}  // namespace partforge
