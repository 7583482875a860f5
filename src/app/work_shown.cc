#include "app/work_shown.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "app/job_records.h"
#include "app/progress_line.h"
#include "base/units.h"

namespace partforge::app {
namespace {

constexpr int64_t kLookMs = 1'000;

// Sums over jobs.
struct Reached {
  int64_t rewritten = 0, total = 0, rows_out = 0;
  int64_t bytes = 0, bytes_total = 0;  // of source parts
};

// Bytes of the parts that are being rewritten now, by how far they are. What cannot be read is left
// out: it is shown only.
int64_t BytesUnderWay(const Context& ctx, StateReader& state, const JobId& job) {
  constexpr int64_t kPartsShown = 64;    // small ones that are rewritten together end at once
  constexpr double kInsertShare = 0.95;  // a part whose insert is done is not done yet
  const Result<TaskPage> page = state.Page(ctx, job, TaskState::kInProgress, "", kPartsShown);
  if (!page.ok()) return 0;
  double bytes = 0;
  for (const Task& task : page->tasks) {
    const Result<std::vector<AttemptView>> attempts = state.Attempts(ctx, job, task.id);
    if (!attempts.ok()) continue;
    for (const AttemptView& attempt : *attempts) {
      if (attempt.epoch != task.epoch) continue;
      bytes += std::clamp(attempt.fraction, 0.0, 1.0) * kInsertShare *
               static_cast<double>(task.size_bytes);
    }
  }
  return static_cast<int64_t>(bytes);
}

Result<Reached> Look(const Context& ctx, StateReader& state, const std::vector<JobId>& jobs) {
  Reached sum;
  for (const JobId& job : jobs) {
    PF_ASSIGN(const JobView view, state.View(ctx, job));
    const JobNumbers numbers = NumbersOf(view);
    sum.rewritten += numbers.rewritten;
    sum.total += numbers.total;
    sum.rows_out += numbers.rows_out;
    sum.bytes += numbers.bytes_rewritten + BytesUnderWay(ctx, state, job);
    sum.bytes_total += numbers.bytes;
  }
  return sum;
}

// By bytes: parts that are rewritten together become one, so their number changes.
void Show(ProgressLine& progress, const Reached& reached, int64_t retries) {
  const double fraction = reached.bytes_total == 0 ? 0.0
                                                   : static_cast<double>(reached.bytes) /
                                                         static_cast<double>(reached.bytes_total);
  progress.Show(fraction,
                fmt::format("part {}/{} · {} of {} · {} rows", reached.rewritten, reached.total,
                            FormatBytes(reached.bytes), FormatBytes(reached.bytes_total),
                            FormatCount(reached.rows_out)),
                {.rows = reached.rows_out, .bytes = reached.bytes, .retries = retries});
}

}  // namespace

Result<WorkDone> RunWorkerShown(const CommandInput& input, SqlJobStore& state, BucketStores& stores,
                                WorkerRun run, const std::vector<JobId>& jobs) {
  ProgressLine progress(input, "rewriting");
  if (!progress.IsShown()) return RunWorker(input, state, stores, run);
  std::atomic<int64_t> retries = 0;
  run.on_retries = [&retries](int64_t count) { retries = count; };
  std::jthread showing([&](const std::stop_token& stop) {
    Context own = input.ctx;
    own.stop = stop;
    while (!stop.stop_requested()) {
      if (const Result<Reached> reached = Look(own, state, jobs); reached.ok())
        Show(progress, *reached, retries);
      own.clock.SleepMs(kLookMs, stop);
    }
  });
  Result<WorkDone> worked = RunWorker(input, state, stores, run);
  showing = {};
  progress.Finish();
  return worked;
}

}  // namespace partforge::app
