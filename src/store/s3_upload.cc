#include "store/s3_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <exception>
#include <optional>
#include <thread>

#include "base/hash.h"
#include "base/random.h"
#include "store/http_date.h"
#include "store/md5.h"
#include "store/store_metrics.h"
#include "store/xml.h"

namespace partforge {
namespace {

constexpr int64_t kPartsMax = 10'000;    // Amazon S3, "multipart upload limits"
constexpr int64_t kPartsPerSize = 1000;  // unknown length: parts double after each thousand
constexpr int64_t kPartBytesMax = int64_t{5} << 30;
constexpr int64_t kMiB = 1 << 20;
constexpr int kVisibleTriesMax = 8;

std::string Crc32cText(std::span<const std::byte> bytes) {
  const uint32_t crc = Crc32c(bytes);
  std::array<std::byte, 4> big_endian{};
  for (size_t i = 0; i < 4; ++i) big_endian[i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  return Base64(big_endian);
}

// A buffer that is paid for.
struct PartBuffer {
  std::vector<std::byte> bytes;
  int64_t size_bytes_max = 0;
  MemoryGrant grant;
};

struct SentPart {
  int64_t number = 0;
  std::string etag, crc32c;
};

// A part on its way, in a thread of its own.
struct FlyingPart {
  SentPart part;
  PartBuffer buffer;
  Status status;  // valid once the thread has ended
  std::jthread thread;
};

class S3Sink final : public ByteSink {
 public:
  S3Sink(S3Client& client, std::string key, const S3UploadOptions& options,
         std::shared_ptr<AbandonedUploads> abandoned)
      : client_(client),
        key_(std::move(key)),
        options_(options),
        abandoned_(std::move(abandoned)) {}

  ~S3Sink() override {
    stop_.request_stop();
    flying_.clear();  // joins
    if (!upload_id_.empty()) abandoned_->Add({.key = key_, .id = upload_id_});
  }

  Status Append(const Context& ctx, std::span<const std::byte> bytes) override {
    if (has_ended_)
      return Status(Code::kInternal, "append to an object that was closed or failed: " + key_);
    Status status = AppendAll(ctx, bytes);
    if (!status.ok()) GiveUp(ctx);
    return status;
  }

  Result<ObjectInfo> Close(const Context& ctx) override {
    if (has_ended_)
      return Status(Code::kInternal, "close of an object that was closed or failed: " + key_);
    Result<ObjectInfo> info = upload_id_.empty() ? PutWhole(ctx) : CompleteAll(ctx);
    if (info.ok()) {
      has_ended_ = true;
    } else {
      GiveUp(ctx);
    }
    return info;
  }

 private:
  Status AppendAll(const Context& ctx, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const int64_t room = buffer_.size_bytes_max - static_cast<int64_t>(buffer_.bytes.size());
      if (room == 0) {
        PF_TRY(MakeRoom(ctx));
        continue;
      }
      const auto piece = bytes.first(std::min(bytes.size(), static_cast<size_t>(room)));
      buffer_.bytes.insert(buffer_.bytes.end(), piece.begin(), piece.end());
      size_bytes_ += static_cast<int64_t>(piece.size());
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }

  // The buffer is full, or there is none yet.
  Status MakeRoom(const Context& ctx) {
    const int64_t wanted = WantedBytes(ctx);
    if (buffer_.size_bytes_max == 0) {
      // The first buffer of an object known to be small is as small as the object.
      const bool is_small = options_.size_hint_bytes >= 0 && options_.size_hint_bytes < wanted;
      return TakeBuffer(ctx, is_small ? std::max<int64_t>(options_.size_hint_bytes, 1) : wanted);
    }
    // The object is larger than was said: the first part grows to what a part must be.
    if (buffer_.size_bytes_max < std::min(wanted, options_.part_bytes_min)) {
      PF_ASSIGN(MemoryGrant grant, ctx.memory.Reserve(wanted, ctx.stop));
      buffer_.grant = std::move(grant);
      buffer_.size_bytes_max = wanted;
      buffer_.bytes.reserve(static_cast<size_t>(wanted));
      return {};
    }
    if (upload_id_.empty()) PF_TRY(CreateUpload(ctx));
    PF_TRY(SendBuffer(ctx));
    return NextBuffer(ctx);
  }

  // Bytes of the next part, less where the budget is small.
  int64_t WantedBytes(const Context& ctx) const {
    const int64_t share = std::max(options_.part_bytes_min, ctx.memory.limit_bytes() / 4);
    return std::min(PartBytes(options_, next_number_), share);
  }

  Status TakeBuffer(const Context& ctx, int64_t size_bytes) {
    PF_ASSIGN(buffer_.grant, ctx.memory.Reserve(size_bytes, ctx.stop));
    buffer_.size_bytes_max = size_bytes;
    buffer_.bytes.reserve(static_cast<size_t>(size_bytes));
    return {};
  }

  // A new buffer while memory and the limit of parts allow, else the one of the oldest part once
  // that has arrived: so a sink that holds a buffer never waits for other people's memory.
  Status NextBuffer(const Context& ctx) {
    const int64_t wanted = WantedBytes(ctx);
    while (!flying_.empty()) {
      if (static_cast<int>(flying_.size()) < options_.parts_in_flight) {
        if (Result<MemoryGrant> grant = ctx.memory.TryReserve(wanted); grant.ok()) {
          buffer_ = {.bytes = {}, .size_bytes_max = wanted, .grant = std::move(grant).value()};
          buffer_.bytes.reserve(static_cast<size_t>(wanted));
          return {};
        }
      }
      PF_ASSIGN(PartBuffer used, CollectOldest(ctx));
      if (used.size_bytes_max >= wanted || flying_.empty()) {
        used.bytes.clear();
        buffer_ = std::move(used);
        return {};
      }
    }
    return TakeBuffer(ctx, wanted);
  }

  Status CreateUpload(const Context& ctx) {
    S3Call call{.op = "create_upload", .method = "POST", .key = key_, .query = {{"uploads", ""}}};
    token_ = RandomHex(ctx.random, 16);
    call.headers = {{"content-type", "application/octet-stream"},
                    {std::string(kWriteTokenHeader), token_}};
    if (client_.options().sends_crc32c)
      call.headers.emplace_back("x-amz-checksum-algorithm", "CRC32C");
    call.check = [](const S3Reply& reply) {
      return CheckDelayedAnswer(reply, "InitiateMultipartUploadResult");
    };
    PF_ASSIGN(const S3Reply reply, client_.SendForSuccess(ctx, call));
    PF_ASSIGN(const XmlElement root, ParseXml(reply.body));
    upload_id_ = root.ChildText("UploadId");
    if (upload_id_.empty()) {
      return Status(Code::kCorruption,
                    client_.Doing("create_upload", key_) + ": the answer has no id");
    }
    PF_FAULT(ctx, "store.upload_created");
    return {};
  }

  Status SendBuffer(const Context& ctx) {
    if (next_number_ > kPartsMax) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: more than {} parts", client_.Doing("part", key_), kPartsMax));
    }
    flying_.push_back(std::make_unique<FlyingPart>());
    FlyingPart& flying = *flying_.back();
    flying.part.number = next_number_++;
    flying.buffer = std::move(buffer_);
    buffer_ = PartBuffer();
    Context own = ctx;
    own.stop = stop_.get_token();
    flying.thread = std::jthread([this, own, &flying] {
      try {
        flying.status = SendPart(own, flying);
      } catch (const std::exception& e) {
        flying.status =
            Status(Code::kExhausted, fmt::format("send a part of {}: {}", key_, e.what()));
      }
    });
    return {};
  }

  // Runs in the part's thread.
  Status SendPart(const Context& ctx, FlyingPart& flying) {
    S3Call call = BodyCall(client_, "part", "PUT", key_, flying.buffer.bytes);
    call.query = {{"partNumber", std::to_string(flying.part.number)}, {"uploadId", upload_id_}};
    for (const auto& [name, value] : call.headers) {
      if (name == "x-amz-checksum-crc32c") flying.part.crc32c = value;
    }
    PF_ASSIGN(const S3Reply reply, client_.SendForSuccess(ctx, call));
    flying.part.etag = reply.Header("etag");
    if (flying.part.etag.empty()) {
      return Status(Code::kCorruption, client_.Doing("part", key_) + ": the answer has no ETag");
    }
    return {};
  }

  // Waits for the oldest part and gives its buffer back.
  Result<PartBuffer> CollectOldest(const Context& ctx) {
    {
      const std::stop_callback pass_on(ctx.stop, [this] { stop_.request_stop(); });
      flying_.front()->thread.join();
    }
    const std::unique_ptr<FlyingPart> arrived = std::move(flying_.front());
    flying_.pop_front();
    PF_TRY(std::move(arrived->status));
    PF_FAULT(ctx, "store.part_written");
    CountObjectBytesWritten(ctx, static_cast<int64_t>(arrived->buffer.bytes.size()));
    sent_.push_back(std::move(arrived->part));
    return std::move(arrived->buffer);
  }

  Result<ObjectInfo> PutWhole(const Context& ctx) {
    const S3Call call = BodyCall(client_, "put", "PUT", key_, buffer_.bytes);
    PF_ASSIGN(const S3Reply reply, client_.SendForSuccess(ctx, call));
    PF_FAULT(ctx, "store.put_done");
    CountObjectBytesWritten(ctx, size_bytes_);
    return Info(ctx, reply, reply.Header("etag"));
  }

  Result<ObjectInfo> CompleteAll(const Context& ctx) {
    if (!buffer_.bytes.empty()) PF_TRY(SendBuffer(ctx));
    while (!flying_.empty()) PF_TRY(CollectOldest(ctx));
    std::string body = "<CompleteMultipartUpload>";
    for (const SentPart& part : sent_) {
      body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", part.number,
                          EscapeXml(part.etag));
      if (!part.crc32c.empty())
        body += fmt::format("<ChecksumCRC32C>{}</ChecksumCRC32C>", part.crc32c);
      body += "</Part>";
    }
    body += "</CompleteMultipartUpload>";
    S3Call call{
        .op = "complete", .method = "POST", .key = key_, .query = {{"uploadId", upload_id_}}};
    call.headers = {{"content-type", "application/xml"}};
    call.body = AsBytes(body);
    call.is_repeatable = false;
    call.check = [](const S3Reply& reply) {
      return CheckDelayedAnswer(reply, "CompleteMultipartUploadResult");
    };
    const Result<S3Reply> reply = client_.Send(ctx, call);
    if (!reply.ok()) {
      // The upload may be complete: it must not be aborted unseen.
      if (reply.status().code() != Code::kUnknownOutcome) return reply.status();
      Result<ObjectInfo> found = FindCompleted(ctx);
      if (!found.ok()) upload_id_.clear();
      return found.ok() ? std::move(found) : Result<ObjectInfo>(reply.status());
    }
    if (!reply->is_ok()) {
      Status refusal = StatusOf(*reply, client_.Doing("complete", key_));
      if (reply->error.code != "NoSuchUpload" || !reply->had_lost_reply) {
        // Somebody aborted it: writing it again may succeed.
        return reply->error.code == "NoSuchUpload" ? std::move(refusal).As(Code::kUnavailable)
                                                   : std::move(refusal);
      }
      upload_id_.clear();  // gone, by us or by somebody else
      const Result<ObjectInfo> found = FindCompleted(ctx);
      return found.ok() ? found : Result<ObjectInfo>(std::move(refusal).As(Code::kUnknownOutcome));
    }
    upload_id_.clear();
    PF_FAULT(ctx, "store.upload_completed");
    PF_ASSIGN(const XmlElement root, ParseXml(reply->body));
    return Info(ctx, *reply, std::string(root.ChildText("ETag")));
  }

