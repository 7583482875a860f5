#include "base/crash_report.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <utility>

namespace partforge {
namespace {

constexpr std::array kSignals = {
    std::pair(SIGSEGV, std::string_view("SIGSEGV")), std::pair(SIGBUS, std::string_view("SIGBUS")),
    std::pair(SIGFPE, std::string_view("SIGFPE")), std::pair(SIGILL, std::string_view("SIGILL")),
    std::pair(SIGABRT, std::string_view("SIGABRT"))};
constexpr int kFramesMax = 64;

// A text of fixed room: a signal handler must not allocate. What does not fit is cut.
class FixedText {
 public:
  FixedText& operator<<(std::string_view text) {
    const size_t fits = std::min(text.size(), bytes_.size() - 1 - size_);
    std::copy_n(text.begin(), fits, bytes_.begin() + size_);
    size_ += fits;
    return *this;
  }
  FixedText& operator<<(long number) {
    std::array<char, 24> digits{};
    size_t at = digits.size();
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0 && at > 0);
    return *this << std::string_view(digits.data() + at, digits.size() - at);
  }
  const char* c_str() const { return bytes_.data(); }  // the rest of the room is zero
  std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 1024> bytes_{};
  size_t size_ = 0;
};

void WriteText(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

FixedText PathOfCrash() {
  const char* const folder = getenv("TMPDIR");
  FixedText path;
  path << (folder == nullptr || *folder == '\0' ? "/tmp" : folder) << "/partforge-crash-"
       << static_cast<long>(getpid()) << ".txt";
  return path;
}

// Safe in a signal handler: backtrace() has been called before, so that its library is loaded.
bool WriteFileOfCrash(const FixedText& path, std::string_view why) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  std::array<char, 512> program{};
  const ssize_t length = readlink("/proc/self/exe", program.data(), program.size());
  WriteText(fd, why);
  WriteText(fd, "\nprogram ");
  WriteText(fd, {program.data(), static_cast<size_t>(std::max<ssize_t>(0, length))});
  WriteText(fd, "\n");
  std::array<void*, kFramesMax> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), kFramesMax), fd);
  close(fd);
  return true;
}

void Tell(std::string_view why, const FixedText& path, bool is_written) {
  FixedText text;
  text << "error[PF9001]: internal error\n  where   partforge\n  why     " << why
       << "\n  do      report it" << (is_written ? " with " : "")
       << (is_written ? path.view() : std::string_view())
       << "\n  more    partforge explain PF9001\n";
  WriteText(STDERR_FILENO, text.view());
}

extern "C" void OnCrash(int signal_number) {
  const int kept_errno = errno;
  FixedText why;
  why << "signal ";
  for (const auto& [number, name] : kSignals) {
    if (number == signal_number) why << name;
  }
  const FixedText path = PathOfCrash();
  Tell(why.view(), path, WriteFileOfCrash(path, why.view()));
  errno = kept_errno;
  raise(signal_number);  // SA_RESETHAND: now it does what it does without us
}

}  // namespace

void ReportCrashes() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);           // loads what a handler must not load
  std::set_terminate([] { abort(); });  // the library's own prints the words of the exception
  struct sigaction action {};
  action.sa_handler = &OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  sigemptyset(&action.sa_mask);
  for (const auto& [number, name] : kSignals) sigaction(number, &action, nullptr);
#endif
}

std::string WriteCrashFile(std::string_view what) {
  const FixedText path = PathOfCrash();
  FixedText why;
  why << "exception " << what;
  return WriteFileOfCrash(path, why.view()) ? std::string(path.view()) : std::string();
}

}  // namespace partforge
