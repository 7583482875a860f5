#include "store/s3_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/parallel_for.h"
#include "base/random.h"
#include "store/md5.h"
#include "store/s3_listing.h"
#include "store/store_metrics.h"
#include "store/xml.h"

namespace partforge {
namespace {

constexpr int kPutRoundsMax = 4;         // of finding the object gone after "it is there already"
constexpr size_t kDeleteKeysMax = 1000;  // of one DeleteObjects
constexpr int kDeleteRoundsMax = 6;
constexpr int kUploadPagesMax = 10'000;
constexpr std::string_view kKeysPerPage = "1000";

bool IsTransientDelete(std::string_view code) {
  return code == "InternalError" || code == "SlowDown" || code == "ServiceUnavailable" ||
         code == "OperationAborted" || code == "RequestTimeout";
}

std::string ProbeKey(const Context& ctx) {
  return std::string(kReservedPrefix) + "probe-" + RandomHex(ctx.random, 16);
}

// "bytes 0-99/1234"
std::string ContentRange(int64_t offset, size_t size, int64_t total) {
  return fmt::format("bytes {}-{}/{}", offset, offset + static_cast<int64_t>(size) - 1, total);
}

}  // namespace

class S3Store::Source final : public ByteSource {
 public:
  Source(S3Client& client, ObjectInfo info, int64_t range_bytes, int threads)
      : client_(client), info_(std::move(info)), range_bytes_(range_bytes), threads_(threads) {}

  int64_t size_bytes() const override { return info_.size_bytes; }

  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
    if (offset < 0 || offset > info_.size_bytes ||
        static_cast<int64_t>(out.size()) > info_.size_bytes - offset) {
      return Status(Code::kCorruption,
                    fmt::format("read {} bytes at {} of an object of {} bytes: {}", out.size(),
                                offset, info_.size_bytes, info_.key));
    }
    const auto size = static_cast<int64_t>(out.size());
    const int64_t ranges = (size + range_bytes_ - 1) / range_bytes_;
    if (ranges <= 1) return size == 0 ? Status() : ReadRange(ctx, offset, out);
    return ParallelFor(ctx, ranges, threads_, [&](const Context& own, int64_t index) {
      const int64_t from = index * range_bytes_;
      const int64_t length = std::min(range_bytes_, size - from);
      return ReadRange(own, offset + from,
                       out.subspan(static_cast<size_t>(from), static_cast<size_t>(length)));
    });
  }

 private:
  Status ReadRange(const Context& ctx, int64_t offset, std::span<std::byte> out) {
    S3Call call{.op = "get", .method = "GET", .key = info_.key};
    call.headers = {{"range", fmt::format("bytes={}-{}", offset,
                                          offset + static_cast<int64_t>(out.size()) - 1)}};
    // All ranges come from one version of the object.
    if (!info_.etag.empty()) call.headers.emplace_back("if-match", info_.etag);
    call.out = out;
    const std::string wanted = ContentRange(offset, out.size(), info_.size_bytes);
    const bool is_whole = offset == 0 && static_cast<int64_t>(out.size()) == info_.size_bytes;
    call.check = [&](const S3Reply& reply) -> Status {
      const std::string range = reply.Header("content-range");
      if (range == wanted || (range.empty() && reply.status == 200 && is_whole)) return {};
      return Status(Code::kCorruption,
                    fmt::format("asked for {}, got {} (HTTP {})", wanted,
                                range.empty() ? "no range" : range, reply.status));
    };
    PF_ASSIGN(const S3Reply reply, client_.Send(ctx, call));
    if (reply.status == 412) {
      return Status(Code::kConflict,
                    client_.Doing("the object changed while it was read:", info_.key))
          .Explain(7006, info_.key,
                   "somebody overwrote an object that is written once; run the command again");
    }
    if (!reply.is_ok()) return StatusOf(reply, client_.Doing("get", info_.key));
    return {};
  }

  S3Client& client_;
  const ObjectInfo info_;
  const int64_t range_bytes_;
  const int threads_;
};

S3Store::S3Store(S3StoreOptions options)
    : options_(std::move(options)),
      client_(options_.client),
      abandoned_(std::make_shared<AbandonedUploads>()) {}

