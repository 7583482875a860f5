#pragma once

#include <cstddef>
#include <span>

namespace partforge::fuzz {

// What reads Parquet files, their pages and indexes, in the room `data`, as functions of bytes
// alone (fuzz_data.h).

int FuzzPageCodec(std::span<const std::byte> bytes);  // pages of one chunk
int FuzzHybrid(std::span<const std::byte> bytes);     // a width, a count, levels
int FuzzPageIndex(std::span<const std::byte> bytes);  // a column index
// A file: copied, stitched, filtered; what is accepted has the rows of the file.
int FuzzParquetCopy(std::span<const std::byte> bytes);
// A file read by pruning: row groups, then pages.
int FuzzParquetSource(std::span<const std::byte> bytes);
int FuzzInspect(std::span<const std::byte> bytes);  // a file of any format but ORC
// A file: its pages and what it says of them.
int FuzzParquetVerify(std::span<const std::byte> bytes);

}  // namespace partforge::fuzz
