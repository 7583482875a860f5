#pragma once

#include <span>
#include <string>

#include "base/random.h"

namespace partforge::fuzz {

// Changes a few places of `input`: bits, bytes of interest, lengths, pieces cut out, doubled or
// taken from another seed. Same draws, same result.
std::string Mutate(const std::string& input, std::span<const std::string> seeds, Random& random);

}  // namespace partforge::fuzz
