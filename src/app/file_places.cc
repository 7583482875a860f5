#include "app/file_places.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/http_client.h"
#include "store/local_store.h"

namespace partforge::app {
namespace {

Status NoPlace(const std::string& text, std::string_view why) {
  return Status(Code::kInvalidArgument, fmt::format("{}: {}", why, text))
      .Explain(1005, text, "a path, file:///path or s3://bucket/key");
}

Status Missing(const std::string& text, const std::string& why) {
  return Status(Code::kNotFound, why).Explain(1019, text, "name a file that this user can read");
}

// The file, unless its name is none that all stores take.
Result<data::StoredFile> WithFitName(data::StoredFile file) {
  Status fits = CheckObjectKey(file.key);
  if (fits.ok()) return file;
  return std::move(fits).Explain(1020, file.name, "rename the file");
}

}  // namespace

Result<FilePlace> ParseFilePlace(const std::string& text) {
  if (text.empty()) return NoPlace(text, "the name of a file is empty");
  // Files are read from their ends, and appear whole or not at all.
  if (text == "-") {
    return Status(Code::kInvalidArgument, "standard input and output are no files here: -")
        .Explain(1005, text, "name a file (one that is called so: ./-)");
  }
  const size_t colon = text.find("://");
  if (colon == std::string::npos) return FilePlace{.bucket = {}, .path = text};
  const std::string scheme = text.substr(0, colon);
  const std::string rest = text.substr(colon + 3);
  if (scheme == "file") {
    const std::string local = rest.starts_with("localhost/") ? rest.substr(9) : rest;
    if (!local.starts_with('/')) return NoPlace(text, "a file URL must be file:///path");
    const Result<std::string> path = UrlDecode(local);
    if (!path.ok()) return NoPlace(text, path.status().message());
    return FilePlace{.bucket = {}, .path = *path};
  }
  if (scheme != "s3" && scheme != "s3a" && scheme != "s3n") {
    return NoPlace(text, "no store of this kind is known");
  }
  const size_t slash = rest.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == rest.size()) {
    return NoPlace(text, "bucket or key is missing");
  }
  return FilePlace{.bucket = rest.substr(0, slash), .path = rest.substr(slash + 1)};
}

Result<ObjectStore*> FilePlaces::Folder(const std::string& path) {
  auto& store = folders_[path];
  if (store == nullptr) {
    PF_ASSIGN(store, LocalStore::Open(path));
  }
  return store.get();
}

Result<data::StoredFile> FilePlaces::Input(const Context& ctx, const std::string& text) {
  PF_ASSIGN(const FilePlace place, ParseFilePlace(text));
  data::StoredFile file{.store = nullptr, .key = place.path, .name = text};
  if (!place.bucket.empty()) {
    PF_ASSIGN(file.store, buckets_.Get(ctx, place.bucket));
    return WithFitName(std::move(file));
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(place.path, error);
  if (error) return Missing(text, fmt::format("open {}: {}", text, error.message()));
  if (!std::filesystem::is_regular_file(path, error)) {
    return Missing(text, fmt::format("not a file: {}", text));
  }
  PF_ASSIGN(file.store, Folder(path.parent_path().string()));
  file.key = path.filename().string();
  return WithFitName(std::move(file));
}

Result<data::StoredFile> FilePlaces::Output(const Context& ctx, const std::string& text) {
  PF_ASSIGN(const FilePlace place, ParseFilePlace(text));
  data::StoredFile file{.store = nullptr, .key = place.path, .name = text};
  if (!place.bucket.empty()) {
    PF_ASSIGN(file.store, buckets_.Get(ctx, place.bucket));
    return WithFitName(std::move(file));
  }
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(place.path, error);
  if (error) return NoPlace(text, error.message());
  // What a link names is replaced, not the link.
  if (std::filesystem::is_symlink(path, error) && std::filesystem::exists(path, error)) {
    path = std::filesystem::canonical(path, error);
  }
  if (path.filename().empty() || std::filesystem::is_directory(path, error)) {
    return NoPlace(text, "the output is a folder");
  }
  const std::filesystem::path folder = std::filesystem::canonical(path.parent_path(), error);
  if (error || !std::filesystem::is_directory(folder, error)) {
    return Status(Code::kNotFound, fmt::format("the folder of the output is not there: {}", text))
        .Explain(1019, text, fmt::format("mkdir -p {}", path.parent_path().string()));
  }
  PF_ASSIGN(file.store, Folder(folder.string()));
  file.key = path.filename().string();
  return WithFitName(std::move(file));
}

void FilePlaces::Tidy(const Context& ctx, const data::StoredFile& output, const Status& outcome) {
  const bool is_local = output.store->url().starts_with("file://");
  if (outcome.ok() && !is_local) return;  // one request saved
  constexpr int64_t kDayMs = int64_t{24} * 3600 * 1000;
  Context unstopped = ctx;
  unstopped.stop = {};
  if (const auto swept = output.store->SweepLeftovers(unstopped, output.key, kDayMs); !swept.ok()) {
    Ignore(ctx, swept.status(), "leftovers are removed by age later");
  }
}

}  // namespace partforge::app