Result<std::unique_ptr<ByteSource>> S3Store::Open(const Context& ctx, std::string_view key) {
  PF_ASSIGN(ObjectInfo info, Stat(ctx, key));
  return std::unique_ptr<ByteSource>(std::make_unique<Source>(
      client_, std::move(info), options_.part_bytes, options_.concurrency));
}

Result<std::unique_ptr<ByteSink>> S3Store::Create(const Context& ctx, std::string_view key,
                                                  int64_t size_hint_bytes) {
  PF_TRY(CheckObjectKey(key));
  PF_TRY(ctx.CheckStop("creating an object"));
  AbortAbandoned(ctx);
  return MakeS3Sink(client_, std::string(key),
                    {.part_bytes = options_.part_bytes,
                     .part_bytes_min = options_.part_bytes_min,
                     .parts_in_flight = options_.concurrency,
                     .size_hint_bytes = size_hint_bytes},
                    abandoned_);
}

Result<PutOutcome> S3Store::PutIfAbsent(const Context& ctx, std::string_view key,
                                        std::span<const std::byte> bytes) {
  PF_TRY(CheckObjectKey(key));
  PF_TRY(ProbeConditionalPut(ctx));
  const std::string token = RandomHex(ctx.random, 16);
  for (int round = 0; round < kPutRoundsMax; ++round) {
    const Result<S3Reply> reply = PutConditionally(ctx, key, bytes, token);
    if (reply.ok() && reply->is_ok()) {
      PF_FAULT(ctx, "store.put_if_absent_done");
      CountObjectBytesWritten(ctx, static_cast<int64_t>(bytes.size()));
      return PutOutcome::kCreated;
    }
    const bool is_there = reply.ok() && reply->status == 412;
    const bool is_in_doubt = !reply.ok() && reply.status().code() == Code::kUnknownOutcome;
    if (reply.ok() && !is_there) return StatusOf(*reply, client_.Doing("put_if_absent", key));
    if (!reply.ok() && !is_in_doubt) return reply.status();
    // Ours may be the one that is there, when its reply was lost: the object itself says who made
    // it.
    const Result<Maker> maker = WhoMade(ctx, key, token);
    if (!maker.ok()) return Status(maker.status()).As(Code::kUnknownOutcome);
    if (*maker == Maker::kUs) return PutOutcome::kCreated;
    if (*maker == Maker::kSomebodyElse) return PutOutcome::kAlreadyThere;
    // Not seen, and a request may still be under way: it cannot be told yet.
    if (is_in_doubt) return reply.status();
    client_.Backoff(ctx, round + 1);  // deleted since, or not seen yet
  }
  return Status(Code::kUnknownOutcome,
                client_.Doing("the store says that the object exists, but does not show it:", key));
}

Result<S3Reply> S3Store::PutConditionally(const Context& ctx, std::string_view key,
                                          std::span<const std::byte> bytes,
                                          std::string_view token) {
  S3Call call = BodyCall(client_, "put_if_absent", "PUT", key, bytes);
  call.headers.emplace_back("if-none-match", "*");
  call.headers.emplace_back(std::string(kWriteTokenHeader), std::string(token));
  call.is_repeatable = false;
  return client_.Send(ctx, call);
}

Result<S3Store::Maker> S3Store::WhoMade(const Context& ctx, std::string_view key,
                                        std::string_view token) {
  PF_ASSIGN(const S3Reply reply,
            client_.Send(ctx, {.op = "head", .method = "HEAD", .key = std::string(key)}));
  if (reply.status == 404) return Maker::kNobody;
  if (!reply.is_ok()) return StatusOf(reply, client_.Doing("head", key));
  return reply.Header(kWriteTokenHeader) == token ? Maker::kUs : Maker::kSomebodyElse;
}

