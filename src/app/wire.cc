#include "app/wire.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <vector>

#include "app/slot_children.h"
#include "base/files.h"
#include "base/process.h"
#include "base/units.h"
#include "clickhouse/tuning.h"
#include "engine/engine_arguments.h"
#include "engine/http_engine.h"
#include "engine/sql_text.h"
#include "store/store_url.h"

namespace partforge::app {
namespace {

constexpr double kMemoryShare = 0.7;  // of what the control group allows
// The engine alone takes about that much before it reads a row.
constexpr int64_t kMemoryBytesMin = int64_t{128} << 20;

std::string Variable(const CommandInput& input, const std::string& name) {
  const auto it = input.environment.find(name);
  return it == input.environment.end() ? std::string() : it->second;
}

Result<std::string> DefaultStateUrl(const CommandInput& input, SchemaUse use) {
  std::error_code error;
  const std::filesystem::path shared = "/var/lib/partforge";
  if (std::filesystem::is_directory(shared, error) && access(shared.c_str(), W_OK) == 0)
    return "sqlite:" + (shared / "state.db").string();
  std::filesystem::path base = Variable(input, "XDG_STATE_HOME");
  if (base.empty() && !Variable(input, "HOME").empty())
    base = std::filesystem::path(Variable(input, "HOME")) / ".local" / "state";
  if (base.empty()) {
    return Status(Code::kInvalidArgument, "neither HOME nor XDG_STATE_HOME is set")
        .Explain(1006, "--state-url", "--state-url=sqlite:/path/to/state.db");
  }
  if (use != SchemaUse::kRead) PF_TRY(MakeDirectories(base / "partforge"));
  return "sqlite:" + (base / "partforge" / "state.db").string();
}

Result<double> ParseShare(const std::string& text) {
  std::string_view number = text;
  const bool is_percent = number.ends_with('%');
  if (is_percent) number.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (is_percent) value /= 100;
  if (error != std::errc() || end != number.data() + number.size() || value < 0 || value >= 1) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a share between 0% and 100% expected: {}", text))
        .Explain(1005, "--min-free-space", "--min-free-space=10%");
  }
  return value;
}

// Anybody between could read a password that travels over plain http, and change what is answered
// about the table.
Status RefusePlainHttp(const CommandInput& input, const HttpEngineOptions& options) {
  constexpr std::string_view kPlain = "http://";
  const std::string_view url = options.url;
  if (!url.starts_with(kPlain)) return {};
  if (IsLoopbackHost(url.substr(kPlain.size())) || input.options.Bool("allow-http")) return {};
  return Status(Code::kInvalidArgument, fmt::format("plain http to another machine: {}", url))
      .Explain(7002, "--clickhouse-url",
               "use https, or give --allow-http when the network is trusted");
}

// Files are looked at now: a connection that fails for want of them would only say so late.
Result<TlsOptions> TlsFrom(const CommandInput& input) {
  TlsOptions tls{.ca_file = input.options.String("tls-ca"),
                 .certificate_file = input.options.String("tls-cert"),
                 .key_file = input.options.String("tls-key"),
                 .skips_verification = input.options.Bool("insecure-skip-verify")};
  if (!tls.key_file.empty() && tls.certificate_file.empty()) {
    return Status(Code::kInvalidArgument, "a key without its certificate")
        .Explain(1010, "--tls-key", "give --tls-cert, too");
  }
  for (const auto& [flag, file] : {std::pair("--tls-ca", &tls.ca_file),
                                   {"--tls-cert", &tls.certificate_file},
                                   {"--tls-key", &tls.key_file}}) {
    if (!file->empty() && access(file->c_str(), R_OK) != 0) {
      return ErrnoStatus(errno, "read " + *file)
          .As(Code::kInvalidArgument)
          .Explain(1005, flag, "name a PEM file that this user can read");
    }
  }
  return tls;
}

// What anybody could have made beforehand in a folder of all users must not be believed: a link, or
// a folder that others may write to.
Status CheckWorkDir(const std::filesystem::path& folder, bool is_private) {
  const auto refuse = [&](std::string message) {
    return Status(Code::kInvalidArgument, std::move(message))
        .Explain(1015, folder.string(), "--work-dir=DIR of this user, on a local disk");
  };
  struct stat found {};
  const int answer = is_private ? lstat(folder.c_str(), &found) : stat(folder.c_str(), &found);
  if (answer != 0) return ErrnoStatus(errno, "look at " + folder.string());
  if (!S_ISDIR(found.st_mode)) return refuse("the work folder is no folder");
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0)
    return refuse("this user cannot write to the work folder");
  if (is_private && found.st_uid != geteuid())
    return refuse(fmt::format("the work folder belongs to another user: {}", found.st_uid));
  const mode_t writers = is_private ? S_IWGRP | S_IWOTH : S_IWOTH;
  if ((found.st_mode & writers) != 0 && (found.st_mode & S_ISVTX) == 0)
    return refuse(fmt::format("others may write to the work folder: mode {:o}",
                              static_cast<unsigned>(found.st_mode & 07777)));
  return {};
}

