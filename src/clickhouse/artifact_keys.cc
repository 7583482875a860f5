#include <fmt/format.h>

#include "base/files.h"
#include "base/ids.h"
#include "clickhouse/artifact.h"

namespace partforge::clickhouse {
namespace {

constexpr std::string_view kPatternBytes = "*?[]{}";

Status CheckId(std::string_view id, std::string_view what) {
  if (IsValidId(id)) return {};
  return Status(Code::kRefused, fmt::format("not a valid {} id (1 to 128 of A-Z a-z 0-9 . _ -): {}",
                                            what, id.substr(0, 200)))
      .Explain(8006, fmt::format("{} id", what), "ids become segments of keys: give another one");
}

Status BadPrefix(std::string message) {
  return Status(Code::kRefused, std::move(message))
      .Explain(8006, "object prefix", "name one place: --prefix=team/rewrites");
}

Status Unsafe(std::string_view what, std::string_view value) {
  return Status(Code::kRefused, fmt::format("will not delete: {}: {}", what, value))
      .Explain(8006, std::string(value), "nothing was deleted; remove such objects by hand");
}

// Segments between slashes, empty ones left out.
std::vector<std::string_view> Segments(std::string_view path) {
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (slash != 0) segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return segments;
}

}  // namespace

Result<std::string> NormalizePrefix(std::string_view prefix) {
  std::string joined;
  for (const std::string_view segment : Segments(prefix)) {
    if (segment == "." || segment == "..") {
      return BadPrefix(fmt::format("object prefix has a '{}' segment: {}", segment, prefix));
    }
    if (segment.find_first_of(kPatternBytes) != std::string_view::npos) {
      return BadPrefix(
          fmt::format("object prefix must not hold one of {}: {}", kPatternBytes, prefix));
    }
    if (!joined.empty()) joined += '/';
    joined += segment;
  }
  if (!joined.empty()) PF_TRY(CheckRelativePath(joined));
  return joined;
}

Result<JobKeys> JobKeys::Make(std::string_view prefix, std::string_view job_id) {
  PF_TRY(CheckId(job_id, "job"));
  PF_ASSIGN(std::string root, NormalizePrefix(prefix));
  if (!root.empty()) root += '/';
  return JobKeys(fmt::format("{}jobs/{}", root, job_id));
}

Result<std::string> JobKeys::SourceKey(std::string_view part_id) const {
  PF_TRY(CheckId(part_id, "part"));
  return fmt::format("{}/source/{}", root_, part_id);
}

Result<std::string> JobKeys::FinishedKey(std::string_view part_id) const {
  PF_TRY(CheckId(part_id, "part"));
  return fmt::format("{}/finished/{}", root_, part_id);
}

Result<std::string> JobKeys::FinishedPrefix(std::string_view part_id, uint64_t epoch) const {
  PF_TRY(CheckId(part_id, "part"));
  return fmt::format("{}/finished/{}.{}", root_, part_id, epoch);
}

Result<std::string> JobKeys::MetaKey(std::string_view part_id, uint64_t epoch) const {
  PF_TRY(CheckId(part_id, "part"));
  return fmt::format("{}/meta/{}.{}.json", root_, part_id, epoch);
}

Result<std::string> JobKeys::ReceiptKey(std::string_view part_id) const {
  PF_TRY(CheckId(part_id, "part"));
  return fmt::format("{}/imported/{}.json", root_, part_id);
}

std::string TarKey(std::string_view prefix, std::string_view part_name) {
  return fmt::format("{}/{}.tar", prefix, part_name);
}

Status CheckStoreHoldsJob(const Context& ctx, ObjectStore& store, std::string_view key,
                          std::string_view folder) {
  const size_t end = key.rfind(fmt::format("/{}/", folder));
  if (end == std::string_view::npos) return {};
  const std::string job_prefix(key.substr(0, end + 1));
  const Result<ListPage> page = store.List(ctx, job_prefix, std::nullopt);
  const bool is_bucket_absent = !page.ok() && page.status().code() == Code::kNotFound;
  if (!page.ok() && !is_bucket_absent) return page.status();
  if (page.ok() && !page->objects.empty()) return {};
  return Status(Code::kRefused,
                fmt::format("the object store holds nothing of the job: {}", job_prefix))
      .Explain(2126, store.url(), "give the --s3-endpoint that the job was uploaded to");
}

Result<std::string> DeletionRoot(std::string_view bucket, std::string_view key,
                                 std::string_view job_id) {
  if (!IsValidId(job_id)) return Unsafe("job id", job_id);
  if (bucket.empty() || bucket.find('/') != std::string_view::npos ||
      bucket.find_first_of(kPatternBytes) != std::string_view::npos) {
    return Unsafe("bucket", bucket);
  }
  if (key.find_first_of(kPatternBytes) != std::string_view::npos) {
    return Unsafe("key holds a pattern", key);
  }
  const std::vector<std::string_view> segments = Segments(key);
  std::string root;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] == "." || segments[i] == "..") return Unsafe("key", key);
    if (!root.empty()) root += '/';
    root += segments[i];
    if (i > 0 && segments[i - 1] == "jobs" && segments[i] == job_id) return root;
  }
  return Unsafe(fmt::format("key lies outside of jobs/{}", job_id), key);
}

}  // namespace partforge::clickhouse
