#include "data/orc_wire.h"

#include <fmt/format.h>

#include <cstring>

namespace partforge::data {

std::string EncodeFrameHead(OrcFrameHead head) {
  std::string bytes(OrcFrameHead::kBytes, '\0');
  const auto kind = static_cast<uint32_t>(head.kind);
  std::memcpy(bytes.data(), &kind, sizeof kind);
  std::memcpy(bytes.data() + sizeof kind, &head.length, sizeof head.length);
  return bytes;
}

Result<OrcFrameHead> DecodeFrameHead(std::span<const std::byte, OrcFrameHead::kBytes> bytes,
                                     int64_t length_max) {
  uint32_t kind = 0;
  OrcFrameHead head;
  std::memcpy(&kind, bytes.data(), sizeof kind);
  std::memcpy(&head.length, bytes.data() + sizeof kind, sizeof head.length);
  if (kind < static_cast<uint32_t>(OrcFrame::kOpen) ||
      kind > static_cast<uint32_t>(OrcFrame::kFailure) || head.length < 0 ||
      head.length > length_max) {
    return Status(Code::kCorruption, fmt::format("a frame of kind {} and {} bytes (at most {})",
                                                 kind, head.length, length_max));
  }
  head.kind = static_cast<OrcFrame>(kind);
  return head;
}

OrcFrameWriter& OrcFrameWriter::Number(int64_t number) {
  bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  return *this;
}

OrcFrameWriter& OrcFrameWriter::Text(std::string_view text) {
  Number(static_cast<int64_t>(text.size()));
  bytes_.append(text);
  return *this;
}

std::string_view OrcFrameReader::Take(size_t count) {
  if (!is_ok_ || count > left_.size()) {
    is_ok_ = false;
    return {};
  }
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

int64_t OrcFrameReader::Number() {
  int64_t number = 0;
  const std::string_view bytes = Take(sizeof number);
  if (is_ok_) std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string_view OrcFrameReader::Text() {
  const int64_t length = Number();
  if (length < 0) is_ok_ = false;
  return Take(static_cast<size_t>(length));
}

}  // namespace partforge::data
