#include "baton.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace partforge::sim {
namespace {

constexpr int64_t kStepMsMax = 40;         // how long an ordinary step takes
constexpr int64_t kRestartMsMax = 20'000;  // from a crash to the next life
constexpr size_t kTraceLinesMax = 200'000;

}  // namespace

Baton::Baton(const BatonOptions& options)
    : options_(options), chance_(options.seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}

uint64_t Baton::Next() {
  uint64_t z = (chance_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t Baton::Below(uint64_t bound) {
  return bound == 0 ? 0 : Next() % bound;
}

void Baton::AddActor(std::string name, std::function<void()> live) {
  auto actor = std::make_unique<Actor>();
  actor->name = std::move(name);
  actor->live = std::move(live);
  actors_.push_back(std::move(actor));
}

std::string Baton::Run() {
  std::unique_lock lock(mutex_);
  holder_ = actors_.size();  // nobody yet
  for (size_t i = 0; i < actors_.size(); ++i) {
    actors_[i]->wake_at_ms = now_ms_;
    actors_[i]->thread = std::thread([this, i] { RunActor(i); });
  }
  holder_ = PickNext();
  actors_[holder_]->turn.notify_one();
  ended_.wait(lock, [&] { return done_ == actors_.size(); });
  lock.unlock();
  for (const auto& actor : actors_) actor->thread.join();
  return failure_;
}

void Baton::RunActor(size_t index) {
  {
    std::unique_lock lock(mutex_);
    WaitForTurn(lock, index);
  }
  while (!is_ending_) {
    try {
      actors_[index]->live();
    } catch (const SimCrash&) {
      if (is_ending_) break;
      ++crashes_;
    }
    try {
      SleepMs(static_cast<int64_t>(Below(kRestartMsMax)));
    } catch (const SimCrash&) {
      if (!is_ending_) ++crashes_;
    }
  }
  const std::lock_guard lock(mutex_);
  actors_[index]->is_done = true;
  ++done_;
  if (done_ == actors_.size()) {
    ended_.notify_one();
    return;
  }
  // Everybody else is woken in turn to end as well.
  holder_ = PickNext();
  actors_[holder_]->turn.notify_one();
}

void Baton::WaitForTurn(std::unique_lock<std::mutex>& lock, size_t index) {
  actors_[index]->turn.wait(lock, [&] { return holder_ == index; });
}

size_t Baton::PickNext() {
  int64_t first_wake_ms = std::numeric_limits<int64_t>::max();
  for (const auto& actor : actors_) {
    if (!actor->is_done) first_wake_ms = std::min(first_wake_ms, actor->wake_at_ms);
  }
  if (!is_ending_) now_ms_ = std::max(now_ms_, first_wake_ms);
  std::vector<size_t> ready;
  for (size_t i = 0; i < actors_.size(); ++i) {
    if (!actors_[i]->is_done && (is_ending_ || actors_[i]->wake_at_ms <= now_ms_))
      ready.push_back(i);
  }
  return ready[Below(ready.size())];
}

void Baton::HandOver() {
  std::unique_lock lock(mutex_);
  const size_t self = holder_;
  holder_ = PickNext();
  if (holder_ == self) return;
  actors_[holder_]->turn.notify_one();
  WaitForTurn(lock, self);
}

void Baton::End(std::string failure) {
  failure_ = std::move(failure);
  is_ending_ = true;
  if (!failure_.empty()) Trace("BROKEN: " + failure_);
  throw SimCrash{};
}

uint64_t Baton::Chances(std::string_view what, uint64_t one_in) const {
  const bool is_hot = std::any_of(options_.hot_steps.begin(), options_.hot_steps.end(),
                                  [&](const std::string& hot) { return what.starts_with(hot); });
  return is_hot ? options_.hot_one_in : one_in;
}

void Baton::Yield(std::string_view what) {
  if (is_ending_) throw SimCrash{};
  ++steps_;
  now_ms_ += static_cast<int64_t>(Below(kStepMsMax));
  Trace(what);
  if (std::string broken = check_(); !broken.empty()) End(std::move(broken));
  if (steps_ > options_.steps_max) End(fmt::format("not finished after {} steps", steps_));
  if (!IsFaulty() && steps_ % 8 == 0 && is_finished_()) End("");
  Actor& self = *actors_[holder_];
  if (IsFaulty() && OneIn(Chances(what, options_.stall_one_in))) {
    const auto stall_ms = static_cast<int64_t>(Below(static_cast<uint64_t>(options_.stall_ms_max)));
    self.wake_at_ms = now_ms_ + stall_ms;
    Trace(fmt::format("  stalls for {} ms", stall_ms));
  }
  HandOver();
  if (is_ending_) throw SimCrash{};
  if (IsFaulty() && OneIn(Chances(what, options_.crash_one_in))) {
    Trace(fmt::format("  CRASH at {}", what));
    throw SimCrash{};
  }
}

void Baton::SleepMs(int64_t ms) {
  if (is_ending_) throw SimCrash{};
  actors_[holder_]->wake_at_ms = now_ms_ + std::max<int64_t>(0, ms);
  Yield("sleep");
}

bool Baton::DrawFailure(std::string_view what) {
  if (!IsFaulty() || !OneIn(options_.fail_one_in)) return false;
  Trace(fmt::format("  fails: {}", what));
  return true;
}

bool Baton::DrawLostReply(std::string_view what) {
  if (!IsFaulty() || !OneIn(options_.lose_one_in)) return false;
  Trace(fmt::format("  reply lost: {}", what));
  return true;
}

void Baton::Trace(std::string_view text) {
  if (!options_.is_traced || trace_.size() >= kTraceLinesMax) return;
  trace_.push_back(fmt::format("{:5} {:8} {:6} {}", steps_, now_ms_ - 1'700'000'000'000,
                               holder_ < actors_.size() ? actors_[holder_]->name : "-", text));
}

Status BatonFaults::Hit(std::string_view point) {
  baton_.Yield(point);
  if (baton_.DrawFailure(point))
    return Status(Code::kUnavailable, fmt::format("simulated failure after {}", point));
  return {};
}

}  // namespace partforge::sim
