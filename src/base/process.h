#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/files.h"

namespace partforge {

// No core file of this process or of its children: it would hold their secrets. (Not
// PR_SET_DUMPABLE: it also takes /proc/self/fd from a plain user, which links of objects need.)
void ForbidCoreFiles();

// Names of our environment that a child may have although it must learn no secret; for
// ProcessOptions::inherited_names. The *SAN_OPTIONS are for instrumented builds.
std::vector<std::string> HarmlessVariables();

// How to start a child process. Its stdin is empty unless it gets a channel; of our descriptors it
// inherits only stdout and stderr.
struct ProcessOptions {
  std::vector<std::string> argv = {};  // argv[0] is the program's path
  // Added to what is inherited; an empty value removes the name.
  std::map<std::string, std::string> environment = {};
  // false: of our environment the child gets only `inherited_names`. For programs of others, which
  // need none of our secrets.
  bool inherits_environment = true;
  std::vector<std::string> inherited_names = {};  // "PATH"; "LC_*" stands for a prefix
  std::filesystem::path working_directory = {};   // empty = ours
  std::filesystem::path stderr_path = {};         // empty = ours; else appended to
  bool captures_stdout = false;                   // read by ReadLine; else ours
  // Its stdin is one end of a socket for both directions instead of empty; see Send and Receive.
  bool opens_channel = false;
  // PR_SET_PDEATHSIG = SIGTERM, from a thread that lives as long as the process.
  bool dies_with_parent = true;
};

// How a process ended.
struct ExitState {
  int exit_code = -1;            // -1 when a signal ended it
  int signal_number = 0;         // 0 when it exited
  std::string ToString() const;  // "exit code 3", "signal 9 (Killed)"
};

// A child process. The destructor kills a child that still runs (SIGKILL) and reaps it. One thread
// at a time.
class ChildProcess {
 public:
  static Result<std::unique_ptr<ChildProcess>> Start(const ProcessOptions& options);
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // One line of stdout without '\n'; empty optional at its end. kUnavailable after `timeout_ms`.
  Result<std::optional<std::string>> ReadLine(const Context& ctx, int64_t timeout_ms);
  // Over the channel: all bytes, or kUnavailable when the child's end is closed or nothing moves
  // for `timeout_ms`.
  Status Send(const Context& ctx, std::span<const std::byte> bytes, int64_t timeout_ms);
  Status Receive(const Context& ctx, std::span<std::byte> out, int64_t timeout_ms);
  // Empty while it runs.
  std::optional<ExitState> Poll();
  // kUnavailable when it has not ended after `timeout_ms`.
  Result<ExitState> Wait(const Context& ctx, int64_t timeout_ms);
  void Signal(int signal_number);

 private:
  ChildProcess() = default;
  pid_t pid_ = -1;
  std::optional<ExitState> ended_;
  UniqueFd stdout_;
  UniqueFd channel_;
  std::string pending_;
};

// The other end of a channel, in a process that was started with one. Blocking. One thread at a
// time.
class ParentChannel {
 public:
  Status Send(std::span<const std::byte> bytes);
  // All of `out`; false when the parent has closed its end and no byte came.
  Result<bool> Receive(std::span<std::byte> out);
};

// For a process that does dangerous work for its parent. Lets it take at most `bytes` more than it
// has now: an allocation beyond fails. For good.
Status LimitOwnMemory(int64_t bytes);
// SIGXCPU ends the process when it has used that many seconds of CPU from now on. Call again to go
// on.
Status LimitOwnCpu(int64_t seconds);

// Path of the running executable.
std::filesystem::path SelfPath();

}  // namespace partforge
