#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace partforge {

// libchdb through its C interface, bound at run time (dependencies.md §3.2). Only the engine child
// loads it: one data path a process, and a crash of it ends the process. Failures come as
// FromClickHouseCode makes them.

using ChdbParameters =
    std::vector<std::pair<std::string, std::string>>;  // {name:Type} in the SQL text

// What a finished statement said.
struct ChdbAnswer {
  std::string text;  // in the asked format
  int64_t result_rows = 0, read_rows = 0, read_bytes = 0, written_rows = 0, written_bytes = 0;
};

enum class ChdbQueryClass : uint8_t {
  kRead = 0,
  kWrite = 1,
  kOutside = 2,
  kControl = 3,
  kUnparsed = 4
};
struct ChdbClassification {
  int64_t statements = 0;
  ChdbQueryClass query_class = ChdbQueryClass::kUnparsed;
};

// One loaded library. Thread-safe. Never unloaded: its threads outlive any handle.
class ChdbLibrary {
 public:
  struct Functions;

  // kNotFound (PF7010) when the file is absent or not a libchdb.
  static Result<std::shared_ptr<const ChdbLibrary>> Load(const std::filesystem::path& path);
  ~ChdbLibrary();

  std::string version() const;
  // Keeps the library from installing handlers for SEGV and the like, with which a crash would look
  // like a hang. Before the first connection; resets those signals to their default.
  void DisableSignalHandlers() const;
  // After the last connection is closed. Some pool threads stay: leave with _exit.
  void Shutdown() const;
  const Functions& functions() const { return *functions_; }

 private:
  explicit ChdbLibrary(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
};

// The rows of a read-only statement, piece by piece (at most about 1 MiB each). Dropping it cancels
// the statement. The connection must outlive it and does nothing else meanwhile. One thread at a
// time.
class ChdbStream {
 public:
  ~ChdbStream();
  // Empty optional at the end.
  Result<std::optional<std::string>> Next();
  // Rows and bytes read so far; complete at the end.
  const ChdbAnswer& totals() const { return totals_; }

 private:
  friend class ChdbConnection;
  ChdbStream(std::shared_ptr<const ChdbLibrary> library, void* connection, void* handle);
  std::shared_ptr<const ChdbLibrary> library_;
  void* connection_;
  void* handle_;
  bool is_finished_ = false;
  ChdbAnswer totals_;
};

// An INSERT whose rows are appended as bytes of a format. Dropping it before Finish() cancels the
// insert. One thread at a time.
class ChdbInsert {
 public:
  ~ChdbInsert();
  Status Append(std::string_view bytes);
  Result<ChdbAnswer> Finish();

 private:
  friend class ChdbConnection;
  ChdbInsert(std::shared_ptr<const ChdbLibrary> library, void* handle);
  Status Failure(std::string_view otherwise) const;
  std::shared_ptr<const ChdbLibrary> library_;
  void* handle_;
  bool is_finished_ = false;
};

// One engine connection: settings, current database and temporary tables live here. One statement,
// one thread at a time; several connections run in parallel. The last connection to close shuts the
// engine down.
class ChdbConnection {
 public:
  // `arguments` are those of clickhouse-local: "--path=…", "--config-file=…". All connections of a
  // process name the same path. kUnavailable when the engine does not start (it says why on stderr
  // only).
  static Result<std::unique_ptr<ChdbConnection>> Open(std::shared_ptr<const ChdbLibrary> library,
                                                      const std::vector<std::string>& arguments);
  ~ChdbConnection();

  Result<ChdbAnswer> Run(std::string_view sql, std::string_view format,
                         const ChdbParameters& parameters);
  // Only single read-only statements stream; kInvalidArgument with IsNotStreamable for others.
  Result<std::unique_ptr<ChdbStream>> OpenStream(std::string_view sql, std::string_view format,
                                                 const ChdbParameters& parameters);
  // `head` is the INSERT without its FORMAT clause.
  Result<std::unique_ptr<ChdbInsert>> OpenInsert(std::string_view head, std::string_view format);
  ChdbClassification Classify(std::string_view sql);

 private:
  ChdbConnection(std::shared_ptr<const ChdbLibrary> library, void* box);
  std::shared_ptr<const ChdbLibrary> library_;
  void* box_;  // what chdb_connect gave; the query functions take it dereferenced
};

// True for the refusal of a statement that must be run whole (EXPLAIN and SHOW are among them).
bool IsNotStreamable(const Status& status);

}  // namespace partforge