  // The object, when it carries this write's token. It may take a moment to be seen.
  Result<ObjectInfo> FindCompleted(const Context& ctx) {
    for (int tries = 1; tries <= kVisibleTriesMax; ++tries) {
      PF_ASSIGN(const S3Reply reply,
                client_.Send(ctx, {.op = "head", .method = "HEAD", .key = key_}));
      if (reply.is_ok() && reply.Header(kWriteTokenHeader) == token_) {
        upload_id_.clear();
        return InfoFromHead(reply, key_);
      }
      if (!reply.is_ok() && reply.status != 404)
        return StatusOf(reply, client_.Doing("head", key_));
      client_.Backoff(ctx, tries);
      PF_TRY(ctx.CheckStop("waiting for an object to be seen"));
    }
    return Status(Code::kNotFound, "the completed object is not seen: " + key_);
  }

  ObjectInfo Info(const Context& ctx, const S3Reply& reply, std::string etag) const {
    return ObjectInfo{
        .key = key_,
        .size_bytes = size_bytes_,
        .modified_ms = ParseHttpDate(reply.Header("date")).value_or(client_.ServerNowMs(ctx)),
        .etag = std::move(etag)};
  }

  // After a failure nothing of the object stays; when even that fails, what is left is swept by
  // age.
  void GiveUp(const Context& ctx) {
    has_ended_ = true;
    stop_.request_stop();
    flying_.clear();
    buffer_ = PartBuffer();
    if (upload_id_.empty() || ctx.IsStopping()) return;  // the destructor hands it on
    const Status status = AbortUpload(ctx, client_, key_, upload_id_);
    if (status.ok()) upload_id_.clear();
    Ignore(ctx, status, "an open multipart upload is swept by age");
  }

