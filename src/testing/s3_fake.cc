#include "testing/s3_fake.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "base/hash.h"
#include "base/http_client.h"
#include "base/units.h"
#include "store/http_date.h"
#include "store/md5.h"
#include "store/xml.h"
#include "testing/s3_signature.h"

namespace partforge::testing {
namespace {

constexpr size_t kBodyBytesMax = size_t{1} << 30;
constexpr int64_t kSkewMsMax = int64_t{15} * 60 * 1000;
constexpr int kHiddenRequests = 3;

int64_t Number(std::string_view text, int64_t fallback) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : fallback;
}

std::string QuotedMd5(std::string_view bytes) {
  return "\"" + ToHex(AsBytes(Md5Of(AsBytes(bytes)))) + "\"";
}

std::string Encoded(std::string_view key) {
  std::string out;
  for (const char c : key)
    out += c == '/' ? "/" : c == ' ' ? "+" : UrlEncode(std::string_view(&c, 1));
  return out;
}

std::string Crc32cText(std::string_view bytes) {
  const uint32_t crc = Crc32c(AsBytes(bytes));
  const std::string big_endian = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16),
                                  static_cast<char>(crc >> 8), static_cast<char>(crc)};
  return Base64(AsBytes(big_endian));
}

HttpServerReply Xml(std::string body) {
  HttpServerReply reply;
  reply.content_type = "application/xml";
  reply.body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + std::move(body);
  return reply;
}

// Half of the body, then a broken connection.
void CutBody(HttpServerReply& reply) {
  std::string half = reply.body.substr(0, reply.body.size() / 2);
  reply.body.clear();
  reply.next_chunk = [half = std::move(half),
                      is_sent = false]() mutable -> Result<std::optional<std::string>> {
    if (std::exchange(is_sent, true)) return Status(Code::kUnavailable, "cut");
    return std::optional<std::string>(half);
  };
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

}  // namespace

struct S3Fake::Request {
  const HttpServerRequest& http;
  std::string bucket, key, body, op;

  std::string Header(const std::string& name) const {
    const auto it = http.headers.find(name);
    return it == http.headers.end() ? std::string() : it->second;
  }
  bool Has(std::string_view name) const {
    return std::any_of(http.query.begin(), http.query.end(),
                       [name](const auto& pair) { return pair.first == name; });
  }
  std::string FindOp() const {
    const bool is_copy = !Header("x-amz-copy-source").empty();
    if (http.method == "HEAD") return "head";
    if (http.method == "GET") return Has("uploads") ? "list_uploads" : key.empty() ? "list" : "get";
    if (http.method == "DELETE") return Has("uploadId") ? "abort" : "delete";
    if (http.method == "PUT" && Has("partNumber")) return is_copy ? "copy_part" : "part";
    if (http.method == "PUT") return is_copy ? "copy" : "put";
    if (http.method == "POST" && Has("delete")) return "delete_many";
    return Has("uploads") ? "create_upload" : "complete";
  }
  std::map<std::string, std::string> Metadata() const {
    std::map<std::string, std::string> metadata;
    for (const auto& [name, value] : http.headers) {
      if (name.starts_with("x-amz-meta-")) metadata.emplace(name, value);
    }
    return metadata;
  }
};

S3Fake::S3Fake(S3FakeOptions options)
    : options_(std::move(options)), session_token_(options_.session_token) {
  Result<std::unique_ptr<HttpServer>> server =
      HttpServer::Start({}, [this](const HttpServerRequest& request) { return Handle(request); });
  if (!server.ok()) throw std::runtime_error(server.status().ToString());
  server_ = std::move(server).value();
}

S3Fake::~S3Fake() = default;

void S3Fake::Inject(S3Fault fault, std::string op, int64_t count, int64_t skip) {
  const std::lock_guard lock(mutex_);
  rules_.push_back({.fault = fault, .op = std::move(op), .skip = skip, .count = count});
}

void S3Fake::FreezeList() {
  const std::lock_guard lock(mutex_);
  frozen_ = objects_;
  is_frozen_ = true;
}

void S3Fake::Thaw() {
  const std::lock_guard lock(mutex_);
  is_frozen_ = false;
}

void S3Fake::RotateToken(std::string session_token) {
  const std::lock_guard lock(mutex_);
  session_token_ = std::move(session_token);
}

std::string S3Fake::host() const {
  return fmt::format("127.0.0.1:{}", server_->port());
}
std::string S3Fake::endpoint() const {
  return "http://" + host();
}

