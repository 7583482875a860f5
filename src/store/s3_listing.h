#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/object_store.h"

namespace partforge {

// Reads the answer to ListObjectsV2 (encoding-type=url). Folder markers (keys that end in '/') and
// reserved keys are left out, so a page may be empty and still have a `next`. kCorruption when it
// is not sorted, holds a key that was not asked for, or makes no progress: a page that lies would
// hide objects from those who delete what is unknown.
Result<ListPage> ParseListing(std::string_view xml, std::string_view prefix,
                              std::string_view after);

struct OpenUpload {
  std::string key, id;
  int64_t initiated_ms = 0;
};
struct UploadPage {
  std::vector<OpenUpload> uploads;
  std::string next_key, next_id;  // "" = last page
};
// Reads the answer to ListMultipartUploads (encoding-type=url).
Result<UploadPage> ParseUploadListing(std::string_view xml);

struct DeleteFailure {
  std::string key, code, message;
};
// Reads the answer to DeleteObjects in quiet mode.
Result<std::vector<DeleteFailure>> ParseDeleteResult(std::string_view xml);

}  // namespace partforge
