// The one main(): picks the command, resolves its settings, builds the outside world, runs it, and
// turns its Status into text on stderr and an exit code. Nothing else in the program exits, but
// for a second signal, a server that is forced to stop, and a child that cannot be made.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "app/command.h"
#include "app/engine_command.h"
#include "app/exit_code.h"
#include "app/help_text.h"
#include "app/options.h"
#include "app/output.h"
#include "base/crash_report.h"
#include "base/files.h"
#include "base/log_file.h"
#include "base/machine.h"
#include "base/process.h"
#include "base/world.h"
#include "data/orc_decoder.h"

extern char** environ;

namespace partforge::app {
namespace {

std::map<std::string, std::string> ReadEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return environment;
}

std::string Lookup(const std::map<std::string, std::string>& environment, const std::string& name) {
  const auto it = environment.find(name);
  return it == environment.end() ? std::string() : it->second;
}

OutputStyle DefaultStyle(const std::map<std::string, std::string>& environment) {
  OutputStyle style;
  style.is_stdout_tty = isatty(STDOUT_FILENO) == 1;
  style.is_stderr_tty = isatty(STDERR_FILENO) == 1;
  const std::string columns = Lookup(environment, "COLUMNS");
  int width = 0;
  const auto [end, error] = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (error == std::errc() && end == columns.data() + columns.size() && width > 0)
    style.width = width;
  winsize size{};
  if (style.is_stdout_tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = size.ws_col;
  const bool is_dumb = Lookup(environment, "TERM") == "dumb";
  const bool is_off = environment.contains("NO_COLOR") || is_dumb;
  style.has_color =
      Lookup(environment, "CLICOLOR_FORCE") == "1" || (style.is_stdout_tty && !is_off);
  std::string locale = Lookup(environment, "LC_ALL");
  if (locale.empty()) locale = Lookup(environment, "LC_CTYPE");
  if (locale.empty()) locale = Lookup(environment, "LANG");
  style.is_utf8 =
      locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return style;
}

Result<OutputStyle> StyleFrom(OutputStyle style, const ResolvedOptions& options,
                              bool is_streaming) {
  const std::string output = options.String("output");
  const bool is_output_given = options.values().find("output")->second.origin == "flag";
  const bool is_streamed = is_streaming && output == "ndjson";
  if (options.Bool("json") && output != "json" && !is_streamed && is_output_given) {
    return Status(Code::kInvalidArgument, fmt::format("--json and --output={}", output))
        .Explain(1010, "--json and --output", "keep one of them");
  }
  style.is_csv = output == "csv" && !options.Bool("json");  // a flag beats the environment
  style.is_json = options.Bool("json") || output == "json" || style.is_csv;
  style.is_ndjson = output == "ndjson" || (is_streaming && options.Bool("json") &&
                                           !(is_output_given && output == "json"));
  if (style.is_ndjson) style.is_json = false;
  style.is_quiet = options.Bool("quiet");
  if (output != "table" && output != "json" && output != "ndjson" && output != "csv") {
    return Status(Code::kInvalidArgument,
                  fmt::format("output is none of table, json, ndjson, csv: {}", output))
        .Explain(1005, "--output", "--output=json");
  }
  const std::string color = options.String("color");
  if (color == "always") style.has_color = true;
  if (color == "never") style.has_color = false;
  if (color != "always" && color != "never" && color != "auto") {
    return Status(Code::kInvalidArgument,
                  fmt::format("color is none of auto, always, never: {}", color))
        .Explain(1005, "--color", "--color=never");
  }
  return style;
}

Result<Log::Options> LogOptionsFrom(const ResolvedOptions& options, const OutputStyle& style) {
  Log::Options log;
  const bool is_for_terminal = style.is_stderr_tty && !options.IsSet("log-file");
  log.level = is_for_terminal ? LogLevel::kWarn : LogLevel::kInfo;
  const auto verbosity =
      options.IsSet("verbose") && options.Bool("verbose") ? options.List("verbose").size() : 0;
  if (verbosity == 1) log.level = LogLevel::kDebug;
  if (verbosity > 1) log.level = LogLevel::kTrace;
  if (style.is_quiet) log.level = LogLevel::kError;
  static const std::map<std::string, LogLevel> kLevels = {{"trace", LogLevel::kTrace},
                                                          {"debug", LogLevel::kDebug},
                                                          {"info", LogLevel::kInfo},
                                                          {"warn", LogLevel::kWarn},
                                                          {"error", LogLevel::kError}};
  if (const std::string level = options.String("log-level"); !level.empty()) {
    const auto it = kLevels.find(level);
    if (it == kLevels.end())
      return Status(Code::kInvalidArgument,
                    fmt::format("log level is none of trace, debug, info, warn, error: {}", level))
          .Explain(1005, "--log-level", "--log-level=info");
    log.level = it->second;
  }
  const std::string format = options.String("log-format");
  if (!format.empty() && format != "text" && format != "json") {
    return Status(Code::kInvalidArgument,
                  fmt::format("log format is neither text nor json: {}", format))
        .Explain(1005, "--log-format", "--log-format=json");
  }
  const bool is_json = format == "json" || (format.empty() && !is_for_terminal && !style.is_csv &&
                                            (style.is_json || style.is_ndjson));
  log.format = is_json ? LogFormat::kJson : LogFormat::kText;
  return log;
}

// Takes INT and TERM for the whole process: the first asks for an orderly stop, the second ends at
// once. With `on_hangup`, HUP calls that and ends nothing.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void()> on_hangup) : on_hangup_(std::move(on_hangup)) {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    if (on_hangup_) sigaddset(&set_, SIGHUP);
    sigaddset(&set_, SIGUSR2);  // ends the watching thread
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    thread_ = std::thread([this] { Watch(); });
  }
  ~SignalWatch() {
    is_ending_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }
  std::stop_token token() { return stop_.get_token(); }
  int signal_number() const { return signal_number_; }