  S3Client& client_;
  const std::string key_;
  const S3UploadOptions options_;
  const std::shared_ptr<AbandonedUploads> abandoned_;
  std::stop_source stop_;  // of the parts in flight
  PartBuffer buffer_;
  std::deque<std::unique_ptr<FlyingPart>> flying_;  // oldest first
  std::vector<SentPart> sent_;                      // by number
  std::string upload_id_, token_;
  int64_t next_number_ = 1;
  int64_t size_bytes_ = 0;
  bool has_ended_ = false;
};

}  // namespace

S3Call BodyCall(const S3Client& client, std::string_view op, std::string method,
                std::string_view key, std::span<const std::byte> body) {
  S3Call call{.op = op, .method = std::move(method), .key = std::string(key)};
  call.headers = {{"content-type", "application/octet-stream"}};
  if (client.options().sends_crc32c)
    call.headers.emplace_back("x-amz-checksum-crc32c", Crc32cText(body));
  call.body = body;
  return call;
}

Status CheckDelayedAnswer(const S3Reply& reply, std::string_view root_wanted) {
  const Result<XmlElement> root = ParseXml(reply.body);
  if (!root.ok()) {
    return Status(Code::kUnavailable,
                  fmt::format("the answer is cut short: {}", root.status().message()));
  }
  if (root->name == "Error") {
    return Status(
        Code::kUnavailable,
        fmt::format("{}, {} (HTTP {}, request {})", root->ChildText("Code"),
                    root->ChildText("Message"), reply.status, root->ChildText("RequestId")));
  }
  if (root->name != root_wanted) {
    return Status(Code::kUnavailable,
                  fmt::format("the answer is not {} but {}", root_wanted, root->name));
  }
  return {};
}

