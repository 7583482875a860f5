#include "clickhouse/frozen_columns.h"

#include <fmt/format.h>

#include <charconv>

#include "base/parallel_for.h"
#include "clickhouse/fingerprint.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/part_files.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int kReadThreads = 8;

// A mutation that gave names of columns another meaning, in the partitions it was written for
// (replicated tables) or, without one, in all.
struct Renaming {
  std::string command, partition;
  int64_t version = 0;  // parts of a lower data version were written before it
};

Result<std::vector<Renaming>> ReadRenamings(const Context& ctx, Engine& source,
                                            const TableName& table) {
  PF_ASSIGN(
      const QueryOutcome outcome,
      source.Query(ctx,
                   fmt::format("SELECT command, partition_id, version FROM system.mutations ARRAY "
                               "JOIN block_numbers.partition_id AS partition_id, "
                               "block_numbers.number AS version WHERE database = {} AND table = {} "
                               "AND match(command, '(?i)(RENAME|DROP) COLUMN') "
                               "ORDER BY version",
                               QuoteString(table.database), QuoteString(table.table)),
                   {}));
  std::vector<Renaming> renamings;
  for (const auto& row : SplitTsv(outcome.text)) {
    Renaming one{.command = row.at(0), .partition = row.at(1), .version = 0};
    const std::string& number = row.at(2);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), one.version);
    if (error != std::errc() || end != number.data() + number.size())
      return Status(Code::kInternal, fmt::format("the version of a mutation is: {}", number));
    renamings.push_back(std::move(one));
  }
  return renamings;
}

// MergeTree: a mutation is applied to parts whose data version is below its own.
Status CheckNotOlder(const FrozenPart& part, const std::vector<Renaming>& renamings,
                     const TableName& table) {
  const int64_t data_version = part.name.mutation.value_or(part.name.min_block);
  for (const Renaming& renaming : renamings) {
    const bool is_of_part =
        renaming.partition.empty() || renaming.partition == part.name.partition_id;
    if (!is_of_part || data_version >= renaming.version) continue;
    return Status(Code::kRefused,
                  fmt::format("part {} was frozen before ALTER TABLE … {}: its columns may mean "
                              "something else now",
                              part.name.ToString(), renaming.command))
        .Explain(2147, table.ToString(), "freeze the table again and use that freeze");
  }
  return {};
}

}  // namespace

Status CheckFrozenColumns(const Context& ctx, Engine& source, Engine& local, const TableName& table,
                          const std::string& source_schema, const std::vector<FrozenPart>& parts) {
  PF_ASSIGN(const std::vector<Renaming> renamings, ReadRenamings(ctx, source, table));
  DdlOptions options;
  PF_ASSIGN(options.engine, ReadEngineNames(ctx, local));
  PF_ASSIGN(const LocalDdl ddl, NormalizeSource(source_schema, options));
  const std::vector<PartColumn> declared = StoredColumns(ddl.table);
  const auto check = [&](const Context& inner, int64_t i) -> Status {
    const FrozenPart& part = parts[static_cast<size_t>(i)];
    PF_TRY(CheckNotOlder(part, renamings, table));
    PF_ASSIGN(const PartInfo info, ReadPart(inner, part.directory));
    Result<std::vector<std::string>> fits = CheckPartColumns(info, declared, table.ToString());
    return fits.ok() ? Status() : std::move(fits).status().As(Code::kRefused);
  };
  return ParallelFor(ctx, static_cast<int64_t>(parts.size()), kReadThreads, check);
}

}  // namespace partforge::clickhouse
