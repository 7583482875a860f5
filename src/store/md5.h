#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace partforge {

// MD5 of `bytes` as 16 raw bytes. Only where S3's protocol asks for it (Content-MD5, ETag); proves
// nothing.
std::string Md5Of(std::span<const std::byte> bytes);

}  // namespace partforge
