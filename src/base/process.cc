#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

namespace partforge {
namespace {

constexpr size_t kLineBytesMax = 1 << 20;
constexpr int kExecFailedExit = 127;
constexpr int kOldKernelFds = 4096;

// Everything the child needs between fork and exec, laid out beforehand: there it may only make
// system calls.
struct LaunchPlan {
  std::vector<char*> argv, environment;
  std::vector<std::string> environment_text;
  const char* working_directory = nullptr;
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1, error_fd = -1;
  bool dies_with_parent = true;
  pid_t parent = -1;
};

// Runs in the child. Never returns; a failure's errno goes through error_fd.
[[noreturn]] void BecomeProgram(const LaunchPlan& plan) {
  const auto fail = [&] {
    const int error_number = errno;
    [[maybe_unused]] const ssize_t count =
        write(plan.error_fd, &error_number, sizeof(error_number));
    _exit(kExecFailedExit);
  };
  // Ours may be blocked (signals are taken by sigwait) or ignored (SIGPIPE); a program expects the
  // defaults.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  if (sigprocmask(SIG_SETMASK, &none, nullptr) != 0) fail();
  if (plan.dies_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) fail();
    if (getppid() != plan.parent) _exit(kExecFailedExit);  // it died before the call above
  }
  if (dup2(plan.stdin_fd, STDIN_FILENO) < 0) fail();
  if (plan.stdout_fd >= 0 && dup2(plan.stdout_fd, STDOUT_FILENO) < 0) fail();
  if (plan.stderr_fd >= 0 && dup2(plan.stderr_fd, STDERR_FILENO) < 0) fail();
  if (plan.working_directory != nullptr && chdir(plan.working_directory) != 0) fail();
  // Also what a library opened without the flag; error_fd closes here too, which is how success is
  // told.
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {  // a kernel before 5.11
    for (int fd = 3; fd < kOldKernelFds; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  execve(plan.argv[0], plan.argv.data(), plan.environment.data());
  fail();
  _exit(kExecFailedExit);
}

// The one thread that forks. The kernel ties a child's parent-death signal to the thread that made
// it, not to the process: a child started by a task's thread would die when that task ends. Lives
// until the process exits.
class Spawner {
 public:
  Spawner() : thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  // The new process, or -1 and errno's value.
  std::pair<pid_t, int> Fork(const LaunchPlan& plan) {
    std::promise<std::pair<pid_t, int>> answer;
    auto future = answer.get_future();
    {
      const std::lock_guard lock(mutex_);
      orders_.emplace_back(&plan, &answer);
    }
    arrived_.notify_one();
    return future.get();
  }

 private:
  using Order = std::pair<const LaunchPlan*, std::promise<std::pair<pid_t, int>>*>;

  void Run(const std::stop_token& stop) {
    sigset_t all;  // signals of the process belong to other threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::unique_lock lock(mutex_);
    while (arrived_.wait(lock, stop, [&] { return !orders_.empty(); })) {
      const auto [plan, answer] = orders_.front();
      orders_.erase(orders_.begin());
      lock.unlock();
      const pid_t pid = fork();
      if (pid == 0) BecomeProgram(*plan);
      answer->set_value({pid, errno});
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::vector<Order> orders_;  // guarded by mutex_
  std::jthread thread_;        // last: it uses the others
};

// A function-local static, the one exception to "no singletons": the thread must outlive every
// object that starts a child, or children would die with that object; and a second such thread
// would serve nobody.
Spawner& TheSpawner() {
  static Spawner spawner;
  return spawner;
}

bool Inherits(const ProcessOptions& options, std::string_view name) {
  if (options.inherits_environment) return true;
  return std::any_of(options.inherited_names.begin(), options.inherited_names.end(),
                     [&](std::string_view wanted) {
                       if (!wanted.ends_with('*')) return name == wanted;
                       return name.starts_with(wanted.substr(0, wanted.size() - 1));
                     });
}

// What is inherited of our environment, with the changes asked for, as "name=value".
std::vector<std::string> MergedEnvironment(const ProcessOptions& options) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (Inherits(options, name) && !options.environment.contains(std::string(name)))
      merged.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment) {
    if (!value.empty()) merged.push_back(fmt::format("{}={}", name, value));
  }
  return merged;
}

// A descriptor above the standard three, which the child overwrites: ours may be closed, and their
// numbers given anew.
Result<UniqueFd> AboveStandard(UniqueFd fd) {
  if (fd.get() > STDERR_FILENO) return fd;
  UniqueFd moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!moved.is_open()) return ErrnoStatus(errno, "move a descriptor");
  return moved;
}

Result<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  UniqueFd first(ends[0]), second(ends[1]);
  PF_ASSIGN(first, AboveStandard(std::move(first)));
  PF_ASSIGN(second, AboveStandard(std::move(second)));
  return std::pair(std::move(first), std::move(second));
}

Result<std::pair<UniqueFd, UniqueFd>> MakeChannel() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "make a socket pair");
  }
  UniqueFd first(ends[0]), second(ends[1]);
  PF_ASSIGN(first, AboveStandard(std::move(first)));
  PF_ASSIGN(second, AboveStandard(std::move(second)));
  return std::pair(std::move(first), std::move(second));
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

