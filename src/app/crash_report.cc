#include "app/crash_report.h"

#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>

#include "app/version.h"
#include "base/files.h"

namespace partforge::app {
namespace {

constexpr int kFramesMax = 64;
constexpr std::string_view kAdvice = "report it with that file; no data is published after a crash";

// What a signal handler needs, made beforehand: it may not allocate.
struct Prepared {
  std::array<char, 512> path{};
  std::array<char, 256> head{};        // "partforge 0.1.0, worker\n"
  std::array<char, 1024> complaint{};  // PF9001 with the path
};
Prepared& Ready() {
  static Prepared prepared;
  return prepared;
}

template <size_t kSize>
void Keep(std::string_view text, std::array<char, kSize>& out) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(out.data(), text.data(), length);
  out[length] = '\0';
}

std::string CrashPath() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) folder = "/tmp";
  return (folder / fmt::format("partforge-crash-{}.txt", getpid())).string();
}

void Put(int fd, const char* text) {
  const size_t length = std::strlen(text);
  if (fd >= 0) [[maybe_unused]]
    const ssize_t written = write(fd, text, length);
}

int CreateReport(const char* path) {
  unlink(path);  // of a process that had this number before
  constexpr int kOwnerOnly = 0600;
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
}

void PutStack(int fd) {
  std::array<void*, kFramesMax> frames{};
  if (fd >= 0) backtrace_symbols_fd(frames.data(), backtrace(frames.data(), kFramesMax), fd);
}

// Only calls that a signal handler may make.
void OnFatalSignal(int number) {
  const Prepared& ready = Ready();
  const int fd = CreateReport(ready.path.data());
  Put(fd, ready.head.data());
  std::array<char, 16> digits = {"signal  "};
  digits[7] = static_cast<char>('0' + number / 10);
  digits[8] = static_cast<char>('0' + number % 10);
  digits[9] = '\n';
  Put(fd, digits.data());
  PutStack(fd);
  if (fd >= 0) close(fd);
  Put(STDERR_FILENO, ready.complaint.data());
  raise(number);  // its handler is the usual one again
}

void OnTerminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      // The abort's own report follows with the stack; this one says what was thrown.
      Keep(fmt::format("{}exception  {}\n", Ready().head.data(), error.what()), Ready().head);
    } catch (...) {
      Keep(fmt::format("{}exception  of an unknown type\n", Ready().head.data()), Ready().head);
    }
  }
  std::abort();
}

}  // namespace

void InstallCrashReports(std::string_view command) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)command;
#else
  Prepared& ready = Ready();
  const std::string path = CrashPath();
  Keep(path, ready.path);
  Keep(fmt::format("partforge {}, {}\n", kVersion, command), ready.head);
  Keep(fmt::format("error[PF9001]: internal error\n  where   partforge {}\n  why     it crashed; "
                   "what is known stands in {}\n  do      {}\n  more    partforge explain PF9001\n",
                   command, path, kAdvice),
       ready.complaint);
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // the first call loads what a handler must not
  std::set_terminate(OnTerminate);
  struct sigaction action {};
  action.sa_handler = OnFatalSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(number, &action, nullptr);
  }
#endif
}

Status ReportException(std::string_view command, std::string_view what) {
  const std::string path = CrashPath();
  const int fd = CreateReport(path.c_str());
  const std::string text =
      fmt::format("partforge {}, {}\nexception  {}\n", kVersion, command, what);
  Put(fd, text.c_str());
  PutStack(fd);
  if (fd >= 0) close(fd);
  return Status(Code::kInternal,
                fmt::format("an exception that nobody caught; what is known stands in {}", path))
      .Explain(9001, fmt::format("partforge {}", command), std::string(kAdvice));
}

}  // namespace partforge::app
