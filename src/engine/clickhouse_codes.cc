#include "engine/clickhouse_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include "base/files.h"

namespace partforge {
namespace {

struct Row {
  int number;
  ClickHouseFailure failure;
};

constexpr ClickHouseFailure kResource{Code::kExhausted, FailureClass::kResource};
constexpr ClickHouseFailure kDiskFull{Code::kExhausted, FailureClass::kDisk};
constexpr ClickHouseFailure kSql{Code::kInvalidArgument, FailureClass::kSql};
constexpr ClickHouseFailure kNoSuch{Code::kNotFound, FailureClass::kSql};
constexpr ClickHouseFailure kThere{Code::kAlreadyExists, FailureClass::kSql};
constexpr ClickHouseFailure kDenied{Code::kRefused, FailureClass::kSql};
constexpr ClickHouseFailure kRows{Code::kInvalidArgument, FailureClass::kData};
constexpr ClickHouseFailure kDamaged{Code::kCorruption, FailureClass::kData};
constexpr ClickHouseFailure kTransient{Code::kUnavailable, FailureClass::kTransient};
constexpr ClickHouseFailure kBusy{Code::kConflict, FailureClass::kTransient};
constexpr ClickHouseFailure kStopped{Code::kCancelled, FailureClass::kTransient};
constexpr ClickHouseFailure kDoubt{Code::kUnknownOutcome, FailureClass::kDoubt};
constexpr ClickHouseFailure kEnv{Code::kRefused, FailureClass::kEnv};
constexpr ClickHouseFailure kBug{Code::kInternal, FailureClass::kInternal};

// Sorted by number. The numbers of clickhouse-parts §15; the rest are those a part job, a load or
// an import can meet.
constexpr std::array kRowsByNumber = std::to_array<Row>({
    {4, kDamaged},      // CANNOT_READ_FROM… (row 9)
    {6, kRows},         // CANNOT_PARSE_TEXT
    {16, kSql},         // NO_SUCH_COLUMN_IN_TABLE
    {26, kRows},        // CANNOT_PARSE_QUOTED_STRING
    {27, kRows},        // CANNOT_PARSE_INPUT_ASSERTION_FAILED
    {33, kDamaged},     // CANNOT_READ_ALL_DATA
    {38, kRows},        // CANNOT_PARSE_DATE
    {40, kDamaged},     // CHECKSUM_DOESNT_MATCH
    {41, kRows},        // CANNOT_PARSE_DATETIME
    {42, kSql},         // NUMBER_OF_ARGUMENTS_DOESNT_MATCH
    {43, kSql},         // ILLEGAL_TYPE_OF_ARGUMENT
    {44, kSql},         // ILLEGAL_COLUMN
    {46, kSql},         // UNKNOWN_FUNCTION
    {47, kSql},         // UNKNOWN_IDENTIFIER
    {49, kBug},         // LOGICAL_ERROR
    {53, kSql},         // TYPE_MISMATCH
    {57, kThere},       // TABLE_ALREADY_EXISTS
    {60, kNoSuch},      // UNKNOWN_TABLE
    {62, kSql},         // SYNTAX_ERROR
    {69, kRows},        // ARGUMENT_OUT_OF_BOUND
    {70, kSql},         // CANNOT_CONVERT_TYPE
    {81, kNoSuch},      // UNKNOWN_DATABASE
    {82, kThere},       // DATABASE_ALREADY_EXISTS
    {107, kDamaged},    // FILE_DOESNT_EXIST
    {115, kSql},        // UNKNOWN_SETTING
    {117, kDamaged},    // INCORRECT_DATA
    {122, kSql},        // INCOMPATIBLE_COLUMNS
    {139, kSql},        // NO_ELEMENTS_IN_CONFIG (row 12)
    {153, kRows},       // ILLEGAL_DIVISION
    {164, kDenied},     // READONLY
    {173, kResource},   // CANNOT_ALLOCATE_MEMORY
    {190, kRows},       // SIZES_OF_ARRAYS_DONT_MATCH
    {192, kEnv},        // UNKNOWN_USER
    {193, kEnv},        // WRONG_PASSWORD
    {194, kEnv},        // REQUIRED_PASSWORD
    {198, kTransient},  // DNS_ERROR
    {202, kResource},   // TOO_MANY_SIMULTANEOUS_QUERIES
    {209, kTransient},  // SOCKET_TIMEOUT
    {210, kTransient},  // NETWORK_ERROR
    {216, kBusy},       // QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING
    {218, kNoSuch},     // TABLE_IS_DROPPED
    {225, kSql},        // NO_ZOOKEEPER (row 12)
    {226, kDamaged},    // NO_FILE_IN_DATA_PART
    {228, kDamaged},    // BAD_SIZE_OF_FILE_IN_DATA_PART
    {232, kNoSuch},     // NO_SUCH_DATA_PART
    {233, kBug},        // BAD_DATA_PART_NAME (row 10: a token name of ours)
    {236, kStopped},    // ABORTED
    {241, kResource},   // MEMORY_LIMIT_EXCEEDED
    {242, kTransient},  // TABLE_IS_READ_ONLY
    {243, kDiskFull},   // NOT_ENOUGH_SPACE
    {246, kDamaged},    // CORRUPTED_DATA
    {271, kDamaged},    // CANNOT_DECOMPRESS
    {279, kTransient},  // ALL_CONNECTION_TRIES_FAILED
    {285, kTransient},  // TOO_FEW_LIVE_REPLICAS
    {286, kTransient},  // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    {319, kDoubt},      // UNKNOWN_STATUS_OF_INSERT
    {341, kDoubt},      // UNFINISHED
    {349, kRows},       // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
    {373, kBusy},       // SESSION_IS_LOCKED
    {386, kSql},        // NO_COMMON_TYPE
    {389, kThere},      // INSERT_WAS_DEDUPLICATED
    {394, kStopped},    // QUERY_WAS_CANCELLED
    {395, kRows},       // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
    {407, kRows},       // DECIMAL_OVERFLOW
    {432, kDamaged},    // UNKNOWN_CODEC
    {439, kResource},   // CANNOT_SCHEDULE_TASK
    {452, kDenied},     // SETTING_CONSTRAINT_VIOLATION
    {473, kTransient},  // DEADLOCK_AVOIDED
    {478, kSql},        // UNKNOWN_POLICY (row 12)
    {497, kDenied},     // ACCESS_DENIED
    {499, kTransient},  // S3_ERROR
    {516, kEnv},        // AUTHENTICATION_FAILED
    {517, kBusy},       // CANNOT_ASSIGN_ALTER
    {701, kSql},        // CLUSTER_DOESNT_EXIST (row 12)
    {735, kStopped},    // QUERY_WAS_CANCELLED_BY_CLIENT
    // A keeper that does not answer is worth a retry on a server; in a local rewrite (row 12) it is
    // the SQL's fault.
    {999, {Code::kUnavailable, FailureClass::kSql}},
});
static_assert(std::is_sorted(kRowsByNumber.begin(), kRowsByNumber.end(),
                             [](const Row& a, const Row& b) { return a.number < b.number; }));

bool Contains(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    const auto low = [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    return low(a) == low(b);
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

bool SaysNoSpace(std::string_view text) {
  return Contains(text, "ENOSPC") || Contains(text, "no space left");
}

// The errno of an ErrnoException: "Cannot open epoll descriptor: , errno: 24, strerror: Too many
// open files".
std::optional<int> ErrnoIn(std::string_view text) {
  constexpr std::string_view kMark = "errno: ", kNext = ", strerror: ";
  const size_t at = text.rfind(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(at + kMark.size());
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const std::string_view rest = digits.substr(static_cast<size_t>(end - digits.data()));
  const bool is_whole = error == std::errc() && (rest.empty() || rest.starts_with(kNext));
  return is_whole ? std::optional(number) : std::nullopt;
}

// What the operating system refuses this process says nothing about a statement or a part
// (base/files.h). What a file is, or is not, may well be the part's fault: none.
std::optional<ClickHouseFailure> ByErrno(std::string_view text) {
  const std::optional<int> number = ErrnoIn(text);
  if (!number || !IsErrnoOfSurroundings(*number)) return std::nullopt;
  if (*number == ENOMEM || *number == EAGAIN) return kResource;
  if (*number == ENOSPC || *number == EDQUOT) return kDiskFull;
  return kEnv;
}

// Errors of reading and writing files: by their errno where they tell it.
ClickHouseFailure OfFile(std::string_view text, ClickHouseFailure of_the_file) {
  if (SaysNoSpace(text)) return kDiskFull;
  if (const auto failure = ByErrno(text)) return *failure;
  return ErrnoIn(text) ? of_the_file : kEnv;
}

// Numbers whose meaning depends on the text.
std::optional<ClickHouseFailure> ByNumberAndText(int number, std::string_view text) {
  switch (number) {
    case 36:  // BAD_ARGUMENTS
      if (Contains(text, "CompressionCodecEncrypted")) return kEnv;
      return kSql;
    case 74:  // CANNOT_READ_FROM_FILE_DESCRIPTOR
      return OfFile(text, kDamaged);
    case 75:  // CANNOT_WRITE_TO_FILE_DESCRIPTOR
      return OfFile(text, kBug);
    case 76:  // CANNOT_OPEN_FILE
      if (Contains(text, "Cannot lock file"))
        return ClickHouseFailure{Code::kConflict, FailureClass::kEnv};
      return OfFile(text, kDamaged);
    case 159:  // TIMEOUT_EXCEEDED
      if (Contains(text, "pipe")) return kResource;
      if (Contains(text, "DDL task") || Contains(text, "ON CLUSTER")) return kDoubt;
      return kTransient;
    case 252:  // TOO_MANY_PARTS
      if (Contains(text, "too many partitions")) return kSql;
      if (Contains(text, "cannot move"))
        return ClickHouseFailure{Code::kInvalidArgument, FailureClass::kInternal};
      return kResource;
    default:
      return std::nullopt;
  }
}

// Errors that come under a number of no meaning (std::exception, Poco, errno) and say what they are
// only in words.
std::optional<ClickHouseFailure> ByText(std::string_view text) {
  if (Contains(text, "std::bad_alloc") || Contains(text, "cannot allocate memory") ||
      Contains(text, "not enough memory") || Contains(text, "too many threads")) {
    return kResource;
  }
  if (SaysNoSpace(text)) return kDiskFull;
  return std::nullopt;
}

// Cuts what an engine appends for its own developers.
std::string_view WithoutTail(std::string_view text) {
  for (const std::string_view tail :
       {std::string_view("\nStack trace"), std::string_view(", Stack trace"),
        std::string_view(" (version ")}) {
    if (const size_t at = text.find(tail); at != std::string_view::npos) text = text.substr(0, at);
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

}  // namespace

ClickHouseFailure ClassifyClickHouse(int number, std::string_view text) {
  if (const auto failure = ByNumberAndText(number, text)) return *failure;
  const auto row =
      std::lower_bound(kRowsByNumber.begin(), kRowsByNumber.end(), number,
                       [](const Row& candidate, int wanted) { return candidate.number < wanted; });
  if (row != kRowsByNumber.end() && row->number == number) return row->failure;
  if (const auto failure = ByText(text)) return *failure;
  if (const auto failure = ByErrno(text)) return *failure;
  return number >= 1000 || number <= 0 ? kBug : kSql;
}

int ClickHouseNumber(std::string_view text) {
  constexpr std::string_view kMark = "Code: ";
  const size_t at = text.find(kMark);
  if (at == std::string_view::npos) return 0;
  const std::string_view digits = text.substr(at + kMark.size());
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number =
      error == std::errc() && end != digits.data() + digits.size() && *end == '.';
  return is_number ? number : 0;
}

int ClickHouseNumber(const Status& status) {
  return status.ok() ? 0 : ClickHouseNumber(status.message());
}

Status FromClickHouseCode(int number, std::string_view text) {
  const int written = ClickHouseNumber(text);
  if (number == 0) number = written;
  const std::string_view body = WithoutTail(text);
  const ClickHouseFailure failure = ClassifyClickHouse(number, body);
  const bool begins_with_code = text.starts_with("Code: ") && written == number;
  std::string message = number == 0        ? fmt::format("engine error without a code: {}", body)
                        : begins_with_code ? std::string(body)
                                           : fmt::format("Code: {}. {}", number, body);
  return Status(failure.code, std::move(message))
      .Explain(7014, "ClickHouse", "do what its own message asks for, then run the command again");
}

FailureClass FailureClassOf(const Status& status) {
  PF_CHECK(!status.ok(), "FailureClassOf a success");
  // A code the caller sharpened (As) says more than the number, where it says that the outcome is
  // unknown.
  if (status.code() == Code::kUnknownOutcome) return FailureClass::kDoubt;
  if (const int number = ClickHouseNumber(status); number != 0) {
    return ClassifyClickHouse(number, status.message()).failure_class;
  }
  switch (status.code()) {
    case Code::kExhausted:
      return SaysNoSpace(status.message()) ? FailureClass::kDisk : FailureClass::kResource;
    case Code::kUnavailable:
    case Code::kCancelled:
    case Code::kConflict:
    case Code::kLeaseLost:
      return FailureClass::kTransient;
    case Code::kCorruption:
      return FailureClass::kData;
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kAlreadyExists:
      return FailureClass::kSql;
    case Code::kRefused:
      return FailureClass::kEnv;
    case Code::kUnknownOutcome:
      return FailureClass::kDoubt;
    case Code::kInternal:
      return FailureClass::kInternal;
  }
  return FailureClass::kInternal;
}

}  // namespace partforge