ExitState ExitStateOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.exit_code = -1, .signal_number = WTERMSIG(wait_status)};
  return {.exit_code = WEXITSTATUS(wait_status), .signal_number = 0};
}

// Waits until one of `events` is there. kUnavailable after `timeout_ms`, kCancelled on stop; both
// say while doing what.
Status AwaitEvent(const Context& ctx, int fd, int16_t events, int64_t timeout_ms,
                  std::string_view doing) {
  const UniqueFd stopped(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stopped.is_open()) return ErrnoStatus(errno, "make an event descriptor");
  const std::stop_callback tell(ctx.stop, [&] { eventfd_write(stopped.get(), 1); });
  const int64_t end_ms = MonotonicMs() + timeout_ms;
  while (true) {
    PF_TRY(ctx.CheckStop(doing));
    pollfd waits[2] = {{.fd = fd, .events = events, .revents = 0},
                       {.fd = stopped.get(), .events = POLLIN, .revents = 0}};
    const int64_t left_ms = std::clamp<int64_t>(end_ms - MonotonicMs(), 0, 1'000'000'000);
    const int count = poll(waits, 2, static_cast<int>(left_ms));
    if (count < 0 && errno != EINTR) return ErrnoStatus(errno, doing);
    if (count == 0)
      return Status(Code::kUnavailable, fmt::format("{}: nothing after {} ms", doing, timeout_ms));
    if (count > 0 && waits[0].revents != 0) return {};
  }
}

Status AwaitReadable(const Context& ctx, int fd, int64_t timeout_ms, std::string_view doing) {
  return AwaitEvent(ctx, fd, POLLIN, timeout_ms, doing);
}

// Reads the errno that a child which could not become its program leaves; 0 when it could.
int ReadExecError(int fd) {
  int error_number = 0;
  ssize_t count = 0;
  do {
    count = read(fd, &error_number, sizeof(error_number));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(error_number) ? error_number : 0;
}

}  // namespace

std::string ExitState::ToString() const {
  if (signal_number == 0) return fmt::format("exit code {}", exit_code);
  const char* const description = sigdescr_np(signal_number);
  return fmt::format("signal {} ({})", signal_number,
                     description == nullptr ? "unknown" : description);
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ProcessOptions& options) {
  if (options.argv.empty() || options.argv[0].find('/') == std::string::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("start a process: not a path of a program: {}",
                              options.argv.empty() ? "" : options.argv[0]));
  }
  const std::string doing = "start " + options.argv[0];
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> environment = MergedEnvironment(options);
  const std::string working_directory = options.working_directory.string();
  std::pair<UniqueFd, UniqueFd> output, error, channel;
  PF_ASSIGN(error, MakePipe());
  if (options.captures_stdout) {
    PF_ASSIGN(output, MakePipe());
  }
  if (options.opens_channel) {
    PF_ASSIGN(channel, MakeChannel());
  }
  // A terminal's input stays ours.
  PF_ASSIGN(UniqueFd nothing, OpenFile("/dev/null", O_RDONLY));
  PF_ASSIGN(nothing, AboveStandard(std::move(nothing)));
  UniqueFd stderr_file;
  if (!options.stderr_path.empty()) {
    PF_ASSIGN(stderr_file, OpenFile(options.stderr_path, O_WRONLY | O_CREAT | O_APPEND));
    PF_ASSIGN(stderr_file, AboveStandard(std::move(stderr_file)));
  }
  LaunchPlan plan;
  plan.argv = Pointers(argv);
  plan.environment = Pointers(environment);
  plan.working_directory = working_directory.empty() ? nullptr : working_directory.c_str();
  plan.stdin_fd = options.opens_channel ? channel.second.get() : nothing.get();
  plan.stdout_fd = output.second.get();
  plan.stderr_fd = stderr_file.get();
  plan.error_fd = error.second.get();
  plan.dies_with_parent = options.dies_with_parent;
  plan.parent = getpid();
  const auto [pid, fork_error] = TheSpawner().Fork(plan);
  if (pid < 0) return ErrnoStatus(fork_error, doing);

  std::unique_ptr<ChildProcess> child(new ChildProcess());
  child->pid_ = pid;
  child->stdout_ = std::move(output.first);
  child->channel_ = std::move(channel.first);
  PF_TRY(error.second.Close());
  const int exec_error = ReadExecError(error.first.get());
  if (exec_error != 0) return ErrnoStatus(exec_error, doing);  // the destructor reaps it
  return child;
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0 || Poll()) return;
  Signal(SIGKILL);
  int wait_status = 0;
  while (waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
  }
}

