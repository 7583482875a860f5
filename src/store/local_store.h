#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/files.h"
#include "store/local_listing.h"
#include "store/local_temp.h"
#include "store/object_store.h"

namespace partforge {

// Objects are files below one folder. An object is written to the reserved folder, fsynced, renamed
// into place, and its folder is fsynced: a reader sees all of it or nothing, and a closed object
// survives a power cut. PutIfAbsent is link(2), which fails when the name is taken. No link is ever
// followed below the root. Modes are 0666 and 0777 less the umask. Folders appear with their first
// object and go with their last.
class LocalStore final : public ObjectStore {
 public:
  // `root` must be absolute (kInvalidArgument); it is made by the first write.
  static Result<std::unique_ptr<LocalStore>> Open(const std::filesystem::path& root);
  explicit LocalStore(const std::filesystem::path& root);

  StoreTraits traits() const override {
    return {.put_if_absent = true, .cheap_link = true, .strong_list = true};
  }
  std::string url() const override { return "file://" + root_.string(); }
  Result<std::unique_ptr<ByteSource>> Open(const Context& ctx, std::string_view key) override;
  Result<std::unique_ptr<ByteSink>> Create(const Context& ctx, std::string_view key,
                                           int64_t size_hint_bytes) override;
  Result<PutOutcome> PutIfAbsent(const Context& ctx, std::string_view key,
                                 std::span<const std::byte> bytes) override;
  Result<ObjectInfo> Stat(const Context& ctx, std::string_view key) override;
  Result<ListPage> List(const Context& ctx, std::string_view prefix,
                        std::optional<std::string> after) override;
  Status Link(const Context& ctx, std::string_view from, std::string_view to) override;
  Status Delete(const Context& ctx, std::span<const std::string> keys) override;
  // Sweeps all temporary files: their names tell no key.
  Result<int64_t> SweepLeftovers(const Context& ctx, std::string_view prefix,
                                 int64_t age_ms_min) override;

 private:
  class Source;
  class Sink;
  enum class Publish : uint8_t { kReplace, kIfAbsent };

  Result<UniqueFd> OpenRoot() const;
  Result<UniqueFd> OpenObject(std::string_view key, int flags) const;
  // Gives the temporary file `temp` its name, durably. Leaves it alone on failure.
  Result<PutOutcome> PublishTemp(const Context& ctx, const std::string& temp, std::string_view key,
                                 Publish mode);
  Result<PutOutcome> PutNew(const Context& ctx, std::string_view key,
                            std::span<const std::byte> bytes);
  Status LinkOver(const Context& ctx, std::string_view from, std::string_view to);
  Status DeleteOne(const Context& ctx, int root_fd, std::string_view key) const;
  Status CopyBytes(const Context& ctx, std::string_view from, std::string_view to);

  const std::filesystem::path root_;
  LocalTemp temp_;
  LocalListing listing_;
};

}  // namespace partforge
