#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace partforge {

// An INSERT whose rows follow as data: INSERT INTO [TABLE] name [(columns)] [SETTINGS …] [FORMAT x
// | VALUES] data.
struct InsertHead {
  std::string_view
      head;            // the statement without its FORMAT or VALUES, trimmed; a view into the text
  std::string format;  // "Values" for VALUES; empty when the statement names none
  size_t data_offset = 0;  // of the first byte of data behind FORMAT x (and one line end) or VALUES
};
// Reads only the head, so what follows may be any bytes, also cut off anywhere. Empty for another
// kind of statement (INSERT SELECT, INSERT INTO FUNCTION, FROM INFILE) and for a head that does not
// end within the text.
std::optional<InsertHead> FindInsertHead(std::string_view text);

}  // namespace partforge
