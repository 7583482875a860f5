#include "engine/chdb.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "engine/clickhouse_codes.h"

namespace partforge {
namespace {

// The C interface speaks of three handles; here they are opaque.
using Box = void*;     // chdb_connect's answer: points to a connection handle
using Handle = void*;  // connection handle
using ResultPtr = void*;
using InsertPtr = void*;

struct Analysis {  // chdb_classify_query_n fills it; struct_size is set by the caller
  uint32_t struct_size = sizeof(Analysis);
  uint32_t statement_count = 0;
  uint32_t flags = 0;
  uint32_t query_class = 4;
};

constexpr int kAppendBytesMax = 1 << 20;

}  // namespace

struct ChdbLibrary::Functions {
  const char* (*version)();
  Box (*connect)(int, char**);
  void (*close)(Box);
  void (*shutdown)();
  void (*set_signal_handlers)(int);
  ResultPtr (*query)(Handle, const char*, size_t, const char*, size_t, const char* const*,
                     const size_t*, const char* const*, const size_t*, size_t);
  ResultPtr (*stream)(Handle, const char*, size_t, const char*, size_t, const char* const*,
                      const size_t*, const char* const*, const size_t*, size_t);
  ResultPtr (*fetch)(Handle, ResultPtr);
  void (*cancel)(Handle, ResultPtr);
  void (*destroy)(ResultPtr);
  char* (*buffer)(ResultPtr);
  size_t (*length)(ResultPtr);
  const char* (*error)(ResultPtr);
  uint64_t (*rows_read)(ResultPtr);
  uint64_t (*storage_rows_read)(ResultPtr);
  uint64_t (*storage_bytes_read)(ResultPtr);
  uint64_t (*rows_written)(ResultPtr);
  uint64_t (*bytes_written)(ResultPtr);
  InsertPtr (*insert)(Handle, const char*, size_t, const char*, size_t);
  int (*append)(InsertPtr, const void*, size_t);
  ResultPtr (*done)(InsertPtr);
  void (*cancel_insert)(InsertPtr);
  const char* (*insert_error)(InsertPtr);
  void (*destroy_insert)(InsertPtr);
  int (*classify)(Handle, const char*, size_t, const char*, size_t, Analysis*);
};

namespace {

Handle HandleOf(Box box) {
  return *static_cast<Handle*>(box);
}

int64_t Count(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, static_cast<uint64_t>(INT64_MAX)));
}

// Takes the counters and, when asked, the bytes out of a result, destroys it, and turns its error
// into a Status.
Result<ChdbAnswer> TakeResult(const ChdbLibrary::Functions& functions, ResultPtr result) {
  if (result == nullptr) return Status(Code::kInternal, "engine gave no result");
  ChdbAnswer answer;
  if (const char* error = functions.error(result); error != nullptr) {
    const Status failure = FromClickHouseCode(0, error);
    functions.destroy(result);
    return failure;
  }
  if (const char* bytes = functions.buffer(result); bytes != nullptr) {
    answer.text.assign(bytes, functions.length(result));
  }
  answer.result_rows = Count(functions.rows_read(result));
  answer.read_rows = Count(functions.storage_rows_read(result));
  answer.read_bytes = Count(functions.storage_bytes_read(result));
  answer.written_rows = Count(functions.rows_written(result));
  answer.written_bytes = Count(functions.bytes_written(result));
  functions.destroy(result);
  return answer;
}

// The parameters as the four parallel arrays of the C interface; refers to `parameters`.
struct ParameterArrays {
  explicit ParameterArrays(const ChdbParameters& parameters) {
    for (const auto& [name, value] : parameters) {
      names.push_back(name.data());
      name_sizes.push_back(name.size());
      values.push_back(value.data());
      value_sizes.push_back(value.size());
    }
  }
  std::vector<const char*> names, values;
  std::vector<size_t> name_sizes, value_sizes;
};

template <class Function>
Status Bind(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function != nullptr) return {};
  return Status(Code::kNotFound, fmt::format("engine library lacks the function {}", name));
}

