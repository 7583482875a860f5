#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/object_store.h"
#include "store/s3_client.h"

namespace partforge {

// Header of an object that says which write made it, so that a lost reply can be resolved by asking
// for it.
inline constexpr std::string_view kWriteTokenHeader = "x-amz-meta-partforge-write";

// A call that sends `body` to `key`: content type, and a CRC32C where TLS alone would protect the
// bytes.
S3Call BodyCall(const S3Client& client, std::string_view op, std::string method,
                std::string_view key, std::span<const std::byte> body);
// A check for S3Call: the answers to "complete" and "copy" come with status 200 before the work is
// done, and may then hold an error, or nothing when the connection was cut.
Status CheckDelayedAnswer(const S3Reply& reply, std::string_view root_wanted);
// The object's info from the reply to HEAD.
Result<ObjectInfo> InfoFromHead(const S3Reply& reply, std::string_view key);

// Multipart uploads that a dropped sink left open. Thread-safe.
class AbandonedUploads {
 public:
  struct Upload {
    std::string key, id;
  };
  // Touches memory only, so a destructor may call it.
  void Add(Upload upload);
  std::vector<Upload> TakeAll();

 private:
  std::mutex mutex_;
  std::vector<Upload> uploads_;  // guarded by mutex_
};

Status AbortUpload(const Context& ctx, S3Client& client, std::string_view key,
                   std::string_view upload_id);

struct S3UploadOptions {
  int64_t part_bytes = int64_t{16} << 20;
  int64_t part_bytes_min = int64_t{5} << 20;  // S3's rule for all but the last
  int parts_in_flight = 8;
  int64_t size_hint_bytes = -1;
};

// Streams one object: a single PUT up to one part, else a multipart upload with several parts on
// their way while the caller goes on. Each part in memory is paid for from ctx.memory; when that is
// short, fewer fly, down to one. `client` and what the contexts refer to must outlive it.
std::unique_ptr<ByteSink> MakeS3Sink(S3Client& client, std::string key,
                                     const S3UploadOptions& options,
                                     std::shared_ptr<AbandonedUploads> abandoned);

// Bytes of part `number` (from 1), so that at most 10,000 parts hold `size_hint_bytes`, or 5 TiB
// when unknown.
int64_t PartBytes(const S3UploadOptions& options, int64_t number);

}  // namespace partforge