 private:
  void Watch() {
    while (true) {
      int number = 0;
      sigwait(&set_, &number);
      if (number == SIGUSR2) {
        if (is_ending_) return;
        continue;
      }
      if (number == SIGHUP) {
        on_hangup_();
        continue;
      }
      if (signal_number_ != 0) _exit(128 + number);
      signal_number_ = number;
      stop_.request_stop();
    }
  }
  const std::function<void()> on_hangup_;
  sigset_t set_{};
  std::stop_source stop_;
  std::atomic<int> signal_number_ = 0;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

// Whether the caller wants results as JSON, said before the settings are resolved: mistakes in them
// must already have that form.
bool AsksForJson(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](std::string_view word) {
    if (word.starts_with("--")) word.remove_prefix(1);
    return word == "-json" || word == "-json=true" || word == "-output=json" ||
           word == "-output=ndjson";
  });
}

// Makes the secrets unreadable in the list of processes.
void HideSecrets(std::span<char* const> argv, const std::vector<std::string>& secrets) {
  for (char* const word : argv) {
    for (const std::string& secret : secrets) {
      char* const found = std::strstr(word, secret.c_str());
      if (found != nullptr) std::memset(found, '*', secret.size());
    }
  }
}

// Values that the environment of others calls secret; they may appear in texts of libraries.
constexpr const char* kSecretVariables[] = {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                            "PGPASSWORD", "CLICKHOUSE_PASSWORD"};

int Fail(const Status& status, const OutputStyle& style) {
  const std::string text = RenderError(status, style);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return ExitCode(status);
}

// The end of a command that did its work: a report that nobody can read is a failure, too.
int Finish(const Output& out) {
  if (out.is_pipe_broken()) return 141;
  if (out.failure().ok()) return 0;
  Fail(out.failure(), out.style());
  return 1;
}

const Command* FindCommand(std::string_view name) {
  std::string wanted(name);
  for (char& c : wanted) c = c == '_' ? '-' : c;
  if (wanted == "finalise-compaction") wanted = "finalize-compaction";
  if (wanted == "dashboard") wanted = "server";
  for (const Command& command : Commands()) {
    if (command.spec.name == wanted) return &command;
  }
  return nullptr;
}

// The command that the first words name, one or two of them, and how many they are.
struct NamedCommand {
  const Command* command = nullptr;  // null: no such command
  size_t word_count = 1;
};
NamedCommand FindCommand(std::span<const std::string> words) {
  if (words.size() > 1) {
    if (const Command* command = FindCommand(words[0] + " " + words[1]); command != nullptr)
      return {command, 2};
  }
  return {FindCommand(words[0]), 1};
}

int UnknownCommand(std::string_view name, const OutputStyle& style) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.emplace_back(command.spec.name);
  const auto nearest = NearestNames(name, names);
  std::string advice = "partforge help   lists the commands";
  const std::string group(name.substr(0, name.find(' ')));
  if (!GroupList(group, CommandSpecs()).empty())
    advice = fmt::format("partforge {} --help   lists its commands", group);
  if (!nearest.empty()) {
    advice = "did you mean";
    for (const std::string& one : nearest) advice += " " + one;
    advice += "?";
  }
  return Fail(Status(Code::kInvalidArgument, fmt::format("unknown command {}", name))
                  .Explain(1002, "command line", advice),
              style);
}