std::string HostName() {
  char host[256] = {};
  return gethostname(host, sizeof(host) - 1) == 0 ? std::string(host) : std::string("unknown");
}

// "cli:<user>@<host>": who stands in the history for what a command did.
std::string ActorName() {
  const uid_t user = geteuid();
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> room(16'384);
  const bool is_known =
      getpwuid_r(user, &entry, room.data(), room.size(), &found) == 0 && found != nullptr;
  return fmt::format("cli:{}@{}", is_known ? std::string(found->pw_name) : std::to_string(user),
                     HostName());
}

Result<StateStoreOptions> StateOptionsFrom(const CommandInput& input, SchemaUse use) {
  const std::string state_url = input.options.String("state-url"),
                    postgres_url = input.options.String("postgres-url");
  if (!state_url.empty() && !postgres_url.empty()) {
    const auto origin = [&](std::string_view name) {
      return input.options.values().find(name)->second.origin;
    };
    return Status(Code::kInvalidArgument,
                  fmt::format("both are set ({}, {})", origin("state-url"), origin("postgres-url")))
        .Explain(1012, "--state-url and --postgres-url", "keep one of them");
  }
  StateStoreOptions options;
  options.url = state_url.empty() ? postgres_url : state_url;
  options.schema = input.options.String("state-schema");
  options.use = use;
  options.actor = ActorName();
  if (options.url.empty()) {
    PF_ASSIGN(options.url, DefaultStateUrl(input, use));
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<SqlJobStore>> OpenState(const CommandInput& input, SchemaUse use) {
  PF_ASSIGN(const StateStoreOptions options, StateOptionsFrom(input, use));
  return OpenJobStore(input.ctx, options);
}

Result<int64_t> Migrate(const CommandInput& input) {
  PF_ASSIGN(const StateStoreOptions options, StateOptionsFrom(input, SchemaUse::kMigrate));
  return MigrateStateStore(input.ctx, options);
}

Result<int64_t> PendingMigrations(const CommandInput& input) {
  PF_ASSIGN(const StateStoreOptions options, StateOptionsFrom(input, SchemaUse::kRead));
  return CountPendingMigrations(input.ctx, options);
}

RateLimit* BucketStores::Limit(std::string_view name, std::unique_ptr<RateLimit>& limit) {
  const int64_t bytes_per_s = input_.options.SizeBytes(name);
  const std::lock_guard lock(mutex_);
  if (limit == nullptr && bytes_per_s > 0) limit = std::make_unique<RateLimit>(bytes_per_s);
  return limit.get();
}

Result<ObjectStore*> BucketStores::Get(const Context& ctx, const std::string& bucket) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = stores_.find(bucket); known != stores_.end()) return known->second.get();
  }
  StoreSettings settings;
  settings.endpoint = input_.options.String("s3-endpoint");
  settings.bucket = bucket;
  settings.region = input_.options.String("s3-region");
  settings.path_style = input_.options.Bool("s3-path-style");
  settings.concurrency = static_cast<int>(input_.options.Int("s3-concurrency"));
  settings.allow_http = input_.options.Bool("allow-http");
  PF_ASSIGN(settings.tls, TlsFrom(input_));
  settings.environment = [this](std::string_view name) -> std::optional<std::string> {
    const auto it = input_.environment.find(std::string(name));
    if (it == input_.environment.end()) return std::nullopt;
    return it->second;
  };
  PF_ASSIGN(std::unique_ptr<ObjectStore> opened, OpenObjectStore(ctx, settings));
  opened = LimitRates(std::move(opened), Limit("max-download-rate", download_),
                      Limit("max-upload-rate", upload_));
  // Opened without the lock, since it may ask the network: of two at once the first one stays.
  const std::lock_guard lock(mutex_);
  return stores_.emplace(bucket, std::move(opened)).first->second.get();
}

