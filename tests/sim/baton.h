#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/faults.h"

namespace partforge::sim {

// Ends the life of the actor that holds the baton. Not a std::exception, so that no product code
// catches it.
struct SimCrash {};

struct BatonOptions {
  uint64_t seed = 0;
  int64_t faulty_steps = 250;  // after so many hand-backs nothing goes wrong any more
  int64_t steps_max = 20'000;  // a history that is not finished by then hangs
  // Chances of one in so many, at each hand-back; 0 = never.
  uint64_t crash_one_in = 60, fail_one_in = 50, lose_one_in = 40, stall_one_in = 60;
  int64_t stall_ms_max = 240'000;
  // Where this history goes wrong more often than elsewhere: steps whose name starts with it; empty
  // = nowhere.
  std::vector<std::string> hot_steps;
  uint64_t hot_one_in = 6;
  bool is_traced = false;
};

// Many threads of which exactly one moves: the holder of the baton. Every fault point, every call
// of a fake and every sleep hands it back, and the seed picks who is next, so one seed is one
// history.
class Baton {
 public:
  explicit Baton(const BatonOptions& options);

  // `live` is called again and again, one life after another, until the history ends.
  void AddActor(std::string name, std::function<void()> live);
  // After each step: a non-empty answer is a broken law and ends the history.
  void SetCheck(std::function<std::string()> check) { check_ = std::move(check); }
  // Asked once nothing goes wrong any more: true ends the history well.
  void SetFinished(std::function<bool()> is_finished) { is_finished_ = std::move(is_finished); }
  // Runs the history; empty, or what went wrong.
  std::string Run();

  // All of the following are called by the holder, and may throw SimCrash.
  // Hands the baton back; returns when the seed picks this actor again.
  void Yield(std::string_view what);
  void SleepMs(int64_t ms);
  // True when the seed says that the call fails before it does anything; true when its reply is
  // lost.
  bool DrawFailure(std::string_view what);
  bool DrawLostReply(std::string_view what);
  uint64_t Below(uint64_t bound);
  bool OneIn(uint64_t chances) { return chances != 0 && Below(chances) == 0; }
  void Trace(std::string_view text);

  int64_t NowMs() const { return now_ms_; }
  int64_t steps() const { return steps_; }
  int64_t crashes() const { return crashes_; }
  bool IsFaulty() const { return steps_ < options_.faulty_steps; }
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  struct Actor {
    std::string name;
    std::function<void()> live;
    int64_t wake_at_ms = 0;
    bool is_done = false;
    std::condition_variable turn;
    std::thread thread;
  };

  void RunActor(size_t index);
  void HandOver();
  size_t PickNext();
  uint64_t Chances(std::string_view what, uint64_t one_in) const;
  void WaitForTurn(std::unique_lock<std::mutex>& lock, size_t index);
  void End(std::string failure);
  uint64_t Next();

  const BatonOptions options_;
  std::function<std::string()> check_;
  std::function<bool()> is_finished_;
  std::mutex
      mutex_;  // everything below is touched by the holder only; the mutex makes that visible
  std::condition_variable ended_;
  std::vector<std::unique_ptr<Actor>> actors_;
  size_t holder_ = 0;
  size_t done_ = 0;
  bool is_ending_ = false;
  std::string failure_;
  uint64_t chance_;
  int64_t now_ms_ = 1'700'000'000'000;
  int64_t steps_ = 0, crashes_ = 0;
  std::vector<std::string> trace_;
};

class BatonClock final : public Clock {
 public:
  explicit BatonClock(Baton& baton) : baton_(baton) {}
  int64_t NowMs() override { return baton_.NowMs(); }
  void SleepMs(int64_t ms, std::stop_token) override { baton_.SleepMs(ms); }

 private:
  Baton& baton_;
};

class BatonFaults final : public Faults {
 public:
  explicit BatonFaults(Baton& baton) : baton_(baton) {}
  Status Hit(std::string_view point) override;

 private:
  Baton& baton_;
};

}  // namespace partforge::sim
