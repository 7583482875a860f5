#include "store/s3_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/http_client.h"
#include "base/units.h"
#include "store/xml.h"

namespace partforge {
namespace {

// S3 writes a space as '+' and a plus as %2B; most others write %20.
Result<std::string> DecodeKey(std::string_view text, bool is_encoded) {
  if (!is_encoded) return std::string(text);
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return UrlDecode(spaced);
}

Status Wrong(std::string_view what, std::string_view key) {
  return Status(Code::kCorruption, fmt::format("the listing {}: {}", what, key));
}

Result<XmlElement> ParseRoot(std::string_view xml, std::string_view name) {
  PF_ASSIGN(XmlElement root, ParseXml(xml));
  if (root.name != name) return Wrong(fmt::format("is not a {}", name), root.name);
  return root;
}

Result<int64_t> ParseLength(std::string_view text, std::string_view key) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Wrong("gives no size for an object", key);
  }
  return value;
}

}  // namespace

Result<ListPage> ParseListing(std::string_view xml, std::string_view prefix,
                              std::string_view after) {
  PF_ASSIGN(const XmlElement root, ParseRoot(xml, "ListBucketResult"));
  const bool is_encoded = root.ChildText("EncodingType") == "url";
  ListPage page;
  std::string last(after);
  bool has_any = false;
  for (const XmlElement& child : root.children) {
    if (child.name != "Contents") continue;
    PF_ASSIGN(std::string key, DecodeKey(child.ChildText("Key"), is_encoded));
    if (!key.starts_with(prefix)) return Wrong("holds a key outside its prefix", key);
    if ((has_any || !after.empty()) && key <= last) return Wrong("is not sorted by key", key);
    last = key;
    has_any = true;
    if (key.empty() || key.back() == '/' || key.starts_with(kReservedPrefix)) continue;
    PF_ASSIGN(const int64_t size_bytes, ParseLength(child.ChildText("Size"), key));
    PF_ASSIGN(const int64_t modified_ms, ParseTimeMs(child.ChildText("LastModified")));
    page.objects.push_back(ObjectInfo{.key = std::move(key),
                                      .size_bytes = size_bytes,
                                      .modified_ms = modified_ms,
                                      .etag = std::string(child.ChildText("ETag"))});
  }
  if (root.ChildText("IsTruncated") == "true") {
    if (!has_any) return Wrong("says there is more but shows nothing", prefix);
    page.next = std::move(last);
  }
  return page;
}

Result<UploadPage> ParseUploadListing(std::string_view xml) {
  PF_ASSIGN(const XmlElement root, ParseRoot(xml, "ListMultipartUploadsResult"));
  const bool is_encoded = root.ChildText("EncodingType") == "url";
  UploadPage page;
  for (const XmlElement& child : root.children) {
    if (child.name != "Upload") continue;
    OpenUpload upload;
    PF_ASSIGN(upload.key, DecodeKey(child.ChildText("Key"), is_encoded));
    upload.id = child.ChildText("UploadId");
    PF_ASSIGN(upload.initiated_ms, ParseTimeMs(child.ChildText("Initiated")));
    page.uploads.push_back(std::move(upload));
  }
  if (root.ChildText("IsTruncated") == "true") {
    PF_ASSIGN(page.next_key, DecodeKey(root.ChildText("NextKeyMarker"), is_encoded));
    page.next_id = root.ChildText("NextUploadIdMarker");
    if (page.next_key.empty()) return Wrong("of uploads says there is more but not where", "");
  }
  return page;
}

Result<std::vector<DeleteFailure>> ParseDeleteResult(std::string_view xml) {
  PF_ASSIGN(const XmlElement root, ParseRoot(xml, "DeleteResult"));
  std::vector<DeleteFailure> failures;
  for (const XmlElement& child : root.children) {
    if (child.name != "Error") continue;
    failures.push_back({.key = std::string(child.ChildText("Key")),
                        .code = std::string(child.ChildText("Code")),
                        .message = std::string(child.ChildText("Message"))});
  }
  return failures;
}

}  // namespace partforge