clickhouse::RewriteExecutor::StoreOfBucket BucketStores::function() {
  return [this](const Context& ctx, const std::string& bucket) { return Get(ctx, bucket); };
}

Result<std::unique_ptr<Engine>> OpenServer(const CommandInput& input) {
  HttpEngineOptions options;
  options.url = input.options.String("clickhouse-url");
  options.user = input.options.String("clickhouse-user");
  options.password = input.options.SecretValue("clickhouse-password");
  if (!options.password.empty()) input.ctx.log.AddSecret(options.password.Reveal());
  PF_ASSIGN(options.tls, TlsFrom(input));
  PF_TRY(RefusePlainHttp(input, options));
  PF_ASSIGN(std::unique_ptr<HttpEngine> server, HttpEngine::Open(std::move(options)));
  return std::unique_ptr<Engine>(std::move(server));
}

Result<EngineChoice> ChooseEngine(const CommandInput& input, int64_t slots) {
  EngineChoice choice;
  const std::string binary = input.options.String("clickhouse-binary");
  if (!binary.empty() && binary != "embedded") {
    choice.binary = binary;
  } else {
    EngineLibraryPlaces places;
    places.flag = input.options.String("engine-library");
    places.environment = Variable(input, "PARTFORGE_ENGINE_LIBRARY");
    places.self = SelfPath();
    places.deps = DepsFolder(input.environment);
    PF_ASSIGN(choice.library, FindEngineLibrary(places));
  }
  PF_ASSIGN(const MachineLimits limits, ReadMachineLimits());
  int64_t cap = input.options.SizeBytes("memory");
  if (cap == 0) cap = static_cast<int64_t>(static_cast<double>(limits.memory_bytes) * kMemoryShare);
  choice.memory_bytes_max = clickhouse::EngineMemoryBytes(cap, slots);
  choice.uses_huge_pages = input.options.Bool("huge-pages");
  return choice;
}

std::unique_ptr<clickhouse::SlotEngines> MakeSlotEngines(EngineChoice choice, int64_t slots) {
  return std::make_unique<SlotChildren>(std::move(choice), slots);
}

Result<std::unique_ptr<ScratchEngine>> ScratchEngine::Start(const CommandInput& input) {
  PF_ASSIGN(const std::filesystem::path work_dir, OpenWorkDir(input));
  Context unstopped = input.ctx;
  unstopped.stop = {};
  auto scratch = std::unique_ptr<ScratchEngine>(new ScratchEngine(unstopped));
  PF_ASSIGN(scratch->folder_, RunFolder::Open(input.ctx, work_dir));
  PF_ASSIGN(const std::filesystem::path slot, scratch->folder_->MakeSlot(0));
  PF_ASSIGN(EngineChoice choice, ChooseEngine(input, 1));
  scratch->engines_ = MakeSlotEngines(std::move(choice), 1);
  const bool has_reads = input.options.Has("allow-external-reads");
  clickhouse::EngineWish wish(slot);
  wish.allows_external_reads = has_reads && input.options.Bool("allow-external-reads");
  PF_ASSIGN(scratch->engine_, scratch->engines_->Get(input.ctx, 0, wish));
  return scratch;
}

