#pragma once

#include <string_view>

#include "engine/sql_check.h"

namespace partforge {

// Lists of names that the SQL checks go by. Names of functions are compared without regard to case,
// as many of them are.

// Table functions that make rows out of nothing or out of the engine's own tables. All others count
// as external.
bool IsHarmlessTableFunction(std::string_view name);
// Functions that reach beyond the statement's tables: files, models, network, dictionaries, Join
// tables. Grants do not cover them (measured: file() reads any file of the machine).
bool IsExternalFunction(std::string_view name);
// Functions whose value differs from run to run or with the order of blocks (clickhouse-parts
// §9.2).
bool IsNonDeterministicFunction(std::string_view name);
// A virtual column of MergeTree whose value follows from the part's name or place, not from its
// rows.
bool IsPartNameColumn(std::string_view name);

// What a job's own SETTINGS clause may not, or had better not, name (clickhouse-parts §9.1,
// user-experience §10).
enum class SettingVerdict : uint8_t {
  kFree,
  kReserved,  // the job controls it
  kRowSet,    // it changes which rows a statement sees
  kWarned,    // max_block_size
};
SettingVerdict JudgeJobSetting(std::string_view name);

// Kind of a statement by the root of its EXPLAIN AST.
SqlKind KindOfRootNode(std::string_view node);

}  // namespace partforge
