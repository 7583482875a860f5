#include "base/library_versions.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

namespace partforge {
namespace {

// "10203" of a library that counts major · 10000 + minor · 100 + patch.
std::string Dotted(unsigned number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

LibraryVersions BaseLibraries() {
  const curl_version_info_data* const curl = curl_version_info(CURLVERSION_NOW);
  return {{"fmt", Dotted(FMT_VERSION)},
          {"libcurl", curl->version},
          {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                        NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
          {"xxhash", Dotted(XXH_versionNumber())}};
}

}  // namespace partforge