bool IsHelpFlag(std::string_view word) {
  return word == "--help" || word == "-help" || word == "-h";
}

// Words that name no command: the first may be that of a group, whose commands are listed when help
// is asked for.
int HelpOfGroup(std::span<const std::string> words, bool asks_for_help, const OutputStyle& style) {
  const std::vector<CommandSpec> specs = CommandSpecs();
  const std::string list = GroupList(words[0], specs);
  if (list.empty()) return UnknownCommand(words[0], style);
  if (words.size() > 1 && IsHelpFlag(words[1])) asks_for_help = true;
  if (!asks_for_help) return UnknownCommand(fmt::format("{}", fmt::join(words, " ")), style);
  Output(style).Raw(list);
  return 0;
}

// An upload holds some files and connections for each of 256 files at once; the usual limit of 1024
// is meant for programs that call select(2), which this one does not.
void RaiseDescriptorLimit() {
  constexpr rlim_t kWanted = 8192;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWanted) return;
  limit.rlim_cur = std::min(kWanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);  // when it is refused, the limit is as it was
}

// Children inherit it.
Status LowerPriority(const ResolvedOptions& options) {
  constexpr int64_t kNiceMax = 19;
  const int64_t nice = options.Int("nice");
  if (nice < 0 || nice > kNiceMax) {
    return Status(Code::kInvalidArgument, fmt::format("0 to {} expected: {}", kNiceMax, nice))
        .Explain(1005, "--nice", "--nice=10");
  }
  if (nice > 0) setpriority(PRIO_PROCESS, 0, static_cast<int>(nice));  // lowering is always allowed
  return {};
}

// Null without --log-file.
Result<std::unique_ptr<LogFile>> OpenLogFile(const ResolvedOptions& options) {
  if (!options.IsSet("log-file")) return std::unique_ptr<LogFile>();
  const std::string path = options.String("log-file");
  Result<std::unique_ptr<LogFile>> file = LogFile::Open(path);
  if (file.ok()) return file;
  return Status(file.status()).Explain(7015, path, "name a file that this user can write to");
}

int RunCommand(const Command& command, std::vector<std::string> argv,
               std::span<char* const> process_argv,
               const std::map<std::string, std::string>& environment, OutputStyle style) {
  const std::vector<CommandSpec> specs = CommandSpecs();
  OptionInputs inputs;
  inputs.argv = std::move(argv);
  style.is_json = AsksForJson(inputs.argv);
  inputs.environment = environment;
  inputs.read_file = [](const std::string& path) { return ReadFile(path, int64_t{1} << 24); };
  const Result<ResolvedOptions> options = ResolveOptions(command.spec, specs, inputs);
  if (!options.ok()) {
    const int exit = Fail(options.status(), style);
    if (!style.is_json) fmt::print(stderr, "  usage   {}\n", CommandUsage(command.spec));
    return exit;
  }
  const Result<OutputStyle> resolved_style = StyleFrom(style, *options, command.spec.is_streaming);
  if (!resolved_style.ok()) return Fail(resolved_style.status(), style);
  style = *resolved_style;
  if (options->Bool("help")) {
    Output out(style);
    out.Raw(CommandHelp(command.spec, style.width));
    return Finish(out);
  }
  const Result<Log::Options> log = LogOptionsFrom(*options, style);
  if (!log.ok()) return Fail(log.status(), style);

  RaiseDescriptorLimit();
  if (const Status lowered = LowerPriority(*options); !lowered.ok()) return Fail(lowered, style);
  const Result<std::unique_ptr<LogFile>> log_file = OpenLogFile(*options);
  if (!log_file.ok()) return Fail(log_file.status(), style);
  std::function<void()> reopen;
  if (*log_file != nullptr) {
    reopen = [file = log_file->get()] {
      const Status done = file->Reopen();
      if (!done.ok()) file->Write(done.ToString() + "\n");
    };
  }
  SignalWatch signals(reopen);
  World::Options world_options;
  world_options.log = *log;
  if (*log_file != nullptr) {
    world_options.log_sink = [file = log_file->get()](std::string_view line) { file->Write(line); };
  }
  world_options.fault_spec = Lookup(environment, "PARTFORGE_FAULT");
  world_options.fault_trace_path = Lookup(environment, "PARTFORGE_FAULT_TRACE");
  const Result<MachineLimits> limits = ReadMachineLimits();
  if (limits.ok()) world_options.memory_bytes = limits->memory_bytes / 2;
  const Result<std::unique_ptr<World>> world = World::Open(world_options);
  if (!world.ok()) return Fail(world.status(), style);
  const Context ctx = (*world)->MakeContext(signals.token());
  for (const std::string& secret : options->secrets()) ctx.log.AddSecret(secret);
  for (const char* const variable : kSecretVariables)
    ctx.log.AddSecret(Lookup(environment, variable));
  HideSecrets(process_argv, options->secrets());
  const bool holds_secrets =
      !options->secrets().empty() ||
      std::any_of(std::begin(kSecretVariables), std::end(kSecretVariables),
                  [&](const char* variable) { return environment.contains(variable); });
  if (holds_secrets) ForbidCoreFiles();
  for (const std::string& warning : options->warnings()) ctx.log.Warn(warning);
  if (options->Has("insecure-skip-verify") && options->Bool("insecure-skip-verify"))
    ctx.log.Warn("certificates are not verified: anybody between can read and change data");

  Output out(style, [&ctx](std::string_view text) { return ctx.log.Redact(text); });
  const CommandInput input{ctx, *options, out, environment};
  Status status = command.run(input);
  if (out.is_pipe_broken()) return 141;
  if (status.ok()) return Finish(out);
  if (signals.signal_number() != 0 && status.code() == Code::kCancelled) {
    out.Note("stopped; run the same command again to go on");
    return ExitCodeOfSignal(signals.signal_number());
  }
  const std::string text = ctx.log.Redact(RenderError(status, style));
  std::fwrite(text.data(), 1, text.size(), stderr);
  return ExitCode(status);
}