S3StoreOptions S3Fake::store_options() const {
  S3StoreOptions store;
  store.client.scheme = "http";
  store.client.host = host();
  store.client.bucket = options_.bucket;
  store.client.region = options_.region;
  store.client.credentials.given = {.access_key = options_.access_key,
                                    .secret_key = Secret(options_.secret_key),
                                    .session_token = Secret(options_.session_token)};
  store.client.backoff_ms_first = 1;
  store.client.backoff_ms_max = 4;
  return store;
}

int64_t S3Fake::request_count(std::string_view op) const {
  const std::lock_guard lock(mutex_);
  const auto it = request_counts_.find(op);
  return it == request_counts_.end() ? 0 : it->second;
}

int64_t S3Fake::fault_count() const {
  const std::lock_guard lock(mutex_);
  return fault_count_;
}

size_t S3Fake::open_upload_count() const {
  const std::lock_guard lock(mutex_);
  return uploads_.size();
}

std::optional<std::string> S3Fake::object(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  return it == objects_.end() ? std::nullopt : std::optional<std::string>(*it->second.bytes);
}

std::vector<int64_t> S3Fake::last_part_sizes() const {
  const std::lock_guard lock(mutex_);
  return last_part_sizes_;
}

int64_t S3Fake::NowMs() const {
  return clock_.NowMs() + options_.clock_offset_ms;
}

HttpServerReply S3Fake::Error(int status, std::string_view code, std::string_view message,
                              std::string_view extra) const {
  HttpServerReply reply = Xml(fmt::format(
      "<Error><Code>{}</Code><Message>{}</Message><RequestId>FAKE0001</RequestId>{}</Error>", code,
      EscapeXml(message), extra));
  reply.status = status;
  return reply;
}

HttpServerReply S3Fake::Handle(const HttpServerRequest& http) {
  Request request{
      .http = http, .bucket = {}, .key = {}, .body = http.ReadWholeBody(kBodyBytesMax), .op = {}};
  std::string_view path = std::string_view(http.path).substr(1);
  const std::string host = request.Header("host");
  if (const size_t label = host.find(".localhost"); label != std::string::npos) {
    request.bucket = host.substr(0, label);
  } else {
    request.bucket = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), request.bucket.size() + 1));
  }
  request.key = path;
  request.op = request.FindOp();

  const std::lock_guard lock(mutex_);
  ++request_counts_[request.op];
  std::optional<S3Fault> fault = Meet(request.op);
  HttpServerReply reply;
  if (fault == S3Fault::kDropped) {
    reply.drops_connection = true;
    return reply;
  }
  if (std::optional<Reply> refusal = Refuse(request); refusal.has_value()) {
    reply = *std::move(refusal);
  } else if (fault == S3Fault::kSlowDown) {
    reply = Error(503, "SlowDown", "Please reduce your request rate.");
  } else if (fault == S3Fault::kExpired) {
    reply = Error(400, "ExpiredToken", "The provided token has expired.");
  } else if (fault == S3Fault::kErrorIn200) {
    reply = Error(200, "InternalError", "We encountered an internal error. Please try again.");
  } else {
    reply = Perform(request, fault);
  }
  if (fault == S3Fault::kLateError)
    reply = Error(500, "InternalError", "We encountered an internal error.");
  if (fault == S3Fault::kLostReply) reply.drops_connection = true;
  if (fault == S3Fault::kCutBody) CutBody(reply);
  reply.headers["date"] = FormatHttpDate(NowMs());
  reply.headers["x-amz-request-id"] = "FAKE0001";
  if (http.method == "HEAD") reply.body.clear();
  return reply;
}

std::optional<S3Fault> S3Fake::Meet(std::string_view op) {
  for (Rule& rule : rules_) {
    if (rule.count == 0 || (!rule.op.empty() && rule.op != op)) continue;
    if (rule.skip > 0) {
      --rule.skip;
      continue;
    }
    --rule.count;
    ++fault_count_;
    return rule.fault;
  }
  return std::nullopt;
}