Result<ObjectInfo> InfoFromHead(const S3Reply& reply, std::string_view key) {
  ObjectInfo info{
      .key = std::string(key), .size_bytes = -1, .modified_ms = 0, .etag = reply.Header("etag")};
  const std::string length = reply.Header("content-length");
  const auto [end, error] =
      std::from_chars(length.data(), length.data() + length.size(), info.size_bytes);
  if (error != std::errc() || end != length.data() + length.size() || info.size_bytes < 0) {
    return Status(Code::kCorruption,
                  fmt::format("head {}: the answer has no length: '{}'", key, length));
  }
  info.modified_ms = ParseHttpDate(reply.Header("last-modified")).value_or(0);
  return info;
}

void AbandonedUploads::Add(Upload upload) {
  const std::lock_guard lock(mutex_);
  uploads_.push_back(std::move(upload));
}

std::vector<AbandonedUploads::Upload> AbandonedUploads::TakeAll() {
  const std::lock_guard lock(mutex_);
  return std::exchange(uploads_, {});
}

Status AbortUpload(const Context& ctx, S3Client& client, std::string_view key,
                   std::string_view upload_id) {
  const S3Call call{.op = "abort_upload",
                    .method = "DELETE",
                    .key = std::string(key),
                    .query = {{"uploadId", std::string(upload_id)}},
                    .tries_max = 2};
  PF_ASSIGN(const S3Reply reply, client.Send(ctx, call));
  if (reply.is_ok() || reply.error.code == "NoSuchUpload") return {};
  return StatusOf(reply, client.Doing("abort_upload", key));
}

std::unique_ptr<ByteSink> MakeS3Sink(S3Client& client, std::string key,
                                     const S3UploadOptions& options,
                                     std::shared_ptr<AbandonedUploads> abandoned) {
  return std::make_unique<S3Sink>(client, std::move(key), options, std::move(abandoned));
}

int64_t PartBytes(const S3UploadOptions& options, int64_t number) {
  if (options.size_hint_bytes >= 0) {
    // A tenth of the numbers stays free for an object that turns out larger.
    const int64_t needed = options.size_hint_bytes / (kPartsMax * 9 / 10) + 1;
    if (needed <= options.part_bytes) return options.part_bytes;
    return std::min((needed + kMiB - 1) / kMiB * kMiB, kPartBytesMax);
  }
  const int64_t doublings = std::min<int64_t>((number - 1) / kPartsPerSize, 20);
  return std::min(options.part_bytes << doublings, kPartBytesMax);
}

}  // namespace partforge
