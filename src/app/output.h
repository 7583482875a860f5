#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.h"
#include "base/error.h"
#include "base/json.h"

namespace partforge::app {

// How the two streams look (user-experience §4.1). Decided once by main.
struct OutputStyle {
  bool is_json = false;    // one JSON document
  bool is_ndjson = false;  // one object a line
  bool is_csv = false;     // rows of the document's list as CSV; is_json then, too
  bool is_quiet = false;
  bool has_color = false;  // stdout
  bool is_stdout_tty = false, is_stderr_tty = false;
  bool is_utf8 = true;  // else ASCII glyphs
  // Tables say how long ago something was, not when. Off with --details, and where the text may be
  // kept: there an age soon says nothing.
  bool has_ages = false;
  int width = 80;         // columns of the terminal, 80 when unknown
  int stderr_width = 80;  // of the one that shows progress
};

struct TableColumn {
  std::string title;
  bool is_right_aligned = false;
  bool may_be_cut = false;  // cut in the middle with … when the line would not fit
};

struct Table {
  std::vector<TableColumn> columns;
  std::vector<std::vector<std::string>> rows;
};

// Two spaces between columns, header in bold where colour is on. Control characters of values are
// shown as \xNN. Pure.
std::string RenderTable(const Table& table, const OutputStyle& style);
// When something was, as a table says it: its age, or the time. Unix milliseconds; 0 = never, which
// is empty. Pure.
std::string WhenText(const OutputStyle& style, int64_t at_ms, int64_t now_ms);
// The text as a terminal of that style can show it: without UTF-8 our own glyphs become ASCII ("->"
// for →, "ok" for ✓) and other characters "?". Pure.
std::string InGlyphsOf(const OutputStyle& style, std::string_view text);
// Printable form of a value from outside: control and invalid UTF-8 bytes as \xNN. Pure.
std::string Printable(std::string_view text);

// stdout, and the parts of stderr that are not log lines. What stdout
// does not take any more is kept and told by is_pipe_broken and failure. Thread-safe: what one call
// writes stays together.
class Output {
 public:
  // `redact` replaces secrets in whatever is written; nothing is replaced without it.
  using Redact = std::function<std::string(std::string_view)>;
  explicit Output(OutputStyle style, Redact redact = {});
  const OutputStyle& style() const { return style_; }

  // Human text; nothing in JSON mode.
  void Text(std::string_view text);
  void Line(std::string_view line = "");
  // The result document: printed in JSON mode only, with "schema": "partforge.<command>/1" first;
  // in CSV mode its rows.
  void Document(std::string_view command, const JsonDoc& doc);
  // One NDJSON object.
  void Object(const JsonDoc& object);
  // What was asked for, an id or a path a line: with --quiet, where the text around it is left out.
  void Answer(std::string_view line);
  // Text for both modes (help, scripts).
  void Raw(std::string_view text);
  // A line of the story on stderr; nothing with --quiet, nor in JSON modes: log lines tell it
  // there.
  void Note(std::string_view line);
  bool is_pipe_broken() const {
    const std::lock_guard lock(mutex_);
    return is_pipe_broken_;
  }
  // Why stdout could not be written, but for a broken pipe: a full disk. kExhausted or as errno
  // says.
  Status failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void Write(int fd, std::string_view text);
  const OutputStyle style_;
  const Redact redact_;
  mutable std::mutex mutex_;     // also held while writing, so that no line is torn
  bool is_pipe_broken_ = false;  // guarded by mutex_
  Status failure_;               // guarded by mutex_
};

// The form of user-experience §5.1 with `error[PF2107]: …`, where, why, do, more; or one JSON
// object. Pure.
// The PF number that a person is shown: the status's own, or the one that its code allows. Pure.
int NumberOf(const Status& status);
std::string RenderError(const Status& status, const OutputStyle& style);
JsonDoc ErrorDocument(const Status& status);

}  // namespace partforge::app
