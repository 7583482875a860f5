#include "store/md5.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace partforge {

std::string Md5Of(std::span<const std::byte> bytes) {
  std::string digest(16, '\0');
  unsigned int length = 0;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &length, EVP_md5(), nullptr);
  PF_CHECK(done == 1 && length == digest.size(), "OpenSSL has no MD5");
  return digest;
}

}  // namespace partforge