// A store that does not know If-None-Match overwrites and answers 200. Found out on a key of our
// own, before the first object that matters.
Status S3Store::ProbeConditionalPut(const Context& ctx) {
  {
    const std::lock_guard lock(mutex_);
    if (has_probed_ || !options_.probes_conditional_put) return {};
  }
  const std::string key = ProbeKey(ctx);
  // Nothing of the caller's has been tried yet, so a lost reply is just no answer.
  const auto put = [&]() -> Result<S3Reply> {
    Result<S3Reply> reply = PutConditionally(ctx, key, {}, "probe");
    if (reply.ok() || reply.status().code() != Code::kUnknownOutcome) return reply;
    return std::move(reply).status().As(Code::kUnavailable);
  };
  PF_ASSIGN(const S3Reply first, put());
  if (first.status == 403) {
    // Keys that may write only below a prefix cannot probe; then the user vouches for the store.
    ctx.log.Warn("cannot check whether the store honours If-None-Match", {{"store", url()}});
  } else {
    if (!first.is_ok() && first.status != 412) {
      return StatusOf(first, client_.Doing("put_if_absent", key));
    }
    PF_ASSIGN(const S3Reply second, put());
    Ignore(ctx, DeleteOne(ctx, key), "a probe is swept by age");
    if (second.is_ok()) {
      return Status(Code::kRefused,
                    "the object store ignores If-None-Match: two writers would both win")
          .Explain(
              7011, url(),
              "use a store with conditional writes (Amazon S3, MinIO, Ceph Reef, GCS, R2 …), or a "
              "catalog that decides the commit");
    }
    if (second.status != 412) return StatusOf(second, client_.Doing("put_if_absent", key));
  }
  const std::lock_guard lock(mutex_);
  has_probed_ = true;
  return {};
}

Result<ObjectInfo> S3Store::Stat(const Context& ctx, std::string_view key) {
  PF_TRY(CheckObjectKey(key));
  return Head(ctx, key);
}

Result<ObjectInfo> S3Store::Head(const Context& ctx, std::string_view key) {
  PF_ASSIGN(const S3Reply reply,
            client_.SendForSuccess(ctx, {.op = "head", .method = "HEAD", .key = std::string(key)}));
  return InfoFromHead(reply, key);
}

Result<ListPage> S3Store::List(const Context& ctx, std::string_view prefix,
                               std::optional<std::string> after) {
  PF_TRY(CheckKeyPrefix(prefix));
  S3Call call{.op = "list", .method = "GET"};
  call.query = {
      {"list-type", "2"}, {"encoding-type", "url"}, {"max-keys", std::string(kKeysPerPage)}};
  if (!prefix.empty()) call.query.emplace_back("prefix", std::string(prefix));
  if (after.has_value() && !after->empty()) call.query.emplace_back("start-after", *after);
  // Looked at inside the retries: a page cut short by a proxy is asked for again.
  call.check = [](const S3Reply& reply) { return CheckDelayedAnswer(reply, "ListBucketResult"); };
  PF_ASSIGN(const S3Reply reply, client_.SendForSuccess(ctx, call));
  Result<ListPage> page = ParseListing(reply.body, prefix, after.value_or(""));
  if (!page.ok()) return std::move(page).status().With(client_.Doing("list", prefix));
  return page;
}

Status S3Store::Link(const Context& ctx, std::string_view from, std::string_view to) {
  PF_TRY(CheckObjectKey(to));
  PF_ASSIGN(const ObjectInfo info, Stat(ctx, from));
  if (from == to) return {};
  return info.size_bytes <= options_.copy_bytes_max ? CopyWhole(ctx, info, to)
                                                    : CopyInParts(ctx, info, to);
}

HttpHeaders S3Store::CopySource(const ObjectInfo& from) const {
  HttpHeaders headers = {
      {"x-amz-copy-source", EncodePath(options_.client.bucket + "/" + from.key)}};
  if (!from.etag.empty()) headers.emplace_back("x-amz-copy-source-if-match", from.etag);
  return headers;
}

Status S3Store::CopyWhole(const Context& ctx, const ObjectInfo& from, std::string_view to) {
  S3Call call{.op = "copy", .method = "PUT", .key = std::string(to), .headers = CopySource(from)};
  call.check = [](const S3Reply& reply) { return CheckDelayedAnswer(reply, "CopyObjectResult"); };
  PF_TRY(client_.SendForSuccess(ctx, call));
  PF_FAULT(ctx, "store.object_copied");
  return {};
}