Status BindAll(void* handle, ChdbLibrary::Functions& f) {
  PF_TRY(Bind(handle, "chdb_version", f.version));
  PF_TRY(Bind(handle, "chdb_connect", f.connect));
  PF_TRY(Bind(handle, "chdb_close_conn", f.close));
  PF_TRY(Bind(handle, "chdb_shutdown", f.shutdown));
  PF_TRY(Bind(handle, "chdb_set_signal_handlers_enabled", f.set_signal_handlers));
  PF_TRY(Bind(handle, "chdb_query_with_params_n", f.query));
  PF_TRY(Bind(handle, "chdb_stream_query_with_params_n", f.stream));
  PF_TRY(Bind(handle, "chdb_stream_fetch_result", f.fetch));
  PF_TRY(Bind(handle, "chdb_stream_cancel_query", f.cancel));
  PF_TRY(Bind(handle, "chdb_destroy_query_result", f.destroy));
  PF_TRY(Bind(handle, "chdb_result_buffer", f.buffer));
  PF_TRY(Bind(handle, "chdb_result_length", f.length));
  PF_TRY(Bind(handle, "chdb_result_error", f.error));
  PF_TRY(Bind(handle, "chdb_result_rows_read", f.rows_read));
  PF_TRY(Bind(handle, "chdb_result_storage_rows_read", f.storage_rows_read));
  PF_TRY(Bind(handle, "chdb_result_storage_bytes_read", f.storage_bytes_read));
  PF_TRY(Bind(handle, "chdb_result_rows_written", f.rows_written));
  PF_TRY(Bind(handle, "chdb_result_bytes_written", f.bytes_written));
  PF_TRY(Bind(handle, "chdb_stream_insert_n", f.insert));
  PF_TRY(Bind(handle, "chdb_stream_append", f.append));
  PF_TRY(Bind(handle, "chdb_stream_done", f.done));
  PF_TRY(Bind(handle, "chdb_stream_cancel_insert", f.cancel_insert));
  PF_TRY(Bind(handle, "chdb_stream_insert_error", f.insert_error));
  PF_TRY(Bind(handle, "chdb_destroy_insert_stream", f.destroy_insert));
  return Bind(handle, "chdb_classify_query_n", f.classify);
}

}  // namespace

ChdbLibrary::ChdbLibrary(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}
ChdbLibrary::~ChdbLibrary() = default;

Result<std::shared_ptr<const ChdbLibrary>> ChdbLibrary::Load(const std::filesystem::path& path) {
  const auto not_usable = [&path](Status status) {
    return std::move(status).Explain(
        7010, path.string(), "run scripts/setup, or name the library with --engine-library");
  };
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return not_usable(
        Status(Code::kNotFound, fmt::format("load the engine library: {}", dlerror())));
  }
  auto functions = std::make_unique<Functions>();
  if (Status bound = BindAll(handle, *functions); !bound.ok()) return not_usable(std::move(bound));
  return std::shared_ptr<const ChdbLibrary>(
      std::unique_ptr<ChdbLibrary>(new ChdbLibrary(std::move(functions))));
}

std::string ChdbLibrary::version() const {
  return functions_->version();
}
void ChdbLibrary::DisableSignalHandlers() const {
  functions_->set_signal_handlers(0);
}
void ChdbLibrary::Shutdown() const {
  functions_->shutdown();
}

ChdbStream::ChdbStream(std::shared_ptr<const ChdbLibrary> library, void* connection, void* handle)
    : library_(std::move(library)), connection_(connection), handle_(handle) {}

ChdbStream::~ChdbStream() {
  if (!is_finished_) library_->functions().cancel(connection_, handle_);
  library_->functions().destroy(handle_);
}

Result<std::optional<std::string>> ChdbStream::Next() {
  if (is_finished_) return std::optional<std::string>();
  auto chunk = TakeResult(library_->functions(), library_->functions().fetch(connection_, handle_));
  if (!chunk.ok()) {
    is_finished_ = true;
    return std::move(chunk).status();
  }
  totals_.result_rows += chunk->result_rows;
  totals_.read_rows = std::max(totals_.read_rows, chunk->read_rows);
  totals_.read_bytes = std::max(totals_.read_bytes, chunk->read_bytes);
  if (chunk->text.empty()) {
    is_finished_ = true;
    return std::optional<std::string>();
  }
  return std::optional<std::string>(std::move(chunk->text));
}

ChdbInsert::ChdbInsert(std::shared_ptr<const ChdbLibrary> library, void* handle)
    : library_(std::move(library)), handle_(handle) {}

