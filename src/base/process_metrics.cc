#include "base/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace partforge {
namespace {

// Fields of /proc/self/stat after the name in parentheses, which may hold blanks; the first is
// field 3 of proc(5).
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

// Unix time at which this machine started, in seconds.
std::optional<double> BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  double seconds = 0;
  while (file >> word) {
    if (word == "btime" && file >> seconds) return seconds;
  }
  return {};
}

std::optional<double> OpenDescriptors() {
  std::error_code error;
  double count = 0;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  if (error) return {};
  return count - 1;  // the one that reads the folder
}

}  // namespace

int64_t PeakMemoryBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;  // the kernel counts in KiB
}

std::vector<ProcessMetric> ReadProcessMetrics() {
  std::vector<ProcessMetric> metrics;
  const std::vector<std::string> stat = StatFields();
  const auto field = [&](size_t number) {
    return std::strtod(stat.at(number - 3).c_str(), nullptr);
  };
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (stat.size() > 21) {
    const double cpu_ticks = field(14) + field(15);  // user and system
    metrics.push_back({"process_cpu_seconds_total", "Processor time used, user and system.", true,
                       cpu_ticks / ticks_per_second});
    metrics.push_back(
        {"process_virtual_memory_bytes", "Size of the address space.", false, field(23)});
    metrics.push_back({"process_resident_memory_bytes", "Memory that is resident.", false,
                       field(24) * static_cast<double>(sysconf(_SC_PAGESIZE))});
    metrics.push_back({"process_threads", "Threads of the process.", false, field(20)});
    if (const auto boot = BootTime()) {
      metrics.push_back({"process_start_time_seconds", "Unix time at which the process started.",
                         false, *boot + field(22) / ticks_per_second});
    }
  }
  if (const auto count = OpenDescriptors()) {
    metrics.push_back({"process_open_fds", "Open file descriptors.", false, *count});
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    metrics.push_back({"process_max_fds", "Most file descriptors allowed.", false,
                       static_cast<double>(limit.rlim_cur)});
  }
  return metrics;
}

}  // namespace partforge
