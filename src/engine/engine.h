#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/context.h"

namespace partforge {

struct QueryOptions {
  std::string query_id = {};  // carries job, task, epoch, try: unique forever. Empty = one is drawn
  std::map<std::string, std::string> settings = {};
  std::map<std::string, std::string> parameters = {};
  std::string database = {};
  std::function<void(int64_t read_rows, int64_t written_rows)> on_progress =
      {};                       // from another thread, about once a second
  int64_t idle_timeout_ms = 0;  // 0 = wait for as long as it takes (the engine's own limits hold)
};

// Rows as bytes in the asked FORMAT, piece by piece (pieces need not end at rows). One thread at a
// time.
class RowStream {
 public:
  virtual ~RowStream() = default;
  virtual Result<std::optional<std::string>> NextBlock(const Context& ctx) = 0;
};

// What an engine said about a statement that worked.
struct QueryOutcome {
  std::string
      text;  // of statements that answer rows, in the statement's FORMAT (TabSeparated by default)
  int64_t read_rows = 0, written_rows = 0, written_bytes = 0;
};

// One ClickHouse, local or remote: the caller cannot tell, except by data_path(). Safe for
// concurrent use. Failures are classified by FromClickHouseCode (clickhouse_codes.h); the message
// begins with "Code: N." where the engine gave one.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual Result<QueryOutcome> Query(const Context& ctx, std::string_view sql,
                                     const QueryOptions& options) = 0;
  virtual Result<std::unique_ptr<RowStream>> Select(const Context& ctx, std::string_view sql,
                                                    std::string_view format,
                                                    const QueryOptions& options) = 0;
  // `sql` is an INSERT … FORMAT x; the rows follow from the stream.
  virtual Result<QueryOutcome> Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                                      const QueryOptions& options) = 0;
  // Asks the engine to stop the query and waits until it is gone: by query id or by log_comment.
  // Never KILL … SYNC.
  virtual Status Kill(const Context& ctx, std::string_view query_id) = 0;
  // Set when parts can be moved on this machine's disk.
  virtual std::optional<std::filesystem::path> data_path() const = 0;
};

}  // namespace partforge