std::optional<HttpServerReply> S3Fake::Refuse(const Request& request) const {
  const S3Signature signature = CheckS3Signature(request.http, request.body, options_.secret_key);
  if (signature.access_key != options_.access_key) {
    return Error(403, "InvalidAccessKeyId", "The access key is not known: " + signature.access_key);
  }
  if (!signature.is_valid) {
    return Error(403, "SignatureDoesNotMatch",
                 "The signature does not fit:\n" + signature.expected_request);
  }
  if (request.Header("x-amz-security-token") != session_token_) {
    return Error(400, "ExpiredToken", "The provided token has expired.");
  }
  const std::string time = request.Header("x-amz-date");
  const Result<int64_t> time_ms = ParseTimeMs(
      fmt::format("{}-{}-{}T{}:{}:{}Z", time.substr(0, 4), time.substr(4, 2), time.substr(6, 2),
                  time.substr(9, 2), time.substr(11, 2), time.substr(13, 2)));
  if (!time_ms.ok() || std::abs(*time_ms - NowMs()) > kSkewMsMax) {
    return Error(403, "RequestTimeTooSkewed",
                 "The difference between the request time and ours is too large.");
  }
  if (signature.region != options_.region) {
    HttpServerReply reply = Error(400, "AuthorizationHeaderMalformed", "the region is wrong",
                                  fmt::format("<Region>{}</Region>", options_.region));
    reply.headers["x-amz-bucket-region"] = options_.region;
    return reply;
  }
  if (request.bucket != options_.bucket) {
    return Error(404, "NoSuchBucket", "The specified bucket does not exist");
  }
  if (const std::string md5 = request.Header("content-md5");
      !md5.empty() && md5 != Base64(AsBytes(Md5Of(AsBytes(request.body))))) {
    return Error(400, "BadDigest", "Content-MD5 does not fit the body");
  }
  const std::string crc = request.Header("x-amz-checksum-crc32c");
  const bool wants_crc = options_.wants_crc32c && IsOneOf(request.op, {"put", "part"});
  if ((wants_crc || !crc.empty()) && crc != Crc32cText(request.body)) {
    return Error(400, "BadDigest", "the CRC32C does not fit the body");
  }
  return std::nullopt;
}

HttpServerReply S3Fake::Perform(const Request& request, std::optional<S3Fault> fault) {
  Reply reply;
  if (request.op == "put")
    reply = Put(request);
  else if (request.op == "copy")
    reply = Copy(request);
  else if (request.op == "get" || request.op == "head")
    reply = Get(request, fault);
  else if (request.op == "list")
    reply = List(request);
  else if (request.op == "list_uploads")
    reply = ListUploads(request);
  else if (request.op == "create_upload")
    reply = CreateUpload(request);
  else if (request.op == "part")
    reply = PutPart(request);
  else if (request.op == "copy_part")
    reply = CopyPart(request);
  else if (request.op == "complete")
    reply = Complete(request);
  else if (request.op == "delete_many")
    reply = DeleteMany(request, fault);
  else if (request.op == "abort") {
    const bool was_there = uploads_.erase(request.http.Query("uploadId")) > 0;
    if (!was_there) return Error(404, "NoSuchUpload", "The specified upload does not exist.");
    reply.status = 204;
  } else {
    objects_.erase(request.key);
    reply.status = 204;
  }
  if (fault == S3Fault::kHidden && reply.status == 200) {
    if (const auto it = objects_.find(request.key); it != objects_.end()) {
      it->second.hidden_requests = kHiddenRequests;
    }
  }
  return reply;
}

const S3Fake::Object* S3Fake::Find(std::string_view key) const {
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : &it->second;
}

HttpServerReply S3Fake::Put(const Request& request) {
  const Object* there = Find(request.key);
  if (options_.honours_conditions && request.Header("if-none-match") == "*" && there != nullptr) {
    return Error(412, "PreconditionFailed",
                 "At least one of the pre-conditions you specified did not hold");
  }
  Object object{.bytes = std::make_shared<const std::string>(request.body),
                .modified_ms = NowMs(),
                .etag = QuotedMd5(request.body),
                .metadata = request.Metadata()};
  Reply reply;
  reply.headers["etag"] = object.etag;
  objects_[request.key] = std::move(object);
  return reply;
}

HttpServerReply S3Fake::Copy(const Request& request) {
  const std::string source = request.Header("x-amz-copy-source");  // decoded by the server library
  const std::string prefix = options_.bucket + "/";
  const Object* from = source.starts_with(prefix) ? Find(source.substr(prefix.size())) : nullptr;
  if (from == nullptr) return Error(404, "NoSuchKey", "The specified key does not exist.");
  Object copy = *from;
  copy.modified_ms = NowMs();
  const std::string body =
      fmt::format("<CopyObjectResult><ETag>{}</ETag></CopyObjectResult>", EscapeXml(copy.etag));
  objects_[request.key] = std::move(copy);
  return Xml(body);
}

