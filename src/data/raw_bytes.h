#pragma once

#include <bit>
#include <string>
#include <type_traits>

namespace partforge::data {

static_assert(std::endian::native == std::endian::little, "formats here are little-endian");

// Appends the bytes of a number, least first: as Avro, Roaring and Puffin store fixed widths.
template <class T>
requires std::is_arithmetic_v<T>
void AppendRaw(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace partforge::data
