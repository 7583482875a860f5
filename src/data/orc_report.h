#pragma once

#include "data/file_inspect.h"

namespace partforge::data {

// Fills in what an ORC file says of itself: its tail and the footers of its stripes, read by a
// parser of our own. Where that lacks the codec (LZO), what the library tells instead, which is no
// statistics and no streams. kCorruption without the file's name.
Status ReportOrc(const Context& ctx, ByteSource& source, FileReport& report, ArrowMemory& memory);

}  // namespace partforge::data
