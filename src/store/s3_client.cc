#include "store/s3_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "store/http_date.h"
#include "store/store_metrics.h"

namespace partforge {
namespace {

constexpr int64_t kReplyBytesMax = 64 << 20;
constexpr int64_t kErrorBytesMax = 256 << 10;
constexpr int64_t kSkewMs = int64_t{4} * 60 * 1000;  // S3 refuses above 15 minutes
constexpr int64_t kRetryAfterMsMax = 60'000;
constexpr size_t kRegionBytesMax = 32;

bool IsRegionName(std::string_view text) {
  return !text.empty() && text.size() <= kRegionBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

int64_t RetryAfterMs(const S3Reply& reply) {
  const std::string text = reply.Header("retry-after");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return 0;
  return std::min(seconds, kRetryAfterMsMax / 1000) * 1000;
}

// Fills `out` from the reply. kUnavailable when the body ends early, which a proxy may do without a
// sign.
Status FillFrom(const Context& ctx, HttpBody& body, std::span<std::byte> out) {
  size_t filled = 0;
  while (true) {
    PF_ASSIGN(const std::optional<std::string> piece, body.Next(ctx));
    if (!piece.has_value()) break;
    if (piece->size() > out.size() - filled) {
      return Status(Code::kCorruption,
                    fmt::format("the reply holds more than the {} bytes asked for", out.size()));
    }
    std::memcpy(out.data() + filled, piece->data(), piece->size());
    filled += piece->size();
  }
  if (filled == out.size()) return {};
  return Status(Code::kUnavailable,
                fmt::format("the reply ends after {} of {} bytes", filled, out.size()));
}

Result<std::string> ReadAll(const Context& ctx, HttpBody& body, int64_t size_bytes_max) {
  std::string text;
  while (true) {
    PF_ASSIGN(const std::optional<std::string> piece, body.Next(ctx));
    if (!piece.has_value()) return text;
    if (static_cast<int64_t>(text.size() + piece->size()) > size_bytes_max) {
      return Status(Code::kCorruption,
                    fmt::format("the reply is larger than {} bytes", size_bytes_max));
    }
    text += *piece;
  }
}

}  // namespace

// What one Send has been through.
struct S3Client::Attempts {
  bool may_have_happened = false;
  bool has_refreshed = false;
  bool has_moved = false;
  bool has_set_clock = false;
};

S3Client::S3Client(S3ClientOptions options)
    : options_(std::move(options)),
      credentials_(http_, options_.credentials),
      region_(options_.region) {}

Result<S3Reply> S3Client::Send(const Context& ctx, const S3Call& call) {
  const int tries_max = call.tries_max > 0 ? call.tries_max : options_.tries_max;
  Attempts attempts;
  Status last(Code::kUnavailable, "no try was made");
  int64_t wait_ms = 0;
  for (int tries = 0; tries < tries_max;) {
    if (tries > 0) Backoff(ctx, tries, wait_ms);
    wait_ms = 0;
    PF_TRY(ctx.CheckStop("talking to the object store"));
    ++tries;
    const Result<AwsCredentials> credentials = credentials_.Get(ctx);
    if (!credentials.ok()) {
      if (credentials.status().code() != Code::kUnavailable) return credentials.status();
      last = credentials.status();
      continue;
    }
    Result<S3Reply> reply = SendOnce(ctx, call, *credentials);
    if (!reply.ok()) {
      CountObjectRequest(ctx, call.op, reply.status());
      last = reply.status();
      if (last.code() == Code::kUnknownOutcome) attempts.may_have_happened = true;
      if (last.code() == Code::kUnknownOutcome || last.code() == Code::kUnavailable) continue;
      return last;
    }
    if (reply->is_ok() && call.check) {
      if (Status status = call.check(*reply); !status.ok()) {
        CountObjectRequest(ctx, call.op, status);
        attempts.may_have_happened = true;
        last = std::move(status);
        continue;
      }
    }
    reply->had_lost_reply = attempts.may_have_happened;
    const Status outcome = reply->is_ok() ? Status() : StatusOf(*reply, Doing(call.op, call.key));
    CountObjectRequest(ctx, call.op, outcome);
    if (reply->is_ok()) return reply;
    last = outcome;
    if (PutRight(ctx, *reply, *credentials, attempts)) {
      --tries;  // each kind of correction happens once, so this ends
      continue;
    }
    if (!IsTransient(*reply)) return reply;
    // A 5xx may come from a proxy after the store has done the work.
    if (reply->status >= 500) attempts.may_have_happened = true;
    wait_ms = RetryAfterMs(*reply);
  }
  const bool is_in_doubt = attempts.may_have_happened && !call.is_repeatable;
  return std::move(last)
      .As(is_in_doubt ? Code::kUnknownOutcome : Code::kUnavailable)
      .With(fmt::format("{}, {} tries", Doing(call.op, call.key), tries_max))
      .Explain(7001, url() + (options_.host.empty() ? "" : " at " + options_.host),
               "check --s3-endpoint and the network; nothing is lost, run the command again");
}

Result<S3Reply> S3Client::SendForSuccess(const Context& ctx, const S3Call& call) {
  PF_ASSIGN(S3Reply reply, Send(ctx, call));
  if (!reply.is_ok()) return StatusOf(reply, Doing(call.op, call.key));
  return reply;
}

Result<S3Reply> S3Client::SendOnce(const Context& ctx, const S3Call& call,
                                   const AwsCredentials& credentials) {
  const bool is_tls = options_.scheme == "https";
  SigV4Request sign;
  sign.method = call.method;
  const std::string bucket_path = options_.is_path_style ? "/" + options_.bucket : "";
  sign.path = EncodePath(bucket_path + (call.key.empty() ? "" : "/" + call.key));
  if (sign.path.empty()) sign.path = "/";
  sign.query = call.query;
  sign.headers = call.headers;
  sign.headers.emplace_back("host", Host());
  if (call.body.empty()) {
    sign.payload_hash = kEmptyPayloadHash;
  } else if (is_tls) {
    sign.payload_hash = kUnsignedPayload;
  } else {
    Sha256 hash;
    hash.Update(call.body);
    sign.payload_hash = hash.FinishHex();
  }
  sign.headers.emplace_back("x-amz-content-sha256", sign.payload_hash);

  HttpRequest request;
  request.method = call.method;
  request.url = options_.scheme + "://" + Host() + sign.path;
  if (!call.query.empty()) request.url += "?" + EncodeQuery(call.query);
  request.headers = SignedHeaders(
      sign, {.time_ms = ServerNowMs(ctx), .region = region(), .service = "s3"}, credentials);
  // The transport writes the same Host header by itself.
  std::erase_if(request.headers, [](const auto& header) { return header.first == "host"; });
  request.body = call.body;
  request.body_bytes_max = kReplyBytesMax;
  request.tls = options_.tls;

  S3Reply reply;
  if (call.out.empty()) {
    PF_ASSIGN(HttpReply got, http_.Send(ctx, request));
    reply.status = got.status;
    reply.headers = std::move(got.headers);
    reply.body = std::move(got.body);
  } else {
    PF_ASSIGN(const std::unique_ptr<HttpBody> body, http_.Open(ctx, request));
    reply.status = body->status();
    reply.headers = body->headers();
    if (reply.is_ok()) {
      // Before the body: a reply of another range must not be written anywhere.
      if (call.check) PF_TRY(call.check(reply));
      PF_TRY(FillFrom(ctx, *body, call.out));
      CountObjectBytesRead(ctx, static_cast<int64_t>(call.out.size()));
    } else {
      PF_ASSIGN(reply.body, ReadAll(ctx, *body, kErrorBytesMax));
    }
  }
  if (!reply.is_ok()) reply.error = ReadS3Error(reply);
  return reply;
}

bool S3Client::PutRight(const Context& ctx, const S3Reply& reply, const AwsCredentials& credentials,
                        Attempts& attempts) {
  const S3Error& error = reply.error;
  // The reply to a HEAD has no body that would name the reason: 400 and 403 may then be any of the
  // three.
  const bool is_mute = reply.body.empty() && (reply.status == 400 || reply.status == 403);
  if (const std::optional<int64_t> server_ms = ParseHttpDate(reply.Header("date"));
      server_ms.has_value() && !attempts.has_set_clock &&
      (is_mute || error.code == "RequestTimeTooSkewed" || error.code == "AccessDenied")) {
    const int64_t offset_ms = *server_ms - ctx.clock.NowMs();
    if (std::abs(offset_ms - clock_offset_ms_) > kSkewMs) {
      ctx.log.Warn("this machine's clock differs from the object store's",
                   {{"store", url()}, {"offset_ms", offset_ms}});
      clock_offset_ms_ = offset_ms;
      attempts.has_set_clock = true;
      return true;
    }
  }
  if (!attempts.has_moved && IsRegionName(error.region) && error.region != region()) {
    ctx.log.Info("the bucket lies in another region", {{"store", url()}, {"region", error.region}});
    const std::lock_guard lock(mutex_);
    region_ = error.region;
    attempts.has_moved = true;
    return true;
  }
  if (!attempts.has_refreshed &&
      (IsExpiredCredentials(error) || (is_mute && credentials.expires_ms != 0))) {
    attempts.has_refreshed = true;
    return credentials_.Reject(credentials);
  }
  return false;
}

void S3Client::Backoff(const Context& ctx, int tries, int64_t at_least_ms) const {
  const int doublings = std::min(tries - 1, 20);
  const int64_t ceiling_ms =
      std::min(options_.backoff_ms_max, options_.backoff_ms_first << doublings);
  // Half fixed, half chance: many workers do not come back together.
  const int64_t chance_ms =
      static_cast<int64_t>(RandomBelow(ctx.random, static_cast<uint64_t>(ceiling_ms / 2 + 1)));
  ctx.clock.SleepMs(std::max(ceiling_ms / 2 + chance_ms, at_least_ms), ctx.stop);
}

std::string S3Client::Doing(std::string_view verb, std::string_view key) const {
  return key.empty() ? fmt::format("{} {}", verb, url())
                     : fmt::format("{} {}/{}", verb, url(), key);
}

std::string S3Client::region() const {
  const std::lock_guard lock(mutex_);
  return region_;
}

std::string S3Client::Host() const {
  std::string host = options_.host;
  if (host.empty()) {
    const std::string now = region();
    host = fmt::format("s3.{}.amazonaws.com{}", now, now.starts_with("cn-") ? ".cn" : "");
  }
  return options_.is_path_style ? host : options_.bucket + "." + host;
}

}  // namespace partforge
