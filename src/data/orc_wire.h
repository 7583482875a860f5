#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge::data {

// What an ORC decoder process and its parent say to each other (orc_decoder.h): frames of a kind, a
// length and that many bytes, numbers little endian. Both ends are one program, so that there is no
// version; yet the parent believes nothing, since a file may have broken the child.
enum class OrcFrame : uint8_t {
  // From the parent.
  kOpen = 1,  // file size, memory bytes, CPU seconds a batch
  kBytes,     // what kRead asked for; without any bytes: it could not be read
  kStripe,    // index, first row, rows a batch, columns
  // From the child.
  kRead,         // offset, length
  kDescription,  // rows, codec, writer, stripes, schema
  kBatch,        // an Arrow IPC message
  kStripeEnd,
  kFailure,  // code, message
};

struct OrcFrameHead {
  static constexpr size_t kBytes = 12;
  OrcFrame kind = OrcFrame::kFailure;
  int64_t length = 0;
};

std::string EncodeFrameHead(OrcFrameHead head);
// kCorruption when the kind is none or the length is not within [0, `length_max`].
Result<OrcFrameHead> DecodeFrameHead(std::span<const std::byte, OrcFrameHead::kBytes> bytes,
                                     int64_t length_max);

// Puts a frame's numbers and texts one behind the other.
class OrcFrameWriter {
 public:
  OrcFrameWriter& Number(int64_t number);
  OrcFrameWriter& Text(std::string_view text);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Takes them out again. After a frame was too short every value is 0 or empty, and ok() is false.
class OrcFrameReader {
 public:
  explicit OrcFrameReader(std::string_view bytes) : left_(bytes) {}
  int64_t Number();
  std::string_view Text();
  bool ok() const { return is_ok_; }
  size_t left_bytes() const { return left_.size(); }

 private:
  std::string_view Take(size_t count);
  std::string_view left_;
  bool is_ok_ = true;
};

}  // namespace partforge::data
