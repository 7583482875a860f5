#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/http_server.h"
#include "store/s3_store.h"

namespace partforge::testing {

enum class S3Fault : uint8_t {
  kDropped,     // the connection breaks before anything happens
  kLostReply,   // the effect happens, the connection breaks
  kSlowDown,    // 503
  kLateError,   // the effect happens, the answer is 500
  kCutBody,     // the answer breaks off in its middle
  kErrorIn200,  // nothing happens, status 200 with an <Error> body
  kExpired,     // 400 ExpiredToken
  kHidden,  // the object is made, but HEAD, GET and List do not show it for the next three requests
  kKeyError,    // of delete_many: every second key fails with InternalError
  kWrongRange,  // of get: another range than asked for
};

struct S3FakeOptions {
  std::string bucket = "lake";
  std::string region = "us-east-1";
  std::string access_key = "partforgekey", secret_key = "partforgesecret", session_token = "";
  int64_t part_bytes_min = int64_t{5} << 20;
  size_t keys_per_page = 1000;
  int64_t clock_offset_ms = 0;  // the server's clock less the real one
  bool honours_conditions = true;
  bool knows_delete_many = true;
  bool wants_crc32c = false;  // refuses a body without its checksum
};

// S3 in this process: one bucket in memory, behind a real HTTP server. Verifies each signature by
// itself, from the bytes on the wire; answers path style and, under "<bucket>.localhost",
// virtual-host style. One request is one step: conditional writes are decided under a lock.
// Thread-safe.
class S3Fake {
 public:
  explicit S3Fake(S3FakeOptions options = {});
  ~S3Fake();

  // The next `count` requests of operation `op` ("" = any), after `skip` of them, meet the fault.
  // Operations: put, get, head, delete, delete_many, list, list_uploads, create_upload, part,
  // complete, abort, copy, copy_part.
  void Inject(S3Fault fault, std::string op, int64_t count = 1, int64_t skip = 0);
  // From now until Thaw, List shows what it would show now.
  void FreezeList();
  void Thaw();
  // From now on only this session token is good.
  void RotateToken(std::string session_token);

  std::string host() const;      // "127.0.0.1:port"
  std::string endpoint() const;  // "http://127.0.0.1:port"
  const S3FakeOptions& options() const { return options_; }
  // Options of a store that talks to this server and does not wait long between tries.
  S3StoreOptions store_options() const;
  int64_t request_count(std::string_view op) const;
  int64_t fault_count() const;  // faults met so far
  size_t open_upload_count() const;
  std::optional<std::string> object(std::string_view key) const;
  std::vector<int64_t> last_part_sizes() const;  // of the upload completed last

 private:
  struct Object {
    std::shared_ptr<const std::string> bytes;
    int64_t modified_ms = 0;
    std::string etag;
    std::map<std::string, std::string> metadata;
    int hidden_requests = 0;
  };
  struct Upload {
    std::string key;
    int64_t initiated_ms = 0;
    std::map<std::string, std::string> metadata;
    bool has_checksums = false;
    std::map<int64_t, std::shared_ptr<const std::string>> parts;
  };
  struct Rule {
    S3Fault fault;
    std::string op;
    int64_t skip = 0, count = 0;
  };
  struct Request;  // one request, taken apart
  using Reply = HttpServerReply;

  Reply Handle(const HttpServerRequest& http);
  std::optional<Reply> Refuse(const Request& request) const;
  Reply Perform(const Request& request, std::optional<S3Fault> fault);
  Reply Put(const Request& request);
  Reply Copy(const Request& request);
  Reply Get(const Request& request, std::optional<S3Fault> fault);
  Reply List(const Request& request);
  Reply ListUploads(const Request& request) const;
  Reply CreateUpload(const Request& request);
  Reply PutPart(const Request& request);
  Reply CopyPart(const Request& request);
  Reply Complete(const Request& request);
  Reply DeleteMany(const Request& request, std::optional<S3Fault> fault);
  std::optional<S3Fault> Meet(std::string_view op);
  const Object* Find(std::string_view key) const;
  Reply Error(int status, std::string_view code, std::string_view message,
              std::string_view extra = "") const;
  int64_t NowMs() const;

  const S3FakeOptions options_;
  mutable SystemClock clock_;
  mutable std::mutex mutex_;
  std::string session_token_;  // these are guarded by mutex_
  std::map<std::string, Object, std::less<>> objects_;
  std::map<std::string, Object, std::less<>> frozen_;
  bool is_frozen_ = false;
  std::map<std::string, Upload, std::less<>> uploads_;
  std::vector<Rule> rules_;
  std::map<std::string, int64_t, std::less<>> request_counts_;
  std::vector<int64_t> last_part_sizes_;
  int64_t fault_count_ = 0;
  int64_t serial_ = 0;
  std::unique_ptr<HttpServer> server_;  // last: its threads use all of the above
};

}  // namespace partforge::testing