Status S3Store::CopyInParts(const Context& ctx, const ObjectInfo& from, std::string_view to) {
  const std::string key(to);
  S3Call create{.op = "create_upload", .method = "POST", .key = key, .query = {{"uploads", ""}}};
  create.headers = {{"content-type", "application/octet-stream"}};
  create.check = [](const S3Reply& reply) {
    return CheckDelayedAnswer(reply, "InitiateMultipartUploadResult");
  };
  PF_ASSIGN(const S3Reply created, client_.SendForSuccess(ctx, create));
  PF_ASSIGN(const XmlElement created_root, ParseXml(created.body));
  const std::string upload_id(created_root.ChildText("UploadId"));

  const int64_t parts = (from.size_bytes + options_.copy_part_bytes - 1) / options_.copy_part_bytes;
  std::vector<std::string> etags(static_cast<size_t>(parts));
  const auto copy_part = [&](const Context& own, int64_t index) -> Status {
    const int64_t first = index * options_.copy_part_bytes;
    const int64_t last = std::min(first + options_.copy_part_bytes, from.size_bytes) - 1;
    S3Call call{.op = "copy_part", .method = "PUT", .key = key, .headers = CopySource(from)};
    call.query = {{"partNumber", std::to_string(index + 1)}, {"uploadId", upload_id}};
    call.headers.emplace_back("x-amz-copy-source-range", fmt::format("bytes={}-{}", first, last));
    call.check = [](const S3Reply& reply) { return CheckDelayedAnswer(reply, "CopyPartResult"); };
    PF_ASSIGN(const S3Reply reply, client_.SendForSuccess(own, call));
    PF_ASSIGN(const XmlElement root, ParseXml(reply.body));
    etags[static_cast<size_t>(index)] = root.ChildText("ETag");
    return {};
  };
  const auto copy_all = [&]() -> Status {
    PF_TRY(ParallelFor(ctx, parts, options_.concurrency, copy_part));
    std::string body = "<CompleteMultipartUpload>";
    for (int64_t i = 0; i < parts; ++i) {
      body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                          EscapeXml(etags[static_cast<size_t>(i)]));
    }
    body += "</CompleteMultipartUpload>";
    S3Call complete{
        .op = "complete", .method = "POST", .key = key, .query = {{"uploadId", upload_id}}};
    complete.headers = {{"content-type", "application/xml"}};
    complete.body = AsBytes(body);
    complete.check = [](const S3Reply& reply) {
      return CheckDelayedAnswer(reply, "CompleteMultipartUploadResult");
    };
    PF_ASSIGN(const S3Reply reply, client_.Send(ctx, complete));
    if (reply.is_ok()) return {};
    // After a lost reply the upload is gone because it is complete.
    if (reply.error.code == "NoSuchUpload" && reply.had_lost_reply) {
      const Result<ObjectInfo> copy = Head(ctx, key);
      if (copy.ok() && copy->size_bytes == from.size_bytes) return {};
    }
    return StatusOf(reply, client_.Doing("complete", key));
  };
  Status status = copy_all();
  if (!status.ok()) {
    abandoned_->Add({.key = key, .id = upload_id});
    return status;
  }
  PF_FAULT(ctx, "store.object_copied_in_parts");
  return {};
}

Status S3Store::Delete(const Context& ctx, std::span<const std::string> keys) {
  Status first;
  const auto note = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  std::vector<std::string> batch;
  const auto flush = [&] {
    if (!batch.empty()) note(DeleteBatch(ctx, std::exchange(batch, {})));
  };
  for (const std::string& key : keys) {
    if (Status status = CheckObjectKey(key); !status.ok()) {
      note(std::move(status));
      continue;
    }
    batch.push_back(key);
    if (batch.size() == kDeleteKeysMax) flush();
    if (!first.ok() && first.code() == Code::kCancelled) return first;
  }
  flush();
  return first;
}

