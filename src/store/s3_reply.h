#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge {

// What S3 said about a failure ("REST Error Responses"). Replies without a body (HEAD) leave all
// but `code` empty.
struct S3Error {
  std::string code;  // "NoSuchKey"; made from the status where the body gives none
  std::string message, request_id;
  std::string region;  // the bucket's, where the error says so
};

struct S3Reply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  S3Error error;                // set when !is_ok()
  bool had_lost_reply = false;  // an earlier try of the same request may have taken effect

  bool is_ok() const { return status >= 200 && status < 300; }
  std::string Header(std::string_view name) const;
};

// Reads the error out of the reply's status, headers and body.
S3Error ReadS3Error(const S3Reply& reply);
// True when the same request may succeed a moment later: 408, 429, 5xx but 501, and the codes that
// say so.
bool IsTransient(const S3Reply& reply);
// True when new credentials may help.
bool IsExpiredCredentials(const S3Error& error);
// The failure as ours: kNotFound (no such key or upload), kInvalidArgument (PF7004 no such bucket,
// and other 4xx), kRefused (PF7003 …), kConflict (412), kCorruption (416), kExhausted (quota),
// kUnavailable (PF7001). `doing` is "get s3://bucket/key".
Status StatusOf(const S3Reply& reply, std::string_view doing);

}  // namespace partforge