Result<std::optional<std::string>> ChildProcess::ReadLine(const Context& ctx, int64_t timeout_ms) {
  const std::string doing = fmt::format("read a line from process {}", pid_);
  const int64_t end_ms = MonotonicMs() + timeout_ms;
  size_t searched = 0;
  while (true) {
    const size_t end = pending_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return std::optional(std::move(line));
    }
    searched = pending_.size();
    if (pending_.size() > kLineBytesMax) {
      return Status(Code::kCorruption,
                    fmt::format("{}: longer than {} bytes", doing, kLineBytesMax));
    }
    if (!stdout_.is_open()) {
      if (pending_.empty()) return std::optional<std::string>();
      return std::optional(std::exchange(pending_, {}));  // a last line without its end
    }
    PF_TRY(AwaitReadable(ctx, stdout_.get(), std::max<int64_t>(end_ms - MonotonicMs(), 0), doing));
    char buffer[4096];
    const ssize_t count = read(stdout_.get(), buffer, sizeof(buffer));
    if (count < 0 && errno != EINTR) return ErrnoStatus(errno, doing);
    if (count > 0) pending_.append(buffer, static_cast<size_t>(count));
    if (count == 0) stdout_ = UniqueFd();
  }
}

Status ChildProcess::Send(const Context& ctx, std::span<const std::byte> bytes,
                          int64_t timeout_ms) {
  const std::string doing = fmt::format("send to process {}", pid_);
  while (!bytes.empty()) {
    const ssize_t count =
        send(channel_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      PF_TRY(AwaitEvent(ctx, channel_.get(), POLLOUT, timeout_ms, doing));
      continue;
    }
    if (count < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      return Status(Code::kUnavailable, doing + ": it has closed its end");
    }
    if (count < 0) return ErrnoStatus(errno, doing);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status ChildProcess::Receive(const Context& ctx, std::span<std::byte> out, int64_t timeout_ms) {
  const std::string doing = fmt::format("receive from process {}", pid_);
  while (!out.empty()) {
    const ssize_t count = recv(channel_.get(), out.data(), out.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      PF_TRY(AwaitReadable(ctx, channel_.get(), timeout_ms, doing));
      continue;
    }
    if (count == 0 || (count < 0 && errno == ECONNRESET)) {
      return Status(Code::kUnavailable, doing + ": it has closed its end");
    }
    if (count < 0) return ErrnoStatus(errno, doing);
    out = out.subspan(static_cast<size_t>(count));
  }
  return {};
}

std::optional<ExitState> ChildProcess::Poll() {
  if (ended_) return ended_;
  int wait_status = 0;
  pid_t pid = 0;
  do {
    pid = waitpid(pid_, &wait_status, WNOHANG);
  } while (pid < 0 && errno == EINTR);
  if (pid == pid_) ended_ = ExitStateOf(wait_status);
  if (pid < 0) ended_ = ExitState{};  // somebody else reaped it: the id is no longer ours to signal
  return ended_;
}

Result<ExitState> ChildProcess::Wait(const Context& ctx, int64_t timeout_ms) {
  if (const auto ended = Poll()) return *ended;
  const std::string doing = fmt::format("wait for process {}", pid_);
  const UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!handle.is_open()) return ErrnoStatus(errno, doing);
  PF_TRY(AwaitReadable(ctx, handle.get(), timeout_ms, doing));
  const auto ended = Poll();
  PF_CHECK(ended.has_value(), doing + ": ended, yet it runs");
  return *ended;
}

void ChildProcess::Signal(int signal_number) {
  if (!ended_) kill(pid_, signal_number);  // not reaped, so the id is still its own
}

std::vector<std::string> HarmlessVariables() {
  return {"PATH",
          "HOME",
          "TMPDIR",
          "LANG",
          "LC_*",
          "LD_LIBRARY_PATH",
          "ASAN_OPTIONS",
          "UBSAN_OPTIONS",
          "TSAN_OPTIONS",
          "LSAN_OPTIONS",
          "PARTFORGE_DEPS_PREFIX"};
}

void ForbidCoreFiles() {
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);  // lowering cannot fail
}