ChdbInsert::~ChdbInsert() {
  if (!is_finished_) library_->functions().cancel_insert(handle_);
  library_->functions().destroy_insert(handle_);
}

Status ChdbInsert::Failure(std::string_view otherwise) const {
  const char* error = library_->functions().insert_error(handle_);
  if (error != nullptr && *error != '\0') return FromClickHouseCode(0, error);
  return Status(Code::kInternal, std::string(otherwise));
}

Status ChdbInsert::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kAppendBytesMax);
    if (library_->functions().append(handle_, piece.data(), piece.size()) != 0) {
      return Failure("engine took no more rows of an insert");
    }
    bytes.remove_prefix(piece.size());
  }
  return {};
}

Result<ChdbAnswer> ChdbInsert::Finish() {
  is_finished_ = true;
  return TakeResult(library_->functions(), library_->functions().done(handle_));
}

ChdbConnection::ChdbConnection(std::shared_ptr<const ChdbLibrary> library, void* box)
    : library_(std::move(library)), box_(box) {}

ChdbConnection::~ChdbConnection() {
  library_->functions().close(box_);
}

Result<std::unique_ptr<ChdbConnection>> ChdbConnection::Open(
    std::shared_ptr<const ChdbLibrary> library, const std::vector<std::string>& arguments) {
  std::vector<std::string> copies;  // the C interface wants them writable
  copies.emplace_back("partforge-engine");
  copies.insert(copies.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(copies.size());
  for (std::string& argument : copies) argv.push_back(argument.data());
  void* box = library->functions().connect(static_cast<int>(argv.size()), argv.data());
  if (box == nullptr)
    return Status(Code::kUnavailable, "engine does not open its data path (see the log above)");
  return std::unique_ptr<ChdbConnection>(new ChdbConnection(std::move(library), box));
}

Result<ChdbAnswer> ChdbConnection::Run(std::string_view sql, std::string_view format,
                                       const ChdbParameters& parameters) {
  const ParameterArrays arrays(parameters);
  return TakeResult(library_->functions(),
                    library_->functions().query(HandleOf(box_), sql.data(), sql.size(),
                                                format.data(), format.size(), arrays.names.data(),
                                                arrays.name_sizes.data(), arrays.values.data(),
                                                arrays.value_sizes.data(), parameters.size()));
}

Result<std::unique_ptr<ChdbStream>> ChdbConnection::OpenStream(std::string_view sql,
                                                               std::string_view format,
                                                               const ChdbParameters& parameters) {
  const ParameterArrays arrays(parameters);
  const auto& functions = library_->functions();
  ResultPtr handle = functions.stream(
      HandleOf(box_), sql.data(), sql.size(), format.data(), format.size(), arrays.names.data(),
      arrays.name_sizes.data(), arrays.values.data(), arrays.value_sizes.data(), parameters.size());
  if (handle == nullptr) return Status(Code::kInternal, "engine gave no stream");
  if (const char* error = functions.error(handle); error != nullptr) {
    const Status failure = FromClickHouseCode(0, error);
    functions.destroy(handle);
    return failure;
  }
  return std::unique_ptr<ChdbStream>(new ChdbStream(library_, HandleOf(box_), handle));
}

Result<std::unique_ptr<ChdbInsert>> ChdbConnection::OpenInsert(std::string_view head,
                                                               std::string_view format) {
  InsertPtr handle = library_->functions().insert(HandleOf(box_), head.data(), head.size(),
                                                  format.data(), format.size());
  if (handle == nullptr) return Status(Code::kInternal, "engine gave no insert stream");
  auto insert = std::unique_ptr<ChdbInsert>(new ChdbInsert(library_, handle));
  const char* error = library_->functions().insert_error(handle);
  if (error != nullptr && *error != '\0') return FromClickHouseCode(0, error);
  return insert;
}

ChdbClassification ChdbConnection::Classify(std::string_view sql) {
  Analysis analysis;
  library_->functions().classify(HandleOf(box_), sql.data(), sql.size(), nullptr, 0, &analysis);
  return {.statements = analysis.statement_count,
          .query_class = static_cast<ChdbQueryClass>(std::min<uint32_t>(analysis.query_class, 4))};
}

bool IsNotStreamable(const Status& status) {
  return !status.ok() && ClickHouseNumber(status) == 36 &&
         status.message().find("Streaming query is not supported") != std::string::npos;
}

}  // namespace partforge
