#include "store/s3_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/xml.h"

namespace partforge {
namespace {

constexpr XmlLimits kErrorLimits{.size_bytes_max = 256 << 10, .depth_max = 8, .elements_max = 1000};

constexpr std::array<std::string_view, 10> kTransientCodes = {
    "SlowDown",         "InternalError",       "ServiceUnavailable", "RequestTimeout",
    "Throttling",       "ThrottlingException", "TooManyRequests",    "ConditionalRequestConflict",
    "OperationAborted", "RequestLimitExceeded"};
constexpr std::array<std::string_view, 4> kExpiredCodes = {"ExpiredToken", "ExpiredTokenException",
                                                           "TokenRefreshRequired", "InvalidToken"};
constexpr std::array<std::string_view, 9> kAccessCodes = {
    "AccessDenied",          "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId",
    "SignatureDoesNotMatch", "InvalidSecurity",   "NotSignedUp",    "Forbidden",
    "UnauthorizedAccess"};
constexpr std::array<std::string_view, 3> kFullCodes = {"QuotaExceeded", "XMinioStorageFull",
                                                        "InsufficientCapacity"};

template <size_t kCount>
bool Holds(const std::array<std::string_view, kCount>& codes, std::string_view code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

std::string CodeOfStatus(int status) {
  switch (status) {
    case 301:
      return "PermanentRedirect";
    case 307:
      return "TemporaryRedirect";
    case 401:
      return "UnauthorizedAccess";
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 408:
      return "RequestTimeout";
    case 412:
      return "PreconditionFailed";
    case 416:
      return "InvalidRange";
    case 429:
      return "TooManyRequests";
    case 500:
      return "InternalError";
    case 503:
      return "ServiceUnavailable";
    default:
      return fmt::format("Http{}", status);
  }
}

}  // namespace

std::string S3Reply::Header(std::string_view name) const {
  const auto it = headers.find(std::string(name));
  return it == headers.end() ? std::string() : it->second;
}

S3Error ReadS3Error(const S3Reply& reply) {
  S3Error error;
  if (const Result<XmlElement> parsed = ParseXml(reply.body, kErrorLimits);
      parsed.ok() && (parsed->name == "Error" || parsed->name == "ErrorResponse")) {
    const XmlElement* inner = parsed->Child("Error");
    const XmlElement& root = inner == nullptr ? *parsed : *inner;
    error.code = root.ChildText("Code");
    error.message = root.ChildText("Message");
    error.request_id = root.ChildText("RequestId");
    error.region = root.ChildText("Region");
  }
  if (error.code.empty()) error.code = CodeOfStatus(reply.status);
  if (error.request_id.empty()) error.request_id = reply.Header("x-amz-request-id");
  if (error.region.empty()) error.region = reply.Header("x-amz-bucket-region");
  return error;
}

bool IsTransient(const S3Reply& reply) {
  if (reply.status == 408 || reply.status == 429) return true;
  if (reply.status >= 500) return reply.status != 501 && reply.status != 507;
  return Holds(kTransientCodes, reply.error.code);
}

bool IsExpiredCredentials(const S3Error& error) {
  return Holds(kExpiredCodes, error.code);
}

Status StatusOf(const S3Reply& reply, std::string_view doing) {
  const S3Error& error = reply.error;
  const std::string text = fmt::format(
      "{}: {}{}{} (HTTP {}{}{})", doing, error.code, error.message.empty() ? "" : ", ",
      error.message, reply.status, error.request_id.empty() ? "" : ", request ", error.request_id);
  const std::string where(doing);
  const auto is = [&error](std::string_view code) { return error.code == code; };
  if (is("NoSuchBucket")) {
    return Status(Code::kInvalidArgument, text)
        .Explain(7004, where,
                 "check --bucket and --s3-endpoint; partforge does not create buckets");
  }
  if (is("PermanentRedirect") || is("TemporaryRedirect") || is("AuthorizationHeaderMalformed") ||
      is("IllegalLocationConstraintException")) {
    return Status(Code::kInvalidArgument, text)
        .Explain(7012, where,
                 error.region.empty() ? "give the bucket's region with --s3-region"
                                      : fmt::format("--s3-region={}", error.region));
  }
  if (IsExpiredCredentials(error) || Holds(kAccessCodes, error.code) ||
      is("RequestTimeTooSkewed")) {
    return Status(Code::kRefused, text)
        .Explain(7003, where,
                 is("RequestTimeTooSkewed")
                     ? "set the clock of this machine"
                     : "check the credentials and their rights; without the right to list, S3 "
                       "answers 403 also for an object that does not exist");
  }
  if (is("InvalidObjectState")) {
    return Status(Code::kRefused, text)
        .Explain(7013, where, "restore the object from its archive storage class first");
  }
  if (Holds(kFullCodes, error.code) || reply.status == 507) return Status(Code::kExhausted, text);
  if (reply.status == 404) {
    return Status(Code::kNotFound, text)
        .Explain(2126, where, "check --bucket, --prefix and --s3-endpoint, and lifecycle rules");
  }
  if (reply.status == 412) return Status(Code::kConflict, text);
  if (reply.status == 416) return Status(Code::kCorruption, text);
  if (reply.status == 401 || reply.status == 403)
    return Status(Code::kRefused, text)
        .Explain(7003, where, "check the credentials and their rights");
  if (IsTransient(reply)) {
    return Status(Code::kUnavailable, text)
        .Explain(7001, where, "the store answers only errors; try again later");
  }
  return Status(Code::kInvalidArgument, text);
}

}  // namespace partforge
