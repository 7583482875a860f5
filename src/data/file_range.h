#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/context.h"
#include "store/object_store.h"

namespace partforge::data {

// A run of bytes of a file. length = 0: absent.
struct FileRange {
  int64_t offset = 0;
  int64_t length = 0;
  int64_t end() const { return offset + length; }
  bool operator==(const FileRange&) const = default;
};

// Its bytes as a string. kCorruption, with `what`, when it lies outside of the object.
Result<std::string> ReadRange(const Context& ctx, ByteSource& source, FileRange range,
                              std::string_view what);

}  // namespace partforge::data