ScratchEngine::~ScratchEngine() {
  engines_.reset();
  if (folder_ != nullptr) Ignore(ctx_, folder_->Remove(ctx_), "scratch; a later start sweeps it");
}

std::filesystem::path DepsFolder(const std::map<std::string, std::string>& environment) {
  if (const auto it = environment.find("PARTFORGE_DEPS_PREFIX"); it != environment.end()) {
    return it->second;
  }
  // A build inside the source tree: build/<preset>/bin/partforge, with deps/ beside build/.
  std::filesystem::path folder = SelfPath().parent_path();
  std::error_code error;
  for (int up = 0; up < 4; ++up, folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / "deps" / "libchdb.so", error)) return folder / "deps";
  }
  return {};
}

std::filesystem::path WorkDir(const CommandInput& input) {
  if (const std::string flag = input.options.String("work-dir"); !flag.empty()) return flag;
  const std::string temporary = Variable(input, "TMPDIR");
  return std::filesystem::path(temporary.empty() ? "/tmp" : temporary) /
         fmt::format("partforge-{}", geteuid());
}

Result<std::filesystem::path> OpenWorkDir(const CommandInput& input) {
  const std::filesystem::path folder = WorkDir(input);
  if (const Status made = MakeDirectories(folder); !made.ok()) {
    return Status(Code::kInvalidArgument, made.message())
        .Explain(1015, folder.string(), "--work-dir=DIR that this user can make");
  }
  PF_TRY(CheckWorkDir(folder, input.options.String("work-dir").empty()));
  return folder;
}

Result<MachineUse> ChooseMachineUse(const CommandInput& input) {
  MachineUse use;
  PF_ASSIGN(use.limits, ReadMachineLimits());
  const int64_t threads = input.options.Int("threads");
  constexpr int64_t kThreadsMax = 4096;
  if (threads < 0 || threads > kThreadsMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("0 to {} CPUs expected: {}", kThreadsMax, threads))
        .Explain(1005, "--threads", "--threads=0 takes all that may be used");
  }
  if (threads > 0) use.limits.cpus = threads;
  use.slots = input.options.Int("parallel");
  if (use.slots < 0 || use.slots > 256) {
    return Status(Code::kInvalidArgument, fmt::format("0 to 256 slots expected: {}", use.slots))
        .Explain(1005, "--parallel", "--parallel=0 chooses by CPUs and memory");
  }
  use.memory_cap_bytes = input.options.SizeBytes("memory");
  if (input.options.IsSet("memory") && use.memory_cap_bytes < kMemoryBytesMin) {
    return Status(Code::kInvalidArgument,
                  fmt::format("no part could be rewritten in less than {}: {}",
                              FormatBytes(kMemoryBytesMin), input.options.String("memory")))
        .Explain(1005, "--memory", "--memory=2GiB, or leave it out for 70 % of what may be used");
  }
  if (use.memory_cap_bytes > 0)
    use.limits.memory_bytes = std::min(use.limits.memory_bytes, use.memory_cap_bytes * 10 / 7);
  if (use.memory_cap_bytes == 0)
    use.memory_cap_bytes =
        static_cast<int64_t>(static_cast<double>(use.limits.memory_bytes) * kMemoryShare);
  if (use.slots == 0) use.slots = clickhouse::DefaultSlots(use.limits);
  return use;
}

