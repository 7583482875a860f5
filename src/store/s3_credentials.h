#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "base/context.h"
#include "base/http_client.h"
#include "store/aws_config.h"
#include "store/sigv4.h"

namespace partforge {

// Where the keys for S3 come from, first found wins: given explicitly; AWS_ACCESS_KEY_ID and its
// companions; the shared files' profile; web identity; the container endpoint; the instance's
// metadata. Keys that expire are fetched anew some minutes before. Thread-safe; one thread fetches,
// the others wait or go on with keys that still hold.
class CredentialChain {
 public:
  struct Options {
    AwsCredentials given;              // used as they are when access_key is set
    EnvironmentLookup environment;     // empty = no environment, so no files either
    std::string region = "us-east-1";  // of the STS endpoint
  };
  // `http` must outlive the chain.
  CredentialChain(HttpClient& http, Options options);

  // kRefused (PF7005) when no source has any; kUnavailable when a source that should have them did
  // not answer.
  Result<AwsCredentials> Get(const Context& ctx);
  // Says that the server refused `credentials` as expired or unknown: the next Get looks again.
  // False when looking again cannot help, since they were given explicitly.
  bool Reject(const AwsCredentials& credentials);

 private:
  Result<AwsCredentials> Find(const Context& ctx);
  Result<AwsCredentials> FindInProfile(const Context& ctx, const AwsProfile& profile);
  Result<AwsCredentials> FindOnMachine(const Context& ctx);
  std::string Variable(std::string_view name) const;
  std::string StsUrl() const;

  HttpClient& http_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable_any fetched_;
  AwsCredentials current_;    // guarded by mutex_; access_key "" = none yet
  bool is_fetching_ = false;  // guarded by mutex_
  bool has_found_ = false;    // guarded by mutex_; some source has answered before
};

}  // namespace partforge
