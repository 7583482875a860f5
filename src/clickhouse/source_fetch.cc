#include "clickhouse/source_fetch.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "base/hash.h"
#include "base/parallel_for.h"
#include "clickhouse/artifact.h"
#include "store/sequential_reader.h"

namespace partforge::clickhouse {
namespace {

constexpr int kDiffers = 2133;

// One object that goes into a file.
struct Source {
  ObjectStore* store = nullptr;
  std::string key;
};
// One file of the part: its sources in order, and what the manifest says of it.
struct Wanted {
  std::string path;
  std::vector<Source> sources;
  const ManifestFile* listed = nullptr;
};

std::string ManifestKey(std::string_view source_key) {
  return fmt::format("{}/{}", source_key, kManifestFile);
}

// A listed object that is gone will not come back: never retried.
Status Gone(Status status, const std::string& key) {
  if (status.code() != Code::kNotFound) return status;
  return std::move(status)
      .As(Code::kCorruption)
      .With("fetch a source part")
      .Explain(2126, key, "the object was removed; upload the part again in a new job");
}

Status Differs(const std::string& key, std::string message) {
  return Status(Code::kCorruption, std::move(message))
      .Explain(kDiffers, key,
               "the object was changed after its upload; upload the part in a new job");
}

Result<std::string> ReadManifestText(const Context& ctx, ObjectStore& store,
                                     std::string_view source_key) {
  const std::string key = ManifestKey(source_key);
  Result<std::string> text = ReadObject(ctx, store, key, kManifestBytesMax);
  if (text.ok() || text.status().code() != Code::kNotFound) return text;
  PF_TRY(CheckStoreHoldsJob(ctx, store, source_key, "source"));
  return std::move(text)
      .status()
      .With("fetch a source part")
      .Explain(2126, key, "the upload never ended: run the same upload command again");
}

Status AddSourceObjects(const Context& ctx, const FetchSourceRequest& request,
                        const Manifest& manifest, std::map<std::string, Wanted>& files) {
  for (const SourceObject& object : manifest.source_objects) {
    if (!request.buckets) {
      return Status(Code::kRefused, "this command cannot read parts that lie in a backup")
          .Explain(8001, request.source_key, "upload the backup without --zero-copy");
    }
    PF_ASSIGN(ObjectStore* const store, request.buckets(ctx, object.bucket));
    Wanted& file = files[object.path];
    file.path = object.path;
    file.sources.push_back({.store = store, .key = object.key});
  }
  return {};
}

// Objects below the artifact that the manifest does not name one by one.
Status AddListed(const Context& ctx, ObjectStore& store, const std::string& source_key,
                 std::map<std::string, Wanted>& files) {
  const std::string prefix = source_key + "/";
  PF_ASSIGN(const std::vector<ObjectInfo> objects, ListAll(ctx, store, prefix));
  for (const ObjectInfo& object : objects) {
    const std::string path = object.key.substr(prefix.size());
    if (path == kManifestFile || files.contains(path)) continue;
    PF_TRY(CheckRelativePath(path));
    files[path] = {.path = path, .sources = {{.store = &store, .key = object.key}}};
  }
  return {};
}

Result<std::vector<Wanted>> PlanFiles(const Context& ctx, ObjectStore& store,
                                      const FetchSourceRequest& request, const Manifest& manifest) {
  std::map<std::string, Wanted> files;
  PF_TRY(AddSourceObjects(ctx, request, manifest, files));
  if (manifest.files.empty() || !manifest.source_objects.empty()) {
    PF_TRY(AddListed(ctx, store, request.source_key, files));
  }
  for (const ManifestFile& listed : manifest.files) {
    Wanted& file = files[listed.path];
    file.path = listed.path;
    file.listed = &listed;
    if (file.sources.empty()) {
      file.sources = {
          {.store = &store, .key = fmt::format("{}/{}", request.source_key, listed.path)}};
    }
  }
  std::vector<Wanted> wanted;
  wanted.reserve(files.size());
  for (auto& [path, file] : files) wanted.push_back(std::move(file));
  return wanted;
}

Status FetchFileOnce(const Context& ctx, const UniqueFd& root, const Wanted& file, int flags) {
  PF_ASSIGN(UniqueFd fd, OpenBeneath(root.get(), file.path, O_WRONLY | flags));
  Sha256 hash;
  int64_t size_bytes = 0;
  for (const Source& from : file.sources) {
    Result<std::unique_ptr<ByteSource>> opened = from.store->Open(ctx, from.key);
    if (!opened.ok()) return Gone(std::move(opened).status(), from.key);
    PF_ASSIGN(const std::unique_ptr<SequentialReader> reader,
              SequentialReader::Open(ctx, **opened, {}));
    while (true) {
      PF_ASSIGN(const std::span<const std::byte> piece, reader->Next(ctx));
      if (piece.empty()) break;
      if (file.listed != nullptr) hash.Update(piece);
      size_bytes += static_cast<int64_t>(piece.size());
      PF_TRY(WriteAll(fd.get(), piece));
    }
  }
  PF_TRY(fd.Close());
  if (file.listed == nullptr) return {};
  const std::string& key = file.sources.front().key;
  if (size_bytes != file.listed->size_bytes) {
    return Differs(key, fmt::format("{} has {} bytes by the manifest, found {}", file.path,
                                    file.listed->size_bytes, size_bytes));
  }
  const std::string found = hash.FinishHex();
  if (found != file.listed->sha256) {
    return Differs(key, fmt::format("{}: digest {} by the manifest, found {}", file.path,
                                    file.listed->sha256, found));
  }
  return {};
}

// What differs from the manifest may have been damaged on its way, so it is fetched again, once
// (clickhouse-parts §15 row 9).
Status FetchFile(const Context& ctx, const UniqueFd& root, const Wanted& file) {
  Status fetched = FetchFileOnce(ctx, root, file, O_CREAT | O_EXCL);
  if (fetched.ok() || fetched.explanation().pf_number != kDiffers) return fetched;
  ctx.log.Warn("a file differs from its manifest and is fetched again",
               {{"file", file.path}, {"error", fetched.message()}});
  return FetchFileOnce(ctx, root, file, O_TRUNC);
}

Status MakeFolders(const std::filesystem::path& directory, const std::vector<Wanted>& files) {
  std::error_code error;
  if (!std::filesystem::create_directory(directory, error)) {
    if (error) return ErrnoStatus(error.value(), fmt::format("make {}", directory.string()));
    return Status(Code::kAlreadyExists,
                  fmt::format("fetch a source part: folder exists: {}", directory.string()));
  }
  for (const Wanted& file : files) {
    PF_ASSIGN(const std::filesystem::path path, JoinBelow(directory, file.path));
    if (path.parent_path() != directory) PF_TRY(MakeDirectories(path.parent_path()));
  }
  return {};
}

}  // namespace

Result<FetchedSource> FetchSource(const Context& ctx, ObjectStore& store,
                                  const FetchSourceRequest& request) {
  FetchedSource fetched;
  PF_ASSIGN(const std::string text, ReadManifestText(ctx, store, request.source_key));
  fetched.manifest_sha256 = Sha256Hex(text);
  // Before a word of it is believed, its version too: one that was changed is damage, not news.
  if (!request.manifest_sha256.empty() && fetched.manifest_sha256 != request.manifest_sha256) {
    return Differs(ManifestKey(request.source_key),
                   fmt::format("manifest has digest {}, {} was recorded", fetched.manifest_sha256,
                               request.manifest_sha256));
  }
  PF_ASSIGN(fetched.manifest, ParseManifest(text));
  PF_TRY(CheckManifest(fetched.manifest, request.owner));
  PF_ASSIGN(const std::vector<Wanted> files, PlanFiles(ctx, store, request, fetched.manifest));
  PF_TRY(MakeFolders(request.directory, files));
  PF_ASSIGN(const UniqueFd root, OpenFile(request.directory, O_RDONLY | O_DIRECTORY));
  const auto fetch = [&](const Context& inner, int64_t i) {
    return FetchFile(inner, root, files[static_cast<size_t>(i)]);
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(files.size()), request.threads, fetch));
  // Names and sizes always; contents when asked for, or when no digest has vouched for them yet.
  if (request.verify == VerifyLevel::kContent) {
    PF_TRY(VerifyPartDirectory(ctx, request.directory, VerifyLevel::kContent));
  }
  PF_ASSIGN(fetched.part, ReadPart(ctx, request.directory));
  return fetched;
}

}  // namespace partforge::clickhouse
