#pragma once

#include <cstddef>
#include <span>

namespace partforge::fuzz {

// What reads pages and indexes of Parquet files in the room `data`, as functions of bytes alone
// (fuzz_data.h).

int FuzzPageCodec(std::span<const std::byte> bytes);    // pages of one chunk
int FuzzHybrid(std::span<const std::byte> bytes);       // a width, a count, levels
int FuzzPageIndex(std::span<const std::byte> bytes);    // a column index
int FuzzParquetCopy(std::span<const std::byte> bytes);  // a file: copied, stitched, filtered
int FuzzParquetVerify(
    std::span<const std::byte> bytes);  // a file: its pages and what it says of them

}  // namespace partforge::fuzz