Result<clickhouse::RewriteSettings> RewriteSettingsFrom(const CommandInput& input,
                                                        const MachineUse& use) {
  if (input.options.Has("s3-endpoint")) PF_TRY(CheckEndpoint(input.options.String("s3-endpoint")));
  if (input.options.Has("tls-ca")) PF_TRY(TlsFrom(input));
  clickhouse::RewriteSettings settings;
  const auto usage = [](const Status& status, std::string_view flag) {
    return Status(status).Explain(1005, fmt::format("--{}", flag),
                                  fmt::format("partforge worker --help explains --{}", flag));
  };
  settings.compression_codec = input.options.String("default-compression-codec");
  if (settings.compression_codec.find_first_not_of(' ') == std::string::npos) {
    return usage(Status(Code::kInvalidArgument, "the codec is blank"), "default-compression-codec");
  }
  settings.merge_runtime_ms_max = input.options.DurationMs("merge-max-runtime");
  settings.chunk_rows_min = input.options.Int("insert-chunk-min-rows");
  if (settings.chunk_rows_min < 0)
    return usage(Status(Code::kInvalidArgument, "a negative number of rows"),
                 "insert-chunk-min-rows");
  settings.is_chunk_rows_explicit = input.options.IsSet("insert-chunk-min-rows");
  auto tier = clickhouse::ParseTier(input.options.String("tier"));
  if (!tier.ok()) return usage(tier.status(), "tier");
  settings.tier = *tier;
  auto verify = clickhouse::ParseVerifyMode(input.options.String("verify"));
  if (!verify.ok()) return usage(verify.status(), "verify");
  settings.verify = *verify;
  const std::string ttl = input.options.String("ttl");
  if (ttl != "keep" && ttl != "apply")
    return usage(Status(Code::kInvalidArgument, fmt::format("neither keep nor apply: {}", ttl)),
                 "ttl");
  settings.ttl = ttl == "keep" ? clickhouse::TtlPolicy::kKeep : clickhouse::TtlPolicy::kApply;
  settings.limits = use.limits;
  settings.slots = use.slots;
  settings.memory_cap_bytes = use.memory_cap_bytes;
  PF_ASSIGN(settings.free_space_fraction_min, ParseShare(input.options.String("min-free-space")));
  settings.files_in_parallel = static_cast<int>(input.options.Int("s3-concurrency"));
  return settings;
}

clickhouse::GatherRules GatherRulesFrom(const clickhouse::RewriteSettings& settings) {
  return {.memory_cap_bytes = settings.memory_cap_bytes,
          .slots = settings.slots,
          .forced = settings.tier,
          .is_chunk_rows_explicit = settings.is_chunk_rows_explicit};
}

std::string ProcessName(const CommandInput&) {
  return fmt::format("{}-{}", HostName(), getpid());
}

Result<JobId> JobNamed(const CommandInput& input) {
  const JobId named = input.options.String("job-id");
  if (input.options.arguments().empty()) return named;
  const JobId& argument = input.options.arguments().front();
  if (!named.empty() && named != argument) {
    return Status(Code::kInvalidArgument,
                  fmt::format("two jobs are named: {} and {}", argument, named))
        .Explain(1010, "JOB and --job-id", "keep one of them");
  }
  return argument;
}

Result<clickhouse::TableName> TableFrom(const CommandInput& input) {
  clickhouse::TableName table{input.options.String("database"), input.options.String("table")};
  for (const auto& [flag, name] :
       {std::pair("--database", table.database), std::pair("--table", table.table)}) {
    if (Status checked = CheckIdentifier(name); !checked.ok()) {
      return std::move(checked)
          .As(Code::kRefused)
          .Explain(8006, flag, "give the name as the server has it, without quotes");
    }
  }
  return table;
}

Result<std::string> ReadTextFlag(const CommandInput& input, std::string_view flag) {
  const std::string path = input.options.String(flag);
  Result<std::string> text = ReadFile(path, int64_t{1} << 26);
  if (!text.ok())
    return Status(Code::kInvalidArgument, text.status().message())
        .Explain(1013, fmt::format("--{}={}", flag, path), "name a file that this user can read");
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) {
    return Status(Code::kInvalidArgument, "the file is empty")
        .Explain(1013, fmt::format("--{}={}", flag, path), "write the SQL statement into it");
  }
  return text;
}

}  // namespace partforge::app
