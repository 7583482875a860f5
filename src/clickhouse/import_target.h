#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "clickhouse/local_tables.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

// The table an import publishes into, as it stands now (clickhouse-parts §11.1).
struct ImportTarget {
  TableName table;
  std::string server_uuid;  // all zeros: the embedded engine
  std::string table_uuid;
  std::filesystem::path data_path;  // data_paths[1] of the table
  std::string create_sql;           // live SHOW CREATE TABLE
  std::string engine;               // with Replicated, if it is
  uid_t owner_uid = 0;
  gid_t owner_gid = 0;

  std::filesystem::path detached() const { return data_path / "detached"; }
  // Canonical target key of locks and commits: <server uuid>/<table uuid>; the embedded engine has
  // its data path for a server.
  std::string key() const;
  bool is_replicated() const { return engine.starts_with("Replicated"); }
};

// kNotFound (PF2101) when the table does not exist; kRefused: not MergeTree (PF2101), on a disk
// that is not local or is encrypted (PF2103), data folder not visible from here (PF2124).
Result<ImportTarget> ReadImportTarget(const Context& ctx, Engine& engine, const TableName& table);

// Removes what killed imports left of this check, then makes, renames and removes an empty
// detached/pftmp_probe_<random>, and gives a file in it to the table's owner: equal device numbers
// do not promise that a rename works. kRefused (PF2124) naming path, user and owner needed. Several
// at once do not disturb each other: a living one holds the lock of its folder.
Status ProbeDetached(const Context& ctx, const ImportTarget& target);

// The same question without trying: the rights of this user. kRefused (PF2124). A look only.
Status CheckDetachedRights(const ImportTarget& target);

// Gives `path` and everything below it to the table's owner, links not followed. Nothing to do when
// it is ours already.
Status GiveToOwner(const std::filesystem::path& path, uid_t uid, gid_t gid);

struct DirectoryIdentity {
  uint64_t dev = 0, ino = 0;
  bool operator==(const DirectoryIdentity&) const = default;
};
// kNotFound when absent; kRefused when it is no directory (a link, a file).
Result<DirectoryIdentity> IdentityOf(const std::filesystem::path& directory);

}  // namespace partforge::clickhouse
