#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace arrow {
class Schema;
}  // namespace arrow

namespace partforge::fuzz {

// What reads the private local files of the room `data`, as functions of bytes alone (fuzz_data.h).
// Their checksums are made right first, so that what lies behind them is met.

std::shared_ptr<arrow::Schema> LocalRowSchema();       // of the rows in both
int FuzzLookupFile(std::span<const std::byte> bytes);  // made of "f"
int FuzzSpill(std::span<const std::byte> bytes);       // one message

}  // namespace partforge::fuzz
