#include "app/option_groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge::app {
namespace {

// The usual variables of ClickHouse's own clients name a host and a port.
std::string UrlOfClickHouseVariables(const std::map<std::string, std::string>& environment) {
  const auto lookup = [&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  };
  std::string host = lookup("CLICKHOUSE_HOST"), port = lookup("CLICKHOUSE_PORT");
  if (host.empty() && port.empty()) return "";
  if (host.empty()) host = "127.0.0.1";
  if (port.empty()) port = "8123";
  if (host.find(':') != std::string::npos && !host.starts_with('[')) host = "[" + host + "]";
  constexpr std::string_view kTlsPort = "8443";  // ClickHouse's default for HTTPS
  return fmt::format("{}://{}:{}", port == kTlsPort ? "https" : "http", host, port);
}

// For the object store and for the ClickHouse server; Join keeps one of the two.
OptionSpec AllowHttpOption() {
  return {.name = "allow-http",
          .type = OptionType::kBool,
          .default_text = "false",
          .help = "plain http to a host that is not this machine",
          .group = "Where"};
}

// The same for both.
std::vector<OptionSpec> TlsOptionSpecs() {
  return {
      {.name = "tls-ca",
       .help = "certificates to believe, PEM (default: those of the system)",
       .group = "Where",
       .refuses_empty = true},
      {.name = "tls-cert",
       .help = "certificate to show to servers that ask for one, PEM",
       .group = "Where",
       .refuses_empty = true},
      {.name = "tls-key",
       .help = "its key (default: in the same file)",
       .group = "Where",
       .refuses_empty = true},
      {.name = "insecure-skip-verify",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "believe any certificate; anybody between can then read and change everything",
       .group = "Where"},
  };
}

std::vector<OptionSpec> With(std::vector<OptionSpec> options, const std::vector<OptionSpec>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

OptionSpec LeaseTtlOption() {
  return {.name = "lease-ttl",
          .type = OptionType::kDuration,
          .default_text = "60s",
          .help = "how long a silent worker keeps its part",
          .group = "Limits"};
}

OptionSpec MaxCrashesOption() {
  return {.name = "max-crashes",
          .type = OptionType::kInt,
          .default_text = "3",
          .help = "leases of a part alone that run out before it is taken out of the queue",
          .group = "Limits"};
}

OptionSpec DryRunOption(std::string_view help) {
  return {.name = "dry-run",
          .type = OptionType::kBool,
          .default_text = "false",
          .help = help,
          .letter = 'n'};
}

OptionSpec DetailsOption(std::string_view help) {
  return {.name = "details",
          .type = OptionType::kBool,
          .default_text = "false",
          .help = help,
          .group = "Output"};
}

std::vector<OptionSpec> StateOptions() {
  return {
      {.name = "state-url",
       .help = "sqlite:/path or postgres://host/db (default: a SQLite file of this user)",
       .group = "Where",
       .may_hold_password = true,
       .refuses_empty = true},
      {.name = "postgres-url",
       .help = "the same, for PostgreSQL",
       .group = "Where",
       .may_hold_password = true,
       .refuses_empty = true},
      {.name = "state-schema",
       .default_text = "partforge",
       .help = "schema inside PostgreSQL",
       .group = "Where"},
  };
}

std::vector<OptionSpec> StoreOptions() {
  std::vector<OptionSpec> options = {
      {.name = "s3-endpoint",
       .help = "http(s)://host:port, or file:///dir for a local folder (default: AWS)",
       .group = "Where",
       .env_alias = "AWS_ENDPOINT_URL_S3",
       .may_hold_password = true},
      {.name = "s3-region",
       .help = "region (default: of the environment, else us-east-1)",
       .group = "Where",
       .env_alias = "AWS_REGION"},
      {.name = "s3-path-style",
       .type = OptionType::kBool,
       .default_text = "true",
       .help = "bucket in the path, not in the host name",
       .group = "Where"},
      {.name = "s3-concurrency",
       .type = OptionType::kInt,
       .default_text = "8",
       .help = "requests at once for one large object",
       .group = "Limits"},
      {.name = "max-upload-rate",
       .type = OptionType::kSize,
       .help = "bytes a second to the object store, of all slots together (default: no limit)",
       .group = "Limits"},
      {.name = "max-download-rate",
       .type = OptionType::kSize,
       .help = "bytes a second from the object store, of all slots together (default: no limit)",
       .group = "Limits"},
      AllowHttpOption(),
  };
  return With(std::move(options), TlsOptionSpecs());
}

std::vector<OptionSpec> ServerOptions() {
  std::vector<OptionSpec> options = {
      {.name = "clickhouse-url",
       .default_text = "http://127.0.0.1:8123",
       .help = "HTTP address of the server that holds the table",
       .group = "Where",
       .env_alias = "CLICKHOUSE_HOST",
       .env_value = UrlOfClickHouseVariables,
       .may_hold_password = true},
      {.name = "clickhouse-user", .help = "user", .group = "Where", .env_alias = "CLICKHOUSE_USER"},
      {.name = "clickhouse-password",
       .help = "password",
       .group = "Where",
       .env_alias = "CLICKHOUSE_PASSWORD",
       .is_secret = true},
      AllowHttpOption(),
  };
  return With(std::move(options), TlsOptionSpecs());
}

std::vector<OptionSpec> EngineOptions() {
  return {
      {.name = "work-dir",
       .help = "scratch folder (default: partforge in the system's folder for temporary files)",
       .group = "Where"},
      {.name = "engine-library",
       .help = "libchdb.so (default: beside the program)",
       .group = "Where"},
      {.name = "clickhouse-binary",
       .default_text = "embedded",
       .help = "embedded, or a clickhouse binary to start instead",
       .group = "Where"},
      {.name = "memory",
       .type = OptionType::kSize,
       .help = "memory for all slots together (default: 70 % of what may be used)",
       .group = "Limits"},
      {.name = "huge-pages",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "huge pages for the engine's allocator",
       .group = "Limits"},
  };
}

std::vector<OptionSpec> RewriteOptions() {
  return {
      {.name = "default-compression-codec",
       .default_text = "ZSTD(5)",
       .help = "codec of columns without one of their own",
       .group = "What"},
      {.name = "insert-chunk-min-rows",
       .type = OptionType::kInt,
       .default_text = "10000000",
       .help = "rows of a chunk at least; 0 = each part whole",
       .group = "Limits"},
      {.name = "merge-max-runtime",
       .type = OptionType::kDuration,
       .default_text = "5m",
       .help = "longest wait for merges after the inserts of a part",
       .group = "Limits"},
      {.name = "tier",
       .default_text = "auto",
       .help = "auto, T5 (one block a part), T5b (small parts together), T6 (blocks and one merge) "
               "or seed",
       .group = "What"},
      {.name = "verify",
       .default_text = "counts",
       .help = "none, counts or content",
       .group = "What"},
      {.name = "ttl",
       .default_text = "keep",
       .help = "keep: expired rows are delivered; apply: local merges drop them",
       .group = "What"},
      {.name = "parallel",
       .type = OptionType::kInt,
       .default_text = "0",
       .help = "slots, each with its engine; 0 = by CPUs and memory",
       .group = "Limits"},
      {.name = "threads",
       .type = OptionType::kInt,
       .default_text = "0",
       .help = "CPUs for all slots together; 0 = all that may be used",
       .group = "Limits"},
      {.name = "min-free-space",
       .default_text = "10%",
       .help = "part of the scratch disk that stays free",
       .group = "Limits"},
  };
}

std::vector<OptionSpec> Join(std::initializer_list<std::vector<OptionSpec>> groups) {
  std::vector<OptionSpec> all;
  for (const auto& group : groups) {
    for (const OptionSpec& spec : group) {
      const bool is_taken = std::any_of(all.begin(), all.end(), [&](const OptionSpec& earlier) {
        return earlier.name == spec.name;
      });
      if (!is_taken) all.push_back(spec);
    }
  }
  return all;
}

}  // namespace partforge::app
