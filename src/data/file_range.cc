#include "data/file_range.h"

#include <fmt/format.h>

#include <span>

namespace partforge::data {

Result<std::string> ReadRange(const Context& ctx, ByteSource& source, FileRange range,
                              std::string_view what) {
  if (range.offset < 0 || range.length < 0 || range.offset > source.size_bytes() ||
      range.length > source.size_bytes() - range.offset) {
    return Status(Code::kCorruption,
                  fmt::format("read {}: range beyond the end of the file: {} bytes at {}", what,
                              range.length, range.offset));
  }
  std::string bytes(static_cast<size_t>(range.length), '\0');
  PF_TRY(source.ReadAt(ctx, range.offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace partforge::data
