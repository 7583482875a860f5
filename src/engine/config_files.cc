#include "engine/config_files.h"

#include <string>

#include "base/files.h"

namespace partforge {

Result<std::vector<std::filesystem::path>> ListConfigFiles(const std::filesystem::path& folder) {
  const Result<std::vector<std::string>> names = ListNames(folder);
  if (!names.ok() && names.status().code() == Code::kNotFound)
    return std::vector<std::filesystem::path>();
  if (!names.ok()) return names.status();
  std::vector<std::filesystem::path> files;
  for (const std::string& name : *names) {
    if (std::filesystem::path(name).extension() == ".xml") files.push_back(folder / name);
  }
  return files;
}

}  // namespace partforge