Status ParentChannel::Send(std::span<const std::byte> bytes) {
  return WriteAll(STDIN_FILENO, bytes);
}

Result<bool> ParentChannel::Receive(std::span<std::byte> out) {
  const size_t wanted = out.size();
  while (!out.empty()) {
    const ssize_t count = recv(STDIN_FILENO, out.data(), out.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "receive from the parent");
    if (count == 0 && out.size() == wanted) return false;
    if (count == 0) return Status(Code::kUnavailable, "receive from the parent: cut short");
    out = out.subspan(static_cast<size_t>(count));
  }
  return true;
}

Status LimitOwnMemory(int64_t bytes) {
  PF_ASSIGN(const std::string status, ReadFile("/proc/self/status"));
  const size_t at = status.find("VmData:");
  if (at == std::string::npos) {
    return Status(Code::kInternal, "limit the memory of this process: its size is unknown");
  }
  const int64_t held = std::strtoll(status.c_str() + at + 7, nullptr, 10) * 1024;
  const auto limit = static_cast<rlim_t>(held + bytes);
  const rlimit data{.rlim_cur = limit, .rlim_max = limit};
  if (setrlimit(RLIMIT_DATA, &data) != 0) return ErrnoStatus(errno, "limit memory");
  return {};
}

Status LimitOwnCpu(int64_t seconds) {
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) != 0) return ErrnoStatus(errno, "read the CPU time");
  rlimit limit{};
  if (getrlimit(RLIMIT_CPU, &limit) != 0) return ErrnoStatus(errno, "read the CPU limit");
  const auto end = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 + seconds);
  limit.rlim_cur = std::min(end, limit.rlim_max);
  if (setrlimit(RLIMIT_CPU, &limit) != 0) return ErrnoStatus(errno, "limit CPU time");
  return {};
}

std::filesystem::path SelfPath() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

}  // namespace partforge
