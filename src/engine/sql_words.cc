#include "engine/sql_words.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace partforge {
namespace {

using Name = std::string_view;

constexpr std::array kHarmlessTableFunctions = std::to_array<Name>(
    {"format", "fuzzjson", "generate_series", "generaterandom", "generateseries", "input", "merge",
     "mergetreeindex", "mergetreeprojection", "null", "numbers", "numbers_mt", "primes",
     "sqlstandardvalues", "values", "view", "viewifpermitted", "zeros", "zeros_mt"});
constexpr std::array kExternalFunctions = std::to_array<Name>(
    {"catboostevaluate", "file", "getclienthttpheader", "joinget", "joingetornull"});
constexpr std::array kExternalPrefixes =
    std::to_array<Name>({"aiclassify", "aiembed", "aiextract", "aigenerate", "aitranslate", "dict",
                         "naivebayesclassifier"});
constexpr std::array kNonDeterministic = std::to_array<Name>({"arraypartialshuffle",
                                                              "arrayrandomsample",
                                                              "arrayshuffle",
                                                              "blocknumber",
                                                              "blocksize",
                                                              "curdate",
                                                              "current_date",
                                                              "current_timestamp",
                                                              "datetimetouuidv7",
                                                              "fqdn",
                                                              "fuzzbits",
                                                              "generaterandomstructure",
                                                              "generateserialid",
                                                              "generatesnowflakeid",
                                                              "generateulid",
                                                              "hostname",
                                                              "localtime",
                                                              "localtimestamp",
                                                              "neighbor",
                                                              "queryid",
                                                              "rownumberinallblocks",
                                                              "rownumberinblock",
                                                              "runningaccumulate",
                                                              "runningconcurrency",
                                                              "today",
                                                              "uptime",
                                                              "utc_timestamp",
                                                              "utctimestamp",
                                                              "yesterday"});
constexpr std::array kNonDeterministicPrefixes =
    std::to_array<Name>({"generateuuid", "now", "rand", "runningdifference"});

constexpr std::array kReservedSettings = std::to_array<Name>(
    {"additional_table_filters", "force_optimize_projection", "log_comment", "max_insert_threads",
     "max_threads", "optimize_use_projections", "readonly"});
// Parts of names. A statement that ends well with a part of its rows looks like one that was
// complete: the read and written counts agree. So no *_overflow_mode (every limit must throw), and
// nothing that reads one replica's share only.
constexpr std::array kReservedPartsOfNames = std::to_array<Name>(
    {"overflow_mode", "parallel_replica", "partial_result", "skip_unavailable_shards"});
constexpr std::array kRowSetSettings = std::to_array<Name>(
    {"additional_result_filter", "apply_deleted_mask", "final", "limit",
     "max_limit_for_vector_search_queries", "offset", "use_query_condition_cache"});

std::string Lower(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

template <class List>
bool IsIn(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}
template <class List>
bool BeginsAsIn(const List& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(),
                     [name](Name prefix) { return name.starts_with(prefix); });
}

bool ContainsOneOf(std::span<const Name> parts, std::string_view name) {
  return std::any_of(parts.begin(), parts.end(),
                     [name](Name part) { return name.find(part) != std::string_view::npos; });
}

}  // namespace

bool IsHarmlessTableFunction(std::string_view name) {
  return IsIn(kHarmlessTableFunctions, Lower(name));
}

bool IsExternalFunction(std::string_view name) {
  const std::string lower = Lower(name);
  return IsIn(kExternalFunctions, lower) || BeginsAsIn(kExternalPrefixes, lower);
}

bool IsNonDeterministicFunction(std::string_view name) {
  const std::string lower = Lower(name);
  return IsIn(kNonDeterministic, lower) || BeginsAsIn(kNonDeterministicPrefixes, lower);
}

bool IsPartNameColumn(std::string_view name) {
  static constexpr std::array kColumns =
      std::to_array<Name>({"_block_number", "_disk_name", "_part", "_part_data_version",
                           "_part_granule_offset", "_part_index", "_part_starting_offset"});
  return IsIn(kColumns, name);
}

SettingVerdict JudgeJobSetting(std::string_view name) {
  if (IsIn(kReservedSettings, name) || name.starts_with("max_memory_usage") ||
      ContainsOneOf(kReservedPartsOfNames, name))
    return SettingVerdict::kReserved;
  if (IsIn(kRowSetSettings, name)) return SettingVerdict::kRowSet;
  return name == "max_block_size" ? SettingVerdict::kWarned : SettingVerdict::kFree;
}

SqlKind KindOfRootNode(std::string_view node) {
  static constexpr std::array kRead =
      std::to_array<Name>({"SelectWithUnionQuery", "SelectQuery", "SelectIntersectExceptQuery",
                           "Explain", "DescribeQuery", "CheckQuery"});
  static constexpr std::array kMutation = std::to_array<Name>(
      {"AlterQuery", "DeleteQuery", "UpdateQuery", "TruncateQuery", "OptimizeQuery"});
  static constexpr std::array kDefinition = std::to_array<Name>(
      {"CreateQuery", "DropQuery", "AttachQuery", "DetachQuery", "Rename", "UndropQuery",
       "CreateFunctionQuery", "DropFunctionQuery", "CreateIndexQuery", "DropIndexQuery"});
  if (IsIn(kRead, node) || node.starts_with("Show") || node.starts_with("Exists"))
    return SqlKind::kRead;
  if (node == "InsertQuery") return SqlKind::kInsert;
  if (IsIn(kMutation, node)) return SqlKind::kMutation;
  return IsIn(kDefinition, node) ? SqlKind::kDefinition : SqlKind::kControl;
}

}  // namespace partforge
