#include "clickhouse/source_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "base/hash.h"
#include "base/parallel_for.h"
#include "clickhouse/part_files.h"
#include "clickhouse/tar_writer.h"

namespace partforge::clickhouse {
namespace {

std::string ManifestKey(const Manifest& manifest) {
  return fmt::format("{}/{}", manifest.source_key, kManifestFile);
}

// Sends one file and answers its entry in the manifest.
Result<ManifestFile> SendFile(const Context& ctx, ObjectStore& store, const Manifest& manifest,
                              const FrozenPart& part, const FileEntry& file,
                              const FileChecksum* expected) {
  const std::string key = fmt::format("{}/{}", manifest.source_key, file.relative_path);
  PF_ASSIGN(const std::unique_ptr<ByteSink> sink, store.Create(ctx, key, file.size_bytes));
  Sha256 sha;
  CityHash128Stream city;
  const auto emit = [&](std::span<const std::byte> bytes) {
    sha.Update(bytes);
    if (expected != nullptr) city.Update(bytes);
    return sink->Append(ctx, bytes);
  };
  PF_TRY(EmitFile(ctx, part.directory / file.relative_path, file.size_bytes, emit));
  // A damaged source must not get as far as a complete artifact.
  if (expected != nullptr && city.Finish() != expected->hash) {
    return Status(Code::kCorruption, "file does not have the hash that checksums.txt lists")
        .Explain(2133, (part.directory / file.relative_path).string(),
                 "the part is damaged on this disk: CHECK TABLE on the server");
  }
  PF_ASSIGN(const ObjectInfo stored, sink->Close(ctx));
  if (stored.size_bytes != file.size_bytes) {
    return Status(Code::kCorruption, fmt::format("store keeps {} of {} bytes of {}",
                                                 stored.size_bytes, file.size_bytes, key))
        .Explain(7006, key, "run the same command again");
  }
  PF_FAULT(ctx, "clickhouse.source_file_uploaded");
  return ManifestFile{
      .path = file.relative_path, .size_bytes = file.size_bytes, .sha256 = sha.FinishHex()};
}

Status Collision(const Manifest& manifest) {
  return Status(Code::kConflict, "another part was uploaded under this id")
      .Explain(2120, ManifestKey(manifest), "use another --job-id");
}

struct StoredManifest {
  Manifest manifest;
  std::string sha256;
};
Result<std::optional<StoredManifest>> ReadStored(const Context& ctx, ObjectStore& store,
                                                 const std::string& key) {
  Result<std::string> bytes = ReadObject(ctx, store, key, kManifestBytesMax);
  if (!bytes.ok()) {
    if (bytes.status().code() == Code::kNotFound) return std::optional<StoredManifest>();
    return std::move(bytes).status();
  }
  PF_ASSIGN(Manifest manifest, ParseManifest(*bytes));
  return std::optional(
      StoredManifest{.manifest = std::move(manifest), .sha256 = Sha256Hex(*bytes)});
}

// True when `stored` describes the very files of `part`: the same names and sizes, and the same
// checksums.txt, which covers their contents.
bool DescribesPart(const Manifest& stored, const PartInfo& part) {
  std::map<std::string_view, int64_t> sizes;
  for (const FileEntry& file : part.files) {
    if (!file.is_directory) sizes.emplace(file.relative_path, file.size_bytes);
  }
  if (stored.files.size() != sizes.size()) return false;
  return std::all_of(stored.files.begin(), stored.files.end(), [&](const ManifestFile& file) {
    const auto found = sizes.find(file.path);
    const bool is_list = file.path == kChecksumsFile;
    return found != sizes.end() && found->second == file.size_bytes &&
           (!is_list || file.sha256 == part.checksums_txt_sha256);
  });
}

// Completeness is looked up in the store, not believed.
Result<bool> HasEveryObject(const Context& ctx, ObjectStore& store, const Manifest& stored) {
  PF_ASSIGN(const std::vector<ObjectInfo> objects, ListAll(ctx, store, stored.source_key + "/"));
  std::map<std::string_view, int64_t> sizes;
  for (const ObjectInfo& object : objects) sizes.emplace(object.key, object.size_bytes);
  return std::all_of(stored.files.begin(), stored.files.end(), [&](const ManifestFile& file) {
    const auto found = sizes.find(fmt::format("{}/{}", stored.source_key, file.path));
    return found != sizes.end() && found->second == file.size_bytes;
  });
}

Status SendFiles(const Context& ctx, ObjectStore& store, const FrozenPart& part,
                 const PartInfo& info, int threads, Manifest& manifest) {
  std::vector<const FileEntry*> files;
  for (const FileEntry& file : info.files) {
    if (!file.is_directory) files.push_back(&file);
  }
  manifest.files.resize(files.size());
  const auto send = [&](const Context& inner, int64_t index) -> Status {
    const auto i = static_cast<size_t>(index);
    PF_ASSIGN(manifest.files[i], SendFile(inner, store, manifest, part, *files[i],
                                          info.checksums.Find(files[i]->relative_path)));
    return {};
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(files.size()), threads, send));
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const ManifestFile& a, const ManifestFile& b) { return a.path < b.path; });
  return {};
}

