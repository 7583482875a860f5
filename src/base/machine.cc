#include "base/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace partforge {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kFileBytesMax = int64_t{1} << 20;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Splits off what stands before the first `separator`; all of it when there is none.
std::string_view TakeUntil(std::string_view* text, char separator) {
  const size_t at = text->find(separator);
  const std::string_view piece = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return piece;
}

Status Malformed(const std::filesystem::path& file, std::string_view text) {
  return Status(Code::kCorruption, fmt::format("machine limits: value makes no sense in {}: '{}'",
                                               file.native(), text.substr(0, 100)));
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The trimmed text of a file, nothing when there is no such file.
Result<std::optional<std::string>> ReadIfThere(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::optional<std::string>();
  PF_ASSIGN(const std::string text, ReadFile(file, kFileBytesMax));
  return std::optional<std::string>(Trim(text));
}

// A positive number; kNoLimit when the file is absent or says `none`.
Result<int64_t> ReadLimit(const std::filesystem::path& file, std::string_view none) {
  PF_ASSIGN(const auto text, ReadIfThere(file));
  if (!text || *text == none) return kNoLimit;
  const auto value = ParseInt(*text);
  if (!value || *value <= 0) return Malformed(file, *text);
  return *value;
}

// How many CPUs a kernel list names ("0-3,8"); nothing when the file is absent or empty.
Result<std::optional<int64_t>> CountCpuList(const std::filesystem::path& file) {
  constexpr int64_t kCpuMax = 1'000'000;
  PF_ASSIGN(const auto text, ReadIfThere(file));
  if (!text || text->empty()) return std::optional<int64_t>();
  int64_t count = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    std::string_view range = TakeUntil(&rest, ',');
    const auto first = ParseInt(TakeUntil(&range, '-'));
    const auto last = range.empty() ? first : ParseInt(range);
    if (!first || !last || *first < 0 || *last < *first || *last > kCpuMax)
      return Malformed(file, *text);
    count += *last - *first + 1;
  }
  return std::optional<int64_t>(count);
}

int64_t RoundUp(int64_t quota, int64_t period) {
  return quota / period + (quota % period != 0 ? 1 : 0);
}

Result<int64_t> OnlineCpus(const std::filesystem::path& root) {
  PF_ASSIGN(const auto online, CountCpuList(root / "sys/devices/system/cpu/online"));
  if (online) return *online;
  const std::filesystem::path file = root / "proc/cpuinfo";
  PF_ASSIGN(const std::string text, ReadFile(file, int64_t{64} << 20));
  int64_t count = 0;
  for (std::string_view rest = text; !rest.empty();) {
    if (TakeUntil(&rest, '\n').starts_with("processor")) ++count;
  }
  if (count == 0) return Malformed(file, "");
  return count;
}

Result<int64_t> HostMemory(const std::filesystem::path& root) {
  const std::filesystem::path file = root / "proc/meminfo";
  PF_ASSIGN(const std::string text, ReadFile(file, kFileBytesMax));
  constexpr std::string_view kKey = "MemTotal:";
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = TakeUntil(&rest, '\n');
    if (!line.starts_with(kKey)) continue;
    std::string_view value = Trim(line.substr(kKey.size()));
    if (value.ends_with("kB")) value = Trim(value.substr(0, value.size() - 2));
    const auto kib = ParseInt(value);
    if (!kib || *kib <= 0 || *kib > kNoLimit / 1024) return Malformed(file, line);
    return *kib * 1024;
  }
  return Malformed(file, "no MemTotal");
}

// The groups of this process, as /proc/self/cgroup names them.
struct Groups {
  std::string unified = "/";                          // v2
  std::string cpu = "/", cpuset = "/", memory = "/";  // v1 controllers
};

Result<Groups> ReadGroups(const std::filesystem::path& root) {
  Groups groups;
  PF_ASSIGN(const auto text, ReadIfThere(root / "proc/self/cgroup"));
  if (!text) return groups;
  for (std::string_view rest = *text; !rest.empty();) {
    std::string_view path = TakeUntil(&rest, '\n');
    const std::string_view hierarchy = TakeUntil(&path, ':');
    std::string_view controllers = TakeUntil(&path, ':');
    if (hierarchy == "0" && controllers.empty()) groups.unified = path;
    while (!controllers.empty()) {
      const std::string_view controller = TakeUntil(&controllers, ',');
      if (controller == "cpu") groups.cpu = path;
      if (controller == "cpuset") groups.cpuset = path;
      if (controller == "memory") groups.memory = path;
    }
  }
  return groups;
}

