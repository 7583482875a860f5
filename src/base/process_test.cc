#include "base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "testing/test_world.h"

namespace partforge {
namespace {

constexpr int64_t kLongMs = 20'000;  // a hang becomes a failure

ProcessOptions Shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .captures_stdout = true};
}

std::unique_ptr<ChildProcess> Start(const ProcessOptions& options) {
  auto child = ChildProcess::Start(options);
  PF_CHECK(child.ok(), child.status().ToString());
  return std::move(child).value();
}

// Whether the process is gone; one that nobody has reaped yet is dead all the same.
bool IsDead(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return true;
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") Z") == 0;
}

class ChildProcessTest : public ::testing::Test {
 protected:
  std::string Line(ChildProcess& child) {
    const auto line = child.ReadLine(ctx_, kLongMs);
    PF_CHECK(line.ok(), line.status().ToString());
    return line->value_or("(end)");
  }
  std::string End(ChildProcess& child) {
    const auto state = child.Wait(ctx_, kLongMs);
    return state.ok() ? state->ToString() : state.status().ToString();
  }

  testing::TestWorld world_;
  const Context ctx_ = world_.context();
};

TEST_F(ChildProcessTest, ExitCodeAndSignalAreTold) {
  EXPECT_EQ(End(*Start(Shell("exit 3"))), "exit code 3");
  EXPECT_EQ(End(*Start(Shell("exit 0"))), "exit code 0");
  EXPECT_EQ(End(*Start(Shell("kill -9 $$"))), "signal 9 (Killed)");
  const auto child = Start(Shell("exec sleep 1000"));
  child->Signal(SIGTERM);
  EXPECT_EQ(End(*child), "signal 15 (Terminated)");
  EXPECT_EQ(child->Poll()->signal_number, SIGTERM);  // stays known
  child->Signal(SIGKILL);                            // of a reaped child: nothing
}

TEST_F(ChildProcessTest, LinesComeOneByOneWhateverTheirPieces) {
  const auto child = Start(Shell("printf 'one\\ntw'; printf 'o\\n\\nlast'"));
  EXPECT_EQ(Line(*child), "one");
  EXPECT_EQ(Line(*child), "two");
  EXPECT_EQ(Line(*child), "");
  EXPECT_EQ(Line(*child), "last");
  EXPECT_EQ(Line(*child), "(end)");
  EXPECT_EQ(Line(*child), "(end)");
}