// Puts the manifest there, unless somebody else of the same job just did.
Result<StoredManifest> SendManifest(const Context& ctx, ObjectStore& store,
                                    const Manifest& manifest) {
  const std::string text = FormatManifest(manifest);
  PF_ASSIGN(const Manifest read_back, ParseManifest(text));
  if (read_back != manifest) {
    return Status(Code::kRefused, "the job's SQL or a name is not valid UTF-8")
        .Explain(2106, manifest.source_key, "write the SQL files in UTF-8");
  }
  const std::string key = ManifestKey(manifest);
  if (store.traits().put_if_absent) {
    PF_ASSIGN(const PutOutcome outcome, store.PutIfAbsent(ctx, key, AsBytes(text)));
    if (outcome == PutOutcome::kAlreadyThere) {
      PF_ASSIGN(std::optional<StoredManifest> stored, ReadStored(ctx, store, key));
      if (!stored || !SameUpload(stored->manifest, manifest)) return Collision(manifest);
      return std::move(*stored);
    }
  } else {
    PF_TRY(WriteObject(ctx, store, key, text));
  }
  PF_FAULT(ctx, "clickhouse.manifest_uploaded");
  return StoredManifest{.manifest = manifest, .sha256 = Sha256Hex(text)};
}

}  // namespace

Result<SourceUploaded> UploadSource(const Context& ctx, ObjectStore& store, const FrozenPart& part,
                                    Manifest manifest, int threads) {
  PF_ASSIGN(const PartInfo info, ReadPart(ctx, part.directory));
  manifest.part_rows = info.rows;
  manifest.part_bytes = info.size_bytes;
  manifest.files.clear();
  PF_ASSIGN(std::optional<StoredManifest> stored, ReadStored(ctx, store, ManifestKey(manifest)));
  if (stored) {
    Manifest wanted = manifest;
    wanted.files = stored->manifest.files;
    if (!SameUpload(stored->manifest, wanted) || !DescribesPart(stored->manifest, info)) {
      return Collision(manifest);
    }
    PF_ASSIGN(const bool is_complete, HasEveryObject(ctx, store, stored->manifest));
    if (is_complete) {
      return SourceUploaded{.manifest = std::move(stored->manifest),
                            .manifest_sha256 = std::move(stored->sha256),
                            .size_bytes = info.size_bytes,
                            .was_complete = true};
    }
  }
  PF_TRY(SendFiles(ctx, store, part, info, threads, manifest));
  PF_ASSIGN(StoredManifest sent, SendManifest(ctx, store, manifest));
  return SourceUploaded{.manifest = std::move(sent.manifest),
                        .manifest_sha256 = std::move(sent.sha256),
                        .size_bytes = info.size_bytes,
                        .was_complete = false};
}

}  // namespace partforge::clickhouse
