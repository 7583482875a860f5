#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/http_client.h"
#include "store/s3_credentials.h"
#include "store/s3_reply.h"
#include "store/sigv4.h"

namespace partforge {

struct S3ClientOptions {
  std::string scheme = "https";
  std::string host;  // "host" or "host:port"; "" = Amazon's, chosen by region
  std::string bucket;
  std::string region = "us-east-1";
  bool is_path_style = true;  // else the bucket is the first label of the host
  bool sends_crc32c = false;  // x-amz-checksum-crc32c with each body that TLS alone would protect
  CredentialChain::Options credentials;
  TlsOptions tls;
  int tries_max = 8;
  int64_t backoff_ms_first = 200, backoff_ms_max = 20'000;
};

struct S3Call {
  std::string_view op = {};  // of the metric: "get", "part", …
  std::string method = "GET";
  std::string key = {};  // "" = the bucket itself
  QueryParameters query = {};
  HttpHeaders headers = {};
  std::span<const std::byte> body = {};
  // Where a successful reply's body goes, which must then have just this size; empty = into the
  // reply.
  std::span<std::byte> out = {};
  // Looks at a successful reply; a failure counts as an answer that never came (a body cut short on
  // its way).
  std::function<Status(const S3Reply&)> check = {};
  bool is_repeatable = true;  // doing it twice equals doing it once
  int tries_max = 0;          // 0 = as in the options
};

// Signs, sends and repeats requests to one bucket. Repeats with exponential backoff and jitter what
// may succeed later; fetches new credentials once when they have expired; follows the bucket to its
// region once; learns the server's clock when ours is off. Thread-safe.
class S3Client {
 public:
  explicit S3Client(S3ClientOptions options);

  // Any answer that is not worth a repetition, also a refusal. kUnavailable (PF7001) when the tries
  // are used up; kUnknownOutcome instead for a call that is not repeatable and may have taken
  // effect.
  Result<S3Reply> Send(const Context& ctx, const S3Call& call);
  // As Send, and a refusal is a failure too.
  Result<S3Reply> SendForSuccess(const Context& ctx, const S3Call& call);

  // "get s3://bucket/key", for messages.
  std::string Doing(std::string_view verb, std::string_view key) const;
  std::string url() const { return "s3://" + options_.bucket; }
  const S3ClientOptions& options() const { return options_; }
  std::string region() const;
  // Milliseconds on the server's clock, as far as we know it.
  int64_t ServerNowMs(const Context& ctx) const { return ctx.clock.NowMs() + clock_offset_ms_; }
  // Waits before try number `tries` (from 1); shorter when `ctx` is stopped.
  void Backoff(const Context& ctx, int tries, int64_t at_least_ms = 0) const;

 private:
  struct Attempts;
  Result<S3Reply> SendOnce(const Context& ctx, const S3Call& call,
                           const AwsCredentials& credentials);
  // True when what the refusal says was put right, so that the request is worth another try at
  // once.
  bool PutRight(const Context& ctx, const S3Reply& reply, const AwsCredentials& credentials,
                Attempts& attempts);
  std::string Host() const;

  const S3ClientOptions options_;
  HttpClient http_;
  CredentialChain credentials_;
  std::atomic<int64_t> clock_offset_ms_ = 0;  // server's clock less ours
  mutable std::mutex mutex_;
  std::string region_;  // guarded by mutex_
};

}  // namespace partforge
