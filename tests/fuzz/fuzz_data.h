#pragma once

#include <cstddef>
#include <span>

namespace partforge::fuzz {

// Parsers of foreign bytes in the room `data`, each as a function of bytes alone, so that any
// fuzzer can drive them. They return 0; a violation of what the parser promises (beyond a Status)
// aborts.

int FuzzAvro(std::span<const std::byte> bytes);  // a container, or a choice of schema and one block
int FuzzAvroSelect(std::span<const std::byte> bytes);  // a choice of columns, then a container
int FuzzAvroSchema(std::span<const std::byte> bytes);  // JSON text
int FuzzPuffin(std::span<const std::byte> bytes);      // a file
int FuzzBitmap32(std::span<const std::byte> bytes);
int FuzzBitmap64(std::span<const std::byte> bytes);
// A framed deletion vector; its checksum is made right.
int FuzzVector(std::span<const std::byte> bytes);
int FuzzThrift(std::span<const std::byte> bytes);      // one struct
int FuzzFooter(std::span<const std::byte> bytes);      // the end of a Parquet file
int FuzzBlockCodec(std::span<const std::byte> bytes);  // a codec and a compressed block

int FuzzOrcTail(std::span<const std::byte> bytes);  // the end of an ORC file, its stripes' footers
int FuzzBinaryRow(std::span<const std::byte> bytes);  // a serialized row

}  // namespace partforge::fuzz
