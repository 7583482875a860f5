#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/context.h"
#include "clickhouse/checksums.h"

namespace partforge::clickhouse {

// Checks a part directory, projections included, against its checksums.txt. kCorruption naming the
// file: PF2140 when it is missing, else PF2133.
Status VerifyPartDirectory(const Context& ctx, const std::filesystem::path& directory,
                           VerifyLevel level);

// Checks the files of one part while they stream by, in any order. checksums.txt itself may come
// last: everything is compared in Finish. Memory grows with the number of files only. One thread at
// a time.
class PartStreamVerifier {
 public:
  // `what` names the part in errors.
  PartStreamVerifier(std::string what, VerifyLevel level);
  ~PartStreamVerifier();
  PartStreamVerifier(PartStreamVerifier&&) noexcept;

  // `relative_path` is below the part: "data.bin", "p.proj/data.bin".
  Status BeginFile(std::string_view relative_path, int64_t size_bytes);
  Status Update(std::span<const std::byte> bytes);
  Status EndFile();
  // kCorruption (PF2133) on the first disagreement, in order of names.
  Status Finish();
  // After Finish.
  const PartChecksums& checksums() const;
  const std::string& checksums_txt_sha256() const;  // 64 hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace partforge::clickhouse