Status S3Store::DeleteBatch(const Context& ctx, std::vector<std::string> keys) {
  Status first;
  for (int round = 1; !keys.empty(); ++round) {
    if (keys.size() == 1) {
      const Status status = DeleteOne(ctx, keys.front());
      return first.ok() ? status : first;
    }
    std::string body = "<Delete><Quiet>true</Quiet>";
    for (const std::string& key : keys)
      body += "<Object><Key>" + EscapeXml(key) + "</Key></Object>";
    body += "</Delete>";
    S3Call call{.op = "delete", .method = "POST", .query = {{"delete", ""}}};
    call.headers = {{"content-type", "application/xml"},
                    {"content-md5", Base64(AsBytes(Md5Of(AsBytes(body))))}};
    call.body = AsBytes(body);
    call.check = [](const S3Reply& reply) { return CheckDelayedAnswer(reply, "DeleteResult"); };
    PF_ASSIGN(const S3Reply reply, client_.Send(ctx, call));
    if (reply.status == 405 || reply.status == 501) {
      for (const std::string& key : keys) {  // a store without DeleteObjects
        const Status status = DeleteOne(ctx, key);
        if (first.ok()) first = status;
        if (!status.ok() && status.code() == Code::kCancelled) break;
      }
      return first;
    }
    if (!reply.is_ok()) return StatusOf(reply, client_.Doing("delete", keys.front()));
    PF_FAULT(ctx, "store.objects_deleted");
    PF_ASSIGN(const std::vector<DeleteFailure> failures, ParseDeleteResult(reply.body));
    const std::set<std::string> asked(keys.begin(), keys.end());
    keys.clear();
    for (const DeleteFailure& failure : failures) {
      if (failure.code == "NoSuchKey") continue;
      if (IsTransientDelete(failure.code) && round < kDeleteRoundsMax &&
          asked.contains(failure.key)) {
        keys.push_back(failure.key);
        continue;
      }
      S3Reply told;
      told.status = failure.code == "AccessDenied"    ? 403
                    : IsTransientDelete(failure.code) ? 503
                                                      : 400;
      told.error = {.code = failure.code,
                    .message = failure.message,
                    .request_id = reply.Header("x-amz-request-id"),
                    .region = {}};
      if (first.ok()) first = StatusOf(told, client_.Doing("delete", failure.key));
    }
    if (!keys.empty()) {
      client_.Backoff(ctx, round);
      PF_TRY(ctx.CheckStop("deleting objects"));
    }
  }
  return first;
}

Status S3Store::DeleteOne(const Context& ctx, const std::string& key) {
  PF_ASSIGN(const S3Reply reply,
            client_.Send(ctx, {.op = "delete", .method = "DELETE", .key = key}));
  if (!reply.is_ok() && reply.error.code != "NoSuchKey" && reply.error.code != "NotFound") {
    return StatusOf(reply, client_.Doing("delete", key));
  }
  PF_FAULT(ctx, "store.one_object_deleted");
  return {};
}

Result<int64_t> S3Store::SweepLeftovers(const Context& ctx, std::string_view prefix,
                                        int64_t age_ms_min) {
  PF_TRY(CheckKeyPrefix(prefix));
  AbortAbandoned(ctx);
  const int64_t newest_ms = client_.ServerNowMs(ctx) - age_ms_min;
  int64_t removed = 0;
  UploadPage page;
  for (int pages = 0; pages < kUploadPagesMax; ++pages) {
    PF_TRY(ctx.CheckStop("sweeping open uploads"));
    S3Call call{.op = "list_uploads", .method = "GET"};
    call.query = {{"uploads", ""}, {"encoding-type", "url"}};
    if (!prefix.empty()) call.query.emplace_back("prefix", std::string(prefix));
    if (!page.next_key.empty()) {
      call.query.emplace_back("key-marker", page.next_key);
      call.query.emplace_back("upload-id-marker", page.next_id);
    }
    call.check = [](const S3Reply& reply) {
      return CheckDelayedAnswer(reply, "ListMultipartUploadsResult");
    };
    PF_ASSIGN(const S3Reply reply, client_.SendForSuccess(ctx, call));
    PF_ASSIGN(page, ParseUploadListing(reply.body));
    for (const OpenUpload& upload : page.uploads) {
      if (!upload.key.starts_with(prefix) || upload.initiated_ms > newest_ms) continue;
      PF_TRY(AbortUpload(ctx, client_, upload.key, upload.id));
      PF_FAULT(ctx, "store.stale_upload_aborted");
      ++removed;
    }
    if (page.next_key.empty()) break;
  }
  return removed;
}

void S3Store::AbortAbandoned(const Context& ctx) {
  for (const AbandonedUploads::Upload& upload : abandoned_->TakeAll()) {
    Ignore(ctx, AbortUpload(ctx, client_, upload.key, upload.id), "an open upload is swept by age");
  }
}

}  // namespace partforge