TEST_F(ChildProcessTest, LongLineIsReadAndAnEndlessOneRefused) {
  const auto child = Start(Shell("head -c 300000 /dev/zero | tr '\\0' x; echo"));
  EXPECT_EQ(Line(*child), std::string(300'000, 'x'));
  const auto endless = Start(Shell("exec tr '\\0' x </dev/zero"));
  EXPECT_EQ(endless->ReadLine(ctx_, kLongMs).status().code(), Code::kCorruption);
}

TEST_F(ChildProcessTest, SilenceTimesOutAndLosesNothing) {
  const auto child = Start(Shell("printf half; exec sleep 1000"));
  EXPECT_EQ(child->ReadLine(ctx_, 50).status().code(), Code::kUnavailable);
  EXPECT_EQ(child->Wait(ctx_, 1).status().code(), Code::kUnavailable);
  child->Signal(SIGKILL);
  EXPECT_EQ(Line(*child), "half");
}

TEST_F(ChildProcessTest, StopEndsTheWaiting) {
  const auto child = Start(Shell("exec sleep 1000"));
  std::jthread stopper([&] { world_.RequestStop(); });
  EXPECT_EQ(child->ReadLine(ctx_, kLongMs).status().code(), Code::kCancelled);
  EXPECT_EQ(child->Wait(ctx_, kLongMs).status().code(), Code::kCancelled);
}

TEST_F(ChildProcessTest, MissingProgramIsAnErrorOfStart) {
  EXPECT_EQ(ChildProcess::Start({.argv = {"/no/such/program"}}).status().code(), Code::kNotFound);
  EXPECT_EQ(ChildProcess::Start({.argv = {"/etc"}}).status().code(), Code::kRefused);
  EXPECT_EQ(ChildProcess::Start({.argv = {"sh"}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ChildProcess::Start({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ChildProcess::Start({.argv = {"/bin/sh"}, .working_directory = "/no/such/folder"})
                .status()
                .code(),
            Code::kNotFound);
}

TEST_F(ChildProcessTest, EnvironmentDirectoryAndStderrAreSet) {
  const testing::TempDir folder;
  ASSERT_EQ(setenv("PF_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("PF_TEST_GONE", "gone", 1), 0);
  ASSERT_EQ(setenv("PF_TEST_NEW", "old", 1), 0);
  for (int i = 0; i < 2; ++i) {
    const auto child = Start(
        {.argv = {"/bin/sh", "-c",
                  "echo \"$PF_TEST_KEPT,${PF_TEST_GONE-unset},$PF_TEST_NEW\"; pwd; echo oops >&2"},
         .environment = {{"PF_TEST_GONE", ""}, {"PF_TEST_NEW", "new"}},
         .working_directory = folder.path(),
         .stderr_path = folder / "log",
         .captures_stdout = true});
    EXPECT_EQ(Line(*child), "kept,unset,new");
    EXPECT_EQ(Line(*child), std::filesystem::canonical(folder.path()).string());
    EXPECT_EQ(End(*child), "exit code 0");
  }
  EXPECT_EQ(ReadFile(folder / "log").value(), "oops\noops\n");
}

TEST_F(ChildProcessTest, WithoutInheritanceOnlyTheNamedVariablesArrive) {
  ASSERT_EQ(setenv("PF_TEST_SECRET", "secret", 1), 0);
  ASSERT_EQ(setenv("PF_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("PF_TEST_LC_ONE", "one", 1), 0);
  const auto child =
      Start({.argv = {"/bin/sh", "-c",
                      "echo \"${PF_TEST_SECRET-unset},$PF_TEST_KEPT,$PF_TEST_LC_ONE,$ADDED\""},
             .environment = {{"ADDED", "added"}},
             .inherits_environment = false,
             .inherited_names = {"PF_TEST_KEPT", "PF_TEST_LC_*", "PF_TEST_SEC"},
             .captures_stdout = true});
  EXPECT_EQ(Line(*child), "unset,kept,one,added");
}

TEST_F(ChildProcessTest, SignalsAreAtTheirDefaultsThoughOursAreNot) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto ignored = signal(SIGPIPE, SIG_IGN);
  const auto child = Start(Shell("grep -E 'SigBlk|SigIgn' /proc/self/status; exec sleep 1000"));
  EXPECT_EQ(Line(*child), "SigBlk:\t0000000000000000");
  EXPECT_EQ(Line(*child), "SigIgn:\t0000000000000000");
  child->Signal(SIGTERM);
  EXPECT_EQ(End(*child), "signal 15 (Terminated)");
  signal(SIGPIPE, ignored);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(ChildProcessTest, NoDescriptorOfOursLeaksIn) {
  const int leaky = open("/dev/null", O_RDONLY);  // opened without the flag, as a library might
  ASSERT_GE(leaky, 3);
  const auto other = Start(Shell("exec sleep 1000"));
  const auto child = Start({.argv = {"/bin/ls", "/proc/self/fd"}, .captures_stdout = true});
  std::string descriptors;
  for (std::string line = Line(*child); line != "(end)"; line = Line(*child))
    descriptors += line + " ";
  EXPECT_EQ(descriptors, "0 1 2 3 ");  // 3 is the folder that ls reads
  close(leaky);
}

TEST_F(ChildProcessTest, StdinIsEmpty) {
  EXPECT_EQ(End(*Start(Shell("read line"))), "exit code 1");
}

TEST_F(ChildProcessTest, DestructorKillsAndReaps) {
  auto child = Start(Shell("trap '' TERM; echo ready; exec sleep 1000"));
  EXPECT_EQ(Line(*child), "ready");
  const pid_t pid = child->pid();
  child.reset();
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
}

TEST_F(ChildProcessTest, ChildOutlivesTheThreadThatStartedIt) {
  std::unique_ptr<ChildProcess> child;
  std::thread([&] { child = Start(Shell("echo ready; exec sleep 1000")); }).join();
  EXPECT_EQ(Line(*child), "ready");
  // A death signal from the thread's end would have come by the time the next child has lived and
  // died.
  EXPECT_EQ(End(*Start(Shell("exit 0"))), "exit code 0");
  EXPECT_FALSE(IsDead(child->pid()));
}

// Run by the test below in a process of its own: starts a child, tells its id, and waits to be
// killed.
TEST_F(ChildProcessTest, DISABLED_RoleOfAParent) {
  const auto child = Start({.argv = {"/bin/sleep", "1000"}});
  fprintf(stdout, "child %d\n", static_cast<int>(child->pid()));
  fflush(stdout);
  (void)child->Wait(ctx_, 600'000);
}

TEST_F(ChildProcessTest, ChildDiesWithItsParent) {
  const auto parent = Start({.argv = {SelfPath().string(), "--gtest_also_run_disabled_tests",
                                      "--gtest_filter=ChildProcessTest.DISABLED_RoleOfAParent"},
                             .captures_stdout = true});
  std::string line;
  while (!line.starts_with("child ") && line != "(end)") line = Line(*parent);
  ASSERT_NE(line, "(end)");
  const pid_t grandchild = std::stoi(line.substr(6));
  ASSERT_FALSE(IsDead(grandchild));
  parent->Signal(SIGKILL);
  EXPECT_EQ(End(*parent), "signal 9 (Killed)");
  for (int64_t end_ms = MonotonicMs() + kLongMs; !IsDead(grandchild) && MonotonicMs() < end_ms;) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(IsDead(grandchild));
}

TEST(ChildProcess, NoCoreFilesOnceForbidden) {
  EXPECT_EXIT(
      {
        ForbidCoreFiles();
        rlimit found{};
        getrlimit(RLIMIT_CORE, &found);
        _exit(found.rlim_cur == 0 && found.rlim_max == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(SelfPath, IsThisProgram) {
  EXPECT_EQ(SelfPath().filename(), "base_test");
}

TEST_F(ChildProcessTest, AChannelCarriesBytesBothWays) {
  const auto child = Start({.argv = {"/bin/sh", "-c", "exec cat <&0 >&0"}, .opens_channel = true});
  std::string sent(300'000, 'x');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 % 251);
  // More than a socket holds would wait for its reader; pieces do not.
  for (size_t at = 0; at < sent.size(); at += 10'000) {
    const auto piece = std::as_bytes(std::span(sent)).subspan(at, 10'000);
    ASSERT_TRUE(child->Send(ctx_, piece, kLongMs).ok());
    std::vector<std::byte> got(piece.size());
    ASSERT_TRUE(child->Receive(ctx_, got, kLongMs).ok());
    ASSERT_TRUE(std::equal(got.begin(), got.end(), piece.begin()));
  }
  child->Signal(SIGKILL);
  std::byte one{};
  EXPECT_EQ(child->Receive(ctx_, std::span(&one, 1), kLongMs).code(), Code::kUnavailable);
  EXPECT_EQ(End(*child), "signal 9 (Killed)");
  EXPECT_EQ(child->Send(ctx_, std::span(&one, 1), kLongMs).code(), Code::kUnavailable);
}

// Runs only when started by the test below.
TEST_F(ChildProcessTest, DISABLED_RoleOfALimitedOne) {
  ParentChannel parent;
  char what = 0;
  ASSERT_TRUE(*parent.Receive(std::as_writable_bytes(std::span(&what, 1))));
  ASSERT_TRUE(LimitOwnMemory(int64_t{64} << 20).ok());
  ASSERT_TRUE(LimitOwnCpu(1).ok());
  char answer = 'y';
  if (what == 'm') {
    const std::string small(16 << 20, 'x');
    try {
      const std::string large(256 << 20, 'x');
      answer = 'n';
    } catch (const std::bad_alloc&) {
      answer = small.size() > 0 ? 'y' : 'n';
    }
  }
  while (what == 'c') answer = static_cast<char>(answer ^ 1);
  ASSERT_TRUE(parent.Send(std::as_bytes(std::span(&answer, 1))).ok());
}

TEST_F(ChildProcessTest, OwnLimitsHold) {
  const auto start = [&](char what) {
    auto child = Start({.argv = {SelfPath().string(), "--gtest_also_run_disabled_tests",
                                 "--gtest_filter=ChildProcessTest.DISABLED_RoleOfALimitedOne"},
                        .opens_channel = true});
    EXPECT_TRUE(child->Send(ctx_, std::as_bytes(std::span(&what, 1)), kLongMs).ok());
    return child;
  };
  const auto memory = start('m');
  char answer = 0;
  const Status said = memory->Receive(ctx_, std::as_writable_bytes(std::span(&answer, 1)), kLongMs);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // The sanitizer's allocator ends the process at the limit instead of throwing.
  EXPECT_FALSE(said.ok());
  EXPECT_NE(End(*memory), "exit code 0");
#else
  ASSERT_TRUE(said.ok()) << said.ToString();
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(End(*memory), "exit code 0");
#endif
  const auto busy = start('c');
  const auto ended = busy->Wait(ctx_, kLongMs);
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->signal_number, SIGXCPU);
}

}  // namespace
}  // namespace partforge