HttpServerReply S3Fake::Get(const Request& request, std::optional<S3Fault> fault) {
  const auto it = objects_.find(request.key);
  if (it == objects_.end()) return Error(404, "NoSuchKey", "The specified key does not exist.");
  if (it->second.hidden_requests > 0) {
    --it->second.hidden_requests;
    return Error(404, "NoSuchKey", "The specified key does not exist.");
  }
  const Object& object = it->second;
  if (const std::string wanted = request.Header("if-match");
      !wanted.empty() && wanted != object.etag) {
    return Error(412, "PreconditionFailed", "the object has another ETag");
  }
  Reply reply;
  reply.content_type = "application/octet-stream";
  reply.headers = object.metadata;
  reply.headers["etag"] = object.etag;
  reply.headers["last-modified"] = FormatHttpDate(object.modified_ms);
  if (request.op == "head") {
    reply.headers["content-length"] = std::to_string(object.bytes->size());
    return reply;
  }
  const std::string range = request.Header("range");
  const auto size = static_cast<int64_t>(object.bytes->size());
  if (range.empty()) {
    reply.body = *object.bytes;
    return reply;
  }
  const size_t dash = range.find('-');
  int64_t first = Number(std::string_view(range).substr(6, dash - 6), 0);
  const int64_t last =
      std::min(Number(std::string_view(range).substr(dash + 1), size - 1), size - 1);
  if (first >= size) return Error(416, "InvalidRange", "The requested range is not satisfiable");
  if (fault == S3Fault::kWrongRange) first = first == 0 ? 1 : 0;
  reply.status = 206;
  reply.headers["content-range"] = fmt::format("bytes {}-{}/{}", first, last, size);
  reply.body =
      object.bytes->substr(static_cast<size_t>(first), static_cast<size_t>(last - first + 1));
  return reply;
}

HttpServerReply S3Fake::List(const Request& request) {
  const std::string prefix = request.http.Query("prefix"),
                    after = request.http.Query("start-after");
  std::string body = "<ListBucketResult><EncodingType>url</EncodingType>";
  size_t count = 0;
  bool is_truncated = false;
  for (auto& [key, object] : is_frozen_ ? frozen_ : objects_) {
    if (!key.starts_with(prefix) || (!after.empty() && key <= after)) continue;
    if (object.hidden_requests > 0) {
      --object.hidden_requests;
      continue;
    }
    if (count == options_.keys_per_page) {
      is_truncated = true;
      break;
    }
    ++count;
    body += fmt::format(
        "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>",
        Encoded(key), FormatTime(object.modified_ms), EscapeXml(object.etag), object.bytes->size());
  }
  return Xml(body + fmt::format("<IsTruncated>{}</IsTruncated></ListBucketResult>", is_truncated));
}

HttpServerReply S3Fake::ListUploads(const Request& request) const {
  std::string body =
      "<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>false</"
      "IsTruncated>";
  for (const auto& [id, upload] : uploads_) {
    if (!upload.key.starts_with(request.http.Query("prefix"))) continue;
    body += fmt::format(
        "<Upload><Key>{}</Key><UploadId>{}</UploadId><Initiated>{}</Initiated></Upload>",
        Encoded(upload.key), id, FormatTime(upload.initiated_ms));
  }
  return Xml(body + "</ListMultipartUploadsResult>");
}

HttpServerReply S3Fake::CreateUpload(const Request& request) {
  const std::string id =
      fmt::format("upload-{}+/=", ++serial_);  // needs encoding, as real ones may
  uploads_[id] = {.key = request.key,
                  .initiated_ms = NowMs(),
                  .metadata = request.Metadata(),
                  .has_checksums = !request.Header("x-amz-checksum-algorithm").empty(),
                  .parts = {}};
  return Xml(fmt::format(
      "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>",
      EscapeXml(id)));
}

