#include "base/faults.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <thread>

namespace partforge {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

bool ParseNumber(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0;
}

}  // namespace

EnvironmentFaults::EnvironmentFaults(std::vector<Rule> rules, std::string trace_path)
    : rules_(std::move(rules)), trace_path_(std::move(trace_path)) {}

Result<std::unique_ptr<EnvironmentFaults>> EnvironmentFaults::Parse(std::string_view spec,
                                                                    std::string_view trace_path) {
  std::vector<Rule> rules;
  for (const std::string_view item : Split(spec, ',')) {
    if (item.empty()) continue;
    const auto parts = Split(item, ':');
    Rule rule;
    rule.point = parts[0];
    bool good = parts.size() == 3 && !parts[0].empty() && ParseNumber(parts[1], &rule.hit);
    if (good && parts[2] == "kill") {
      rule.action = Action::kKill;
    } else if (good && parts[2] == "error") {
      rule.action = Action::kError;
    } else if (good && parts[2] == "stop") {
      rule.action = Action::kStop;
    } else if (good && parts[2].starts_with("delay=")) {
      rule.action = Action::kDelay;
      good = ParseNumber(parts[2].substr(6), &rule.delay_ms);
    } else {
      good = false;
    }
    if (!good) {
      return Status(
                 Code::kInvalidArgument,
                 fmt::format("PARTFORGE_FAULT wants point:hit:kill|error|stop|delay=ms: {}", item))
          .Explain(1005, "PARTFORGE_FAULT", "unset it: it is for tests");
    }
    rules.push_back(std::move(rule));
  }
  return std::unique_ptr<EnvironmentFaults>(
      new EnvironmentFaults(std::move(rules), std::string(trace_path)));
}

Status EnvironmentFaults::Hit(std::string_view point) {
  int64_t hit = 0;
  {
    const std::lock_guard lock(mutex_);
    auto [it, added] = hits_.try_emplace(std::string(point), 0);
    hit = ++it->second;
  }
  if (!trace_path_.empty()) {
    const std::string line = fmt::format("{}\n", point);
    const int fd = open(trace_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
      // One small append is one atomic write, also from several processes; a trace that fails is
      // only shorter.
      [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
      close(fd);
    }
  }
  for (const Rule& rule : rules_) {
    if (rule.point != point || (rule.hit != 0 && rule.hit != hit)) continue;
    switch (rule.action) {
      case Action::kKill:
        kill(getpid(), SIGKILL);
        break;
      case Action::kStop:
        kill(getpid(), SIGSTOP);
        break;
      case Action::kDelay:
        std::this_thread::sleep_for(std::chrono::milliseconds(rule.delay_ms));
        break;
      case Action::kError:
        return Status(Code::kUnavailable, fmt::format("injected fault at {} (hit {})", point, hit));
    }
  }
  return {};
}

}  // namespace partforge
