#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace partforge {

// "a/b" of "a/b/c"; "" of "c".
std::string_view FolderOfKey(std::string_view key);
// "c" of "a/b/c".
std::string_view NameOfKey(std::string_view key);

// True when `failure`, got while opening `key` below the root, means that no such object exists: it
// is absent, or what should be a folder on its way is a file.
bool IsAbsence(int root_fd, std::string_view key, const Status& failure);

// Opens the folder `folder` ("" = the root itself) for fsync, rename and link.
Result<UniqueFd> OpenFolderBelow(int root_fd, std::string_view folder);
// The same; makes what is missing, each new folder durable in the one above. kInvalidArgument when
// an object stands where a folder is needed.
Result<UniqueFd> MakeFolderBelow(int root_fd, std::string_view folder);

// Makes the entries of the folder open at `folder_fd` durable.
Status SyncFolder(int folder_fd, std::string_view shown);

}  // namespace partforge
