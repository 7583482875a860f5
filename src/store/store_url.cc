#include "store/store_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/http_client.h"
#include "store/local_store.h"
#include "store/s3_store.h"

namespace partforge {
namespace {

constexpr std::string_view kFileScheme = "file://";
constexpr int kConcurrencyMax = 256;
constexpr int64_t kPartBytesMin = int64_t{5} << 20;
constexpr int64_t kPartBytesMax = int64_t{5} << 30;

Status Wrong(std::string_view what, std::string_view value) {
  return Status(Code::kInvalidArgument, fmt::format("{}: {}", what, value));
}

// What S3 accepts today and what older buckets and other stores have: letters, digits, '.', '-',
// '_'.
Status CheckBucket(std::string_view bucket) {
  const bool is_plain = std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
  if (bucket.empty()) return Status(Code::kInvalidArgument, "the bucket is not given");
  if (!is_plain || bucket.size() > 255 || bucket.front() == '.' ||
      bucket.find("..") != std::string_view::npos) {
    return Wrong("not the name of a bucket", bucket);
  }
  return {};
}

struct Endpoint {
  std::string scheme, host;  // host with its port, unless that is the scheme's own
};

Result<Endpoint> ParseEndpoint(std::string_view text) {
  Endpoint endpoint;
  std::string_view rest = text;
  if (text.starts_with("https://")) {
    endpoint.scheme = "https";
    rest.remove_prefix(8);
  } else if (text.starts_with("http://")) {
    endpoint.scheme = "http";
    rest.remove_prefix(7);
  } else {
    return Wrong("the object store's endpoint must start with https://, http:// or file:///", text);
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find('@') != std::string_view::npos) {
    return Status(Code::kInvalidArgument,
                  "the object store's endpoint holds a user or password; give "
                  "credentials by file or environment");
  }
  if (rest.empty() || rest.find_first_of("/?# ") != std::string_view::npos) {
    return Wrong("the object store's endpoint must be host or host:port without a path", text);
  }
  const std::string_view own_port = endpoint.scheme == "https" ? ":443" : ":80";
  if (rest.ends_with(own_port)) rest.remove_suffix(own_port.size());
  endpoint.host = rest;
  std::transform(endpoint.host.begin(), endpoint.host.end(), endpoint.host.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return endpoint;
}

// "file:///dir/a%20b" names the folder "/dir/a b".
Result<std::string> ParseFolder(std::string_view endpoint) {
  std::string_view rest = endpoint.substr(kFileScheme.size());
  if (rest.starts_with("localhost/")) rest.remove_prefix(9);
  if (!rest.starts_with('/')) return Wrong("a file endpoint must be file:///dir", endpoint);
  return UrlDecode(rest);
}

Status CheckFolderName(std::string_view bucket) {
  PF_TRY(CheckObjectKey(bucket));
  if (bucket.find('/') == std::string_view::npos) return {};
  return Wrong("not the name of a folder", bucket);
}

Result<std::unique_ptr<ObjectStore>> OpenFolder(const StoreSettings& settings) {
  PF_ASSIGN(const std::string folder, ParseFolder(settings.endpoint));
  std::filesystem::path root(folder);
  if (!settings.bucket.empty()) {
    PF_TRY(CheckFolderName(settings.bucket));
    root /= settings.bucket;
  }
  PF_ASSIGN(std::unique_ptr<LocalStore> store, LocalStore::Open(root));
  return std::unique_ptr<ObjectStore>(std::move(store));
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  const std::string_view name =
      host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  if (name == "localhost" || name.ends_with(".localhost") || name == "[::1]") return true;
  // Only a literal address: "127.evil.example" resolves anywhere.
  return name.starts_with("127.") &&
         name.find_first_not_of("0123456789.") == std::string_view::npos;
}

Status CheckEndpoint(std::string_view endpoint) {
  const auto parse = [&]() -> Status {
    if (endpoint.empty()) return {};  // AWS
    if (endpoint.starts_with(kFileScheme)) {
      PF_TRY(ParseFolder(endpoint));
    } else {
      PF_TRY(ParseEndpoint(endpoint));
    }
    return {};
  };
  Status parsed = parse();
  if (parsed.ok()) return {};
  return std::move(parsed)
      .As(Code::kInvalidArgument)
      .Explain(1005, "--s3-endpoint",
               "--s3-endpoint=https://host:port, or file:///dir for a local folder");
}

Status CheckBucketOf(std::string_view endpoint, std::string_view bucket) {
  Status checked = bucket.empty() || !endpoint.starts_with(kFileScheme) ? CheckBucket(bucket)
                                                                        : CheckFolderName(bucket);
  if (checked.ok()) return {};
  return std::move(checked)
      .As(Code::kInvalidArgument)
      .Explain(1005, "--bucket", "--bucket=NAME, without slashes; folders go into --prefix");
}

Result<std::unique_ptr<ObjectStore>> OpenObjectStore(const Context& ctx,
                                                     const StoreSettings& settings) {
  PF_TRY(CheckEndpoint(settings.endpoint));
  if (settings.endpoint.starts_with(kFileScheme)) return OpenFolder(settings);
  PF_TRY(CheckBucket(settings.bucket));
  if (settings.concurrency < 1 || settings.concurrency > kConcurrencyMax) {
    return Wrong(fmt::format("requests at once must be 1 to {}", kConcurrencyMax),
                 std::to_string(settings.concurrency));
  }
  if (settings.part_size_bytes < kPartBytesMin || settings.part_size_bytes > kPartBytesMax) {
    return Wrong("a part must be 5 MiB to 5 GiB", std::to_string(settings.part_size_bytes));
  }
  if (settings.access_key.empty() != settings.secret_key.empty()) {
    return Status(Code::kInvalidArgument,
                  "one of access key and secret key is given without the other");
  }

  S3StoreOptions options;
  S3ClientOptions& client = options.client;
  client.bucket = settings.bucket;
  client.region = settings.region;
  if (client.region.empty()) {
    PF_ASSIGN(client.region, ChooseAwsRegion(settings.environment));
  }
  const bool is_amazon = settings.endpoint.empty();
  if (is_amazon) {
    // The wildcard certificate covers one label: a bucket with a dot needs the other style.
    client.is_path_style = settings.bucket.find('.') != std::string::npos;
    client.sends_crc32c = true;
    options.probes_conditional_put = false;
  } else {
    PF_ASSIGN(Endpoint endpoint, ParseEndpoint(settings.endpoint));
    if (endpoint.scheme == "http" && !settings.allow_http && !IsLoopbackHost(endpoint.host)) {
      return Wrong("plain http to another machine is not allowed", settings.endpoint)
          .Explain(7002, settings.endpoint,
                   "use https, or give --allow-http when the network is trusted");
    }
    client.scheme = std::move(endpoint.scheme);
    client.host = std::move(endpoint.host);
    client.is_path_style = settings.path_style;
  }
  client.tls = settings.tls;
  if (client.tls.ca_file.empty()) {
    client.tls.ca_file = EnvironmentValue(settings.environment, "AWS_CA_BUNDLE");
  }
  client.credentials = {.given = {.access_key = settings.access_key,
                                  .secret_key = settings.secret_key,
                                  .session_token = settings.session_token},
                        .environment = settings.environment,
                        .region = client.region};
  ctx.log.AddSecret(settings.secret_key.Reveal());
  ctx.log.AddSecret(settings.session_token.Reveal());
  options.concurrency = settings.concurrency;
  options.part_bytes = settings.part_size_bytes;
  return std::unique_ptr<ObjectStore>(std::make_unique<S3Store>(std::move(options)));
}

}  // namespace partforge