// The folder of a group and of every group above it, innermost first. A group's limits bind what is
// below. Inside a container the path may be the host's and lead nowhere: the folders that do not
// exist say nothing.
std::vector<std::filesystem::path> FoldersUpwards(const std::filesystem::path& mount,
                                                  std::string_view group) {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path relative = std::filesystem::path(group).relative_path();
  const bool leaves_mount = std::any_of(relative.begin(), relative.end(),
                                        [](const auto& segment) { return segment == ".."; });
  if (leaves_mount) relative.clear();
  for (; !relative.empty(); relative = relative.parent_path()) folders.push_back(mount / relative);
  folders.push_back(mount);
  return folders;
}

// CPUs that v2's "quota period" allows.
Result<int64_t> ReadCpuMax(const std::filesystem::path& file) {
  PF_ASSIGN(const auto text, ReadIfThere(file));
  if (!text) return kNoLimit;
  std::string_view period_text = *text;
  const std::string_view quota_text = TakeUntil(&period_text, ' ');
  if (quota_text == "max") return kNoLimit;
  const auto quota = ParseInt(quota_text);
  const auto period = ParseInt(period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0) return Malformed(file, *text);
  return RoundUp(*quota, *period);
}

// The same of v1, where quota and period are two files.
Result<int64_t> ReadCfsQuota(const std::filesystem::path& folder) {
  PF_ASSIGN(const int64_t quota, ReadLimit(folder / "cpu.cfs_quota_us", "-1"));
  if (quota == kNoLimit) return kNoLimit;
  PF_ASSIGN(const int64_t period, ReadLimit(folder / "cpu.cfs_period_us", ""));
  if (period == kNoLimit) return Malformed(folder / "cpu.cfs_period_us", "absent beside a quota");
  return RoundUp(quota, period);
}

// The set of CPUs of the innermost group that names one: a kernel keeps it within the sets above.
Result<int64_t> ReadCpuSet(const std::vector<std::filesystem::path>& folders,
                           std::string_view file) {
  for (const std::filesystem::path& folder : folders) {
    PF_ASSIGN(const auto count, CountCpuList(folder / file));
    if (count) return *count;
  }
  return kNoLimit;
}

}  // namespace

Result<MachineLimits> ReadMachineLimits(const std::filesystem::path& root) {
  MachineLimits limits;
  PF_ASSIGN(limits.cpus, OnlineCpus(root));
  PF_ASSIGN(limits.memory_bytes, HostMemory(root));
  PF_ASSIGN(const Groups groups, ReadGroups(root));

  const std::filesystem::path mount = root / "sys/fs/cgroup";
  const auto unified = FoldersUpwards(mount, groups.unified);
  for (const std::filesystem::path& folder : unified) {
    PF_ASSIGN(const int64_t cpus, ReadCpuMax(folder / "cpu.max"));
    PF_ASSIGN(const int64_t memory, ReadLimit(folder / "memory.max", "max"));
    limits.cpus = std::min(limits.cpus, cpus);
    limits.memory_bytes = std::min(limits.memory_bytes, memory);
  }
  for (const std::string_view controller : {"cpu", "cpu,cpuacct"}) {
    for (const std::filesystem::path& folder : FoldersUpwards(mount / controller, groups.cpu)) {
      PF_ASSIGN(const int64_t cpus, ReadCfsQuota(folder));
      limits.cpus = std::min(limits.cpus, cpus);
    }
  }
  for (const std::filesystem::path& folder : FoldersUpwards(mount / "memory", groups.memory)) {
    PF_ASSIGN(const int64_t memory, ReadLimit(folder / "memory.limit_in_bytes", "-1"));
    limits.memory_bytes = std::min(limits.memory_bytes, memory);
  }

  PF_ASSIGN(int64_t set, ReadCpuSet(unified, "cpuset.cpus.effective"));
  if (set == kNoLimit) {
    PF_ASSIGN(set, ReadCpuSet(unified, "cpuset.cpus"));
  }
  if (set == kNoLimit) {
    PF_ASSIGN(set, ReadCpuSet(FoldersUpwards(mount / "cpuset", groups.cpuset), "cpuset.cpus"));
  }
  limits.cpus = std::min(limits.cpus, set);
  return limits;
}

}  // namespace partforge