int Main(int argc, char** argv) {
  // What this program starts itself as to read ORC; nobody types it.
  if (argc == 2 && argv[1] == data::kOrcDecoderWord) return data::RunOrcDecoder();
  const std::map<std::string, std::string> environment = ReadEnvironment();
  const OutputStyle style = DefaultStyle(environment);
  std::vector<std::string> words(argv + 1, argv + argc);
  // Started under the name of a ClickHouse server, the program stands in for it.
  const bool is_stand_in =
      std::filesystem::path(argv[0]).filename().string().find("clickhouse") != std::string::npos;
  if (is_stand_in || (!words.empty() && words[0] == "engine")) {
    if (!is_stand_in) words.erase(words.begin());
    if (std::any_of(words.begin(), words.end(), IsHelpFlag)) {
      Output out(style);
      out.Raw(EngineHelp());
      return Finish(out);
    }
    const Status status = RunEngineCommand(words, environment);
    return status.ok() ? 0 : Fail(status, style);
  }
  ReportCrashes();  // an engine reports its own
  if (words.empty()) {
    const std::string text = OverviewText();
    std::fwrite(text.data(), 1, text.size(), stderr);
    return 1;
  }
  if (words[0] == "help" || IsHelpFlag(words[0])) {
    Output out(style);
    if (words.size() == 1) {
      out.Raw(words[0] == "help" ? CommandList(CommandSpecs()) : OverviewText());
      return Finish(out);
    }
    words.erase(words.begin());
    if (words[0] == "engine") {
      out.Raw(EngineHelp());
      return Finish(out);
    }
    const auto [command, word_count] = FindCommand(words);
    if (command == nullptr) return HelpOfGroup(words, true, style);
    out.Raw(CommandHelp(command->spec, style.width));
    return Finish(out);
  }
  if (words[0] == "--version" || words[0] == "-version") words[0] = "version";
  const auto [command, word_count] = FindCommand(words);
  if (command == nullptr) return HelpOfGroup(words, false, style);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(word_count));
  return RunCommand(*command, std::move(words), std::span(argv + 1, argv + argc), environment,
                    style);
}

}  // namespace
}  // namespace partforge::app

int main(int argc, char** argv) {
  try {
    return partforge::app::Main(argc, argv);
  } catch (const std::exception& error) {
    const std::string file = partforge::WriteCrashFile(error.what());
    std::fprintf(stderr,
                 "error[PF9001]: internal error\n  where   partforge\n  why     an exception that "
                 "nobody expected\n  do      report it%s%s\n  more    partforge explain PF9001\n",
                 file.empty() ? "" : " with ", file.c_str());
    return 1;
  }
}
