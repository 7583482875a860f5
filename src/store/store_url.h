#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/http_client.h"
#include "store/aws_config.h"
#include "store/object_store.h"

namespace partforge {

// How to reach an object store; the flags of every object-using command (clickhouse-parts §8.1
// "STORE").
struct StoreSettings {
  std::string endpoint;  // "" = AWS; "http(s)://host:port"; "file:///dir" = a folder, whose first
                         // level are buckets
  std::string bucket;    // of S3, or the folder below a file endpoint
  std::string region;    // "" = environment, shared config file, else us-east-1
  bool path_style = true;
  int concurrency = 8;  // requests at once for one large object
  int64_t part_size_bytes = int64_t{16} << 20;
  // Explicit credentials win over the chain (environment, shared files, web identity, container,
  // instance).
  std::string access_key;
  Secret secret_key, session_token;
  TlsOptions tls;  // no ca_file: AWS_CA_BUNDLE, else the system's
  // How to ask for an environment variable; empty = none is set. Only app reads the environment.
  EnvironmentLookup environment;
  bool allow_http = false;  // plain http to a host that is not loopback
};
// kInvalidArgument on settings that make no sense. Opens no connection for S3.
Result<std::unique_ptr<ObjectStore>> OpenObjectStore(const Context& ctx,
                                                     const StoreSettings& settings);

// kInvalidArgument (PF1005) on an endpoint that no store could be reached by: another scheme, a
// path that does not begin at the root, a host with a path. Looks at the text alone.
Status CheckEndpoint(std::string_view endpoint);
// kInvalidArgument (PF1005) on what cannot be a bucket there. Looks at the text alone.
Status CheckBucketOf(std::string_view endpoint, std::string_view bucket);

// True for names and literal addresses of this very machine: "localhost", "127.0.0.1:9000",
// "[::1]:80". Resolves nothing.
bool IsLoopbackHost(std::string_view host_and_port);

}  // namespace partforge
