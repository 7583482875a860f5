#include "app/time_spent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/units.h"

namespace partforge::app {
namespace {

constexpr std::string_view kPlan = "plan", kRead = "read", kWrite = "write", kCommit = "commit",
                           kWait = "wait";

double Seconds(int64_t ms) {
  return static_cast<double>(ms) / 1000.0;
}

// A stage that is not named here is preparation.
std::string_view PartOfStage(std::string_view stage) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kStages = {
      {{"download_source", kRead},
       {"attach_source_part", kRead},
       {"wait_for_engine", kWait},
       {"insert_select", kWrite},
       {"wait_merges", kWrite},
       {"measure_destination_parts", kWrite},
       {"freeze_destination_parts", kWrite},
       {"upload_finished_tarballs", kCommit},
       {"complete_part", kCommit}}};
  const auto* const found = std::find_if(kStages.begin(), kStages.end(),
                                         [&](const auto& one) { return one.first == stage; });
  return found == kStages.end() ? kPlan : found->second;
}

}  // namespace

std::string TextOf(const TimeParts& parts) {
  std::string text;
  for (const auto& [name, ms] : parts)
    text += fmt::format("{}{} {:.1f}", text.empty() ? "" : ", ", name, Seconds(ms));
  return text;
}

JsonDoc DocumentOf(const TimeParts& parts) {
  JsonDoc document = JsonDoc::object();
  for (const auto& [name, ms] : parts) document[name] = Seconds(ms);
  return document;
}

TimeParts PartsOfStages(const std::map<std::string, int64_t>& stage_ms) {
  TimeParts parts;
  for (const std::string_view name : {kPlan, kRead, kWrite, kCommit, kWait}) {
    int64_t sum_ms = 0;
    for (const auto& [stage, ms] : stage_ms) {
      if (PartOfStage(stage) == name) sum_ms += ms;
    }
    if (sum_ms > 0) parts.emplace_back(name, sum_ms);
  }
  return parts;
}

PhaseClock::PhaseClock() : made_ms_(MonotonicMs()), begun_ms_(made_ms_) {}

void PhaseClock::Begin(std::string_view phase) {
  const int64_t now_ms = MonotonicMs();
  if (!parts_.empty()) parts_.back().second += now_ms - begun_ms_;
  begun_ms_ = now_ms;
  parts_.emplace_back(phase, 0);
}

int64_t PhaseClock::took_ms() const {
  return MonotonicMs() - made_ms_;
}

TimeParts PhaseClock::parts() const {
  TimeParts parts = parts_;
  if (!parts.empty()) parts.back().second += MonotonicMs() - begun_ms_;
  return parts;
}

std::string TimeSpent::Text() const {
  std::string text = FormatDurationMs(took_ms);
  if (!parts.empty()) text += fmt::format(" ({})", parts);
  std::string rates;
  const double seconds = Seconds(took_ms);
  if (seconds > 0 && rows > 0) {
    rates = fmt::format("{} rows/s",
                        FormatCount(static_cast<int64_t>(static_cast<double>(rows) / seconds)));
  }
  if (seconds > 0 && bytes > 0) {
    rates += fmt::format("{}{:.1f} MB/s", rates.empty() ? "" : " · ",
                         static_cast<double>(bytes) / seconds / 1e6);
  }
  if (!rates.empty()) text += "   " + rates;
  if (peak_memory_bytes > 0) text += "   peak memory " + FormatBytes(peak_memory_bytes);
  return text;
}

}  // namespace partforge::app