HttpServerReply S3Fake::PutPart(const Request& request) {
  const auto it = uploads_.find(request.http.Query("uploadId"));
  if (it == uploads_.end())
    return Error(404, "NoSuchUpload", "The specified upload does not exist.");
  const int64_t number = Number(request.http.Query("partNumber"), 0);
  if (number < 1 || number > 10'000) return Error(400, "InvalidArgument", "part number");
  it->second.parts[number] = std::make_shared<const std::string>(request.body);
  Reply reply;
  reply.headers["etag"] = QuotedMd5(request.body);
  return reply;
}

HttpServerReply S3Fake::CopyPart(const Request& request) {
  const auto it = uploads_.find(request.http.Query("uploadId"));
  if (it == uploads_.end())
    return Error(404, "NoSuchUpload", "The specified upload does not exist.");
  const std::string source = request.Header("x-amz-copy-source");
  const Object* from = Find(source.substr(options_.bucket.size() + 1));
  if (from == nullptr) return Error(404, "NoSuchKey", "The specified key does not exist.");
  const std::string range = request.Header("x-amz-copy-source-range");
  const size_t dash = range.find('-');
  const int64_t first = Number(std::string_view(range).substr(6, dash - 6), 0);
  const int64_t last = Number(std::string_view(range).substr(dash + 1), 0);
  std::string bytes =
      from->bytes->substr(static_cast<size_t>(first), static_cast<size_t>(last - first + 1));
  const std::string etag = QuotedMd5(bytes);
  it->second.parts[Number(request.http.Query("partNumber"), 0)] =
      std::make_shared<const std::string>(std::move(bytes));
  return Xml(fmt::format("<CopyPartResult><ETag>{}</ETag></CopyPartResult>", EscapeXml(etag)));
}

HttpServerReply S3Fake::Complete(const Request& request) {
  const auto it = uploads_.find(request.http.Query("uploadId"));
  if (it == uploads_.end() || it->second.key != request.key) {
    return Error(404, "NoSuchUpload", "The specified upload does not exist.");
  }
  const Result<XmlElement> wanted = ParseXml(request.body);
  if (!wanted.ok() || wanted->children.empty()) return Error(400, "MalformedXML", "no parts");
  std::string bytes, digests;
  std::vector<int64_t> sizes;
  int64_t last_number = 0;
  for (const XmlElement& part : wanted->children) {
    const int64_t number = Number(part.ChildText("PartNumber"), 0);
    const auto found = it->second.parts.find(number);
    if (number <= last_number) return Error(400, "InvalidPartOrder", "The parts are not in order.");
    if (found == it->second.parts.end() || part.ChildText("ETag") != QuotedMd5(*found->second)) {
      return Error(400, "InvalidPart", "A part is missing or has another ETag.");
    }
    if (it->second.has_checksums &&
        part.ChildText("ChecksumCRC32C") != Crc32cText(*found->second)) {
      return Error(400, "InvalidPart", "A part has another checksum.");
    }
    last_number = number;
    bytes += *found->second;
    digests += Md5Of(AsBytes(*found->second));
    sizes.push_back(static_cast<int64_t>(found->second->size()));
  }
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (sizes[i] < options_.part_bytes_min) {
      return Error(400, "EntityTooSmall",
                   "Your proposed upload is smaller than the minimum allowed size");
    }
  }
  Object object{
      .bytes = std::make_shared<const std::string>(std::move(bytes)),
      .modified_ms = NowMs(),
      .etag = fmt::format("\"{}-{}\"", ToHex(AsBytes(Md5Of(AsBytes(digests)))), sizes.size()),
      .metadata = it->second.metadata};
  const std::string etag = object.etag;
  objects_[request.key] = std::move(object);
  uploads_.erase(it);
  last_part_sizes_ = std::move(sizes);
  return Xml(
      fmt::format("<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
                  EscapeXml(etag)));
}

HttpServerReply S3Fake::DeleteMany(const Request& request, std::optional<S3Fault> fault) {
  if (!options_.knows_delete_many) return Error(501, "NotImplemented", "not here");
  if (request.Header("content-md5").empty())
    return Error(400, "InvalidRequest", "Missing required header: Content-MD5");
  const Result<XmlElement> wanted = ParseXml(request.body);
  if (!wanted.ok()) return Error(400, "MalformedXML", wanted.status().message());
  std::string body = "<DeleteResult>";
  size_t index = 0;
  for (const XmlElement& object : wanted->children) {
    if (object.name != "Object") continue;
    const std::string key(object.ChildText("Key"));
    if (fault == S3Fault::kKeyError && index++ % 2 == 1) {
      body += fmt::format(
          "<Error><Key>{}</Key><Code>InternalError</Code><Message>again</Message></Error>",
          EscapeXml(key));
      continue;
    }
    objects_.erase(key);
  }
  return Xml(body + "</DeleteResult>");
}

}  // namespace partforge::testing
