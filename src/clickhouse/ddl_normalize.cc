#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "clickhouse/ddl.h"
#include "clickhouse/sql_cursor.h"

namespace partforge::clickhouse {
namespace {

constexpr int kSourcePf = 2101, kDestinationPf = 2104, kCodecPf = 2116;

// Settings that name a place, a replica or a limit of the server the table comes from. A final '*'
// stands for any ending. They would fail here (policies, disks) or mean something else.
constexpr std::array<std::string_view, 14> kForeignSettings = {
    "storage_policy",
    "disk",
    "table_disk",
    "replicated_*",
    "allow_remote_fs_zero_copy_replication",
    "min_relative_delay_*",
    "shared_merge_tree_*",
    "use_metadata_cache",
    "non_replicated_deduplication_window",
    "fsync_*",
    "max_parts_in_total",
    "parts_to_*",
    "zero_copy_*",
    "remote_fs_*"};
// Only where the TTL itself is taken out.
constexpr std::array<std::string_view, 2> kTtlSettings = {"ttl_only_drop_parts",
                                                          "merge_with_ttl_timeout"};

// Guards against odd schemas. A table that exists has passed them, or had them switched off in its
// server's configuration, which SHOW CREATE TABLE does not tell.
constexpr std::array<std::string_view, 8> kLenientSettings = {
    "allow_coalescing_columns_in_partition_or_order_key",
    "allow_dimensions_outside_sorting_key",
    "allow_experimental_reverse_key",
    "allow_floating_point_partition_key",
    "allow_minmax_index_for_json",
    "allow_nullable_key",
    "allow_summing_columns_in_partition_or_order_key",
    "allow_suspicious_indices"};

bool MatchesAny(std::string_view name, std::span<const std::string_view> patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

bool Contains(const std::vector<std::string>& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name, std::less<>());
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

// Words before a bracket that the parser itself understands; they stand in no system table.
constexpr std::array<std::string_view, 25> kParserWords = {
    "and",      "any",      "all",      "array",    "as",   "between", "case",
    "cast",     "columns",  "date_add", "date_sub", "else", "exists",  "extract",
    "in",       "interval", "like",     "not",      "or",   "over",    "overlay",
    "position", "then",     "trim",     "when"};

// The functions that an expression calls: names right before an opening bracket.
Result<std::vector<std::string>> CalledNames(std::string_view expression) {
  PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(expression));
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens[i].IsName() || !tokens[i + 1].IsSymbol("(")) continue;
    if (i > 0 && tokens[i - 1].IsSymbol(".")) continue;
    PF_ASSIGN(std::string name, TokenValue(tokens[i]));
    names.push_back(std::move(name));
  }
  return names;
}

// Endings that turn one aggregate function into another: sumIf, quantileStateArray.
constexpr std::array<std::string_view, 16> kCombinators = {
    "If",       "Array",     "Map",    "State",    "SimpleState", "Merge",  "MergeState", "ForEach",
    "Distinct", "OrDefault", "OrNull", "Resample", "ArgMin",      "ArgMax", "Null",       "Tuple"};

bool KnowsFunction(std::string name, const EngineNames& engine) {
  const std::string lower = Lower(name);
  if (std::find(kParserWords.begin(), kParserWords.end(), lower) != kParserWords.end()) return true;
  while (true) {
    if (Contains(engine.functions, name) || Contains(engine.functions, Lower(name))) return true;
    const auto ending =
        std::find_if(kCombinators.begin(), kCombinators.end(),
                     [&](std::string_view combinator) { return name.ends_with(combinator); });
    if (ending == kCombinators.end() || ending->size() == name.size()) return false;
    name.resize(name.size() - ending->size());
  }
}

// A name the engine does not know, or "" when it knows all of them.
Result<std::string> UnknownFunction(std::string_view expression, const EngineNames& engine) {
  if (engine.functions.empty()) return std::string();
  PF_ASSIGN(const std::vector<std::string> names, CalledNames(expression));
  for (const std::string& name : names) {
    if (!KnowsFunction(name, engine)) return name;
  }
  return std::string();
}

// Takes out of a statement what the local engine must not see; notes each removal.
class Normalizer {
 public:
  Normalizer(CreateTable table, const DdlOptions& options, int pf_number)
      : options_(options), pf_number_(pf_number) {
    ddl_.table = std::move(table);
  }

  Status TakeOutPlacement() {
    CreateTable& table = ddl_.table;
    if (table.is_attach) Removed("ATTACH");
    if (table.if_not_exists) Removed("IF NOT EXISTS");
    if (!table.uuid.empty()) Removed("UUID");
    if (!table.cluster.empty()) Removed("ON CLUSTER " + table.cluster);
    table.is_attach = table.if_not_exists = false;
    table.uuid.clear();
    table.cluster.clear();
    PF_TRY(MakeLocalEngine());
    TakeOutSettings(
        [](const EngineSetting& setting) { return MatchesAny(setting.name, kForeignSettings); });
    if (!options_.engine.merge_tree_settings.empty()) {
      TakeOutSettings([&](const EngineSetting& setting) {
        return !Contains(options_.engine.merge_tree_settings, setting.name);
      });
    }
    PutInLenientSettings();
    return CheckCodecs();
  }

  // TTL … TO DISK 'x', TO VOLUME 'x': the local engine has one disk and one volume, "default". The
  // moves stay, since their times belong into ttl.txt (which names no disk or volume); the
  // destination's server makes them.
  Status MoveNowhere() {
    std::string& ttl = ddl_.table.ttl;
    PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(ttl));
    std::string moved;
    size_t copied = 0;
    for (size_t i = 0; i + 2 < tokens.size(); ++i) {
      if (!tokens[i].IsWord("TO")) continue;
      if (!tokens[i + 1].IsWord("DISK") && !tokens[i + 1].IsWord("VOLUME")) continue;
      size_t at = i + 2;
      if (at + 2 < tokens.size() && tokens[at].IsWord("IF") && tokens[at + 1].IsWord("EXISTS"))
        at += 2;
      if (tokens[at].kind != SqlTokenKind::kString) continue;
      Removed(fmt::format("TTL TO {} {}", tokens[i + 1].text, tokens[at].text));
      moved += ttl.substr(copied, tokens[at].offset - copied);
      moved += "'default'";
      copied = tokens[at].end();
    }
    ttl = moved + ttl.substr(copied);
    return {};
  }

  Status TakeOutWhatReadingDoesNotNeed() {
    CreateTable& table = ddl_.table;
    if (!table.ttl.empty()) Removed("TTL of the table");
    table.ttl.clear();
    for (ColumnDefinition& column : table.columns) {
      if (!column.ttl.empty()) Removed("TTL of column " + column.name);
      if (!column.statistics.empty()) Removed("STATISTICS of column " + column.name);
      column.ttl.clear();
      column.statistics.clear();
    }
    TakeOutSettings(
        [](const EngineSetting& setting) { return MatchesAny(setting.name, kTtlSettings); });
    PF_TRY(TakeOutElements());
    return CheckDefaults();
  }

  LocalDdl Take() {
    ddl_.sql = ddl_.table.ToSql();
    return std::move(ddl_);
  }

 private:
  void Removed(std::string what) { ddl_.removals.push_back(std::move(what)); }

  Status Refuse(int pf_number, std::string message, std::string remedy) const {
    return Status(Code::kRefused, std::move(message))
        .Explain(pf_number, ddl_.table.name.ToString(), std::move(remedy));
  }

  Status MakeLocalEngine() {
    CreateTable& table = ddl_.table;
    if (!table.IsMergeTree()) {
      return Refuse(pf_number_, fmt::format("its engine is {}", table.engine),
                    "name a table of the MergeTree family");
    }
    for (const std::string_view prefix : {"Replicated", "Shared"}) {
      if (!table.engine.starts_with(prefix)) continue;
      Removed(table.engine);
      table.engine.erase(0, prefix.size());
      // Path and replica; without them the server's defaults held.
      const bool has_paths = table.engine_args.size() >= 2 &&
                             table.engine_args[0].starts_with('\'') &&
                             table.engine_args[1].starts_with('\'');
      if (has_paths)
        table.engine_args.erase(table.engine_args.begin(), table.engine_args.begin() + 2);
      if (table.engine_args.empty()) table.has_engine_parentheses = false;
      break;
    }
    if (table.engine == "MergeTree" && !table.engine_args.empty()) {
      return Refuse(pf_number_, "MergeTree with arguments is the syntax of before 2018",
                    "write the keys as PARTITION BY and ORDER BY");
    }
    return {};
  }

  void PutInLenientSettings() {
    std::vector<EngineSetting>& settings = ddl_.table.settings;
    for (const std::string_view name : kLenientSettings) {
      if (!Contains(options_.engine.merge_tree_settings, name)) continue;
      const bool is_set = std::any_of(settings.begin(), settings.end(),
                                      [&](const EngineSetting& s) { return s.name == name; });
      if (is_set) continue;
      settings.push_back({.name = std::string(name), .value = "1"});
      ddl_.additions.push_back(fmt::format("SETTINGS {} = 1", name));
    }
  }

  template <class Predicate>
  void TakeOutSettings(const Predicate& must_go) {
    std::erase_if(ddl_.table.settings, [&](const EngineSetting& setting) {
      if (!must_go(setting)) return false;
      Removed("SETTINGS " + setting.name);
      return true;
    });
  }

  Status CheckCodecs() {
    for (const ColumnDefinition& column : ddl_.table.columns) {
      if (column.codec.empty()) continue;
      PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(column.codec));
      PF_ASSIGN(const std::vector<TokenRange> codecs, SplitAtCommas(tokens, 0, tokens.size()));
      for (const TokenRange& codec : codecs) {
        if (codec.begin == codec.end) continue;
        PF_TRY(CheckCodec(column.name, tokens[codec.begin].text));
      }
    }
    return {};
  }

  Status CheckCodec(const std::string& column, std::string_view codec) {
    const bool is_encryption = codec.starts_with("AES_");
    if (is_encryption && !options_.has_encryption_keys) {
      return Refuse(kCodecPf, fmt::format("column {} is encrypted with {}", column, codec),
                    "write the column without encryption into another table first");
    }
    const std::vector<std::string>& known = options_.engine.codecs;
    if (known.empty() || is_encryption || Lower(codec) == "default") return {};
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const std::string& name) {
      return Lower(name) == Lower(codec);
    });
    if (is_known) return {};
    return Refuse(kCodecPf, fmt::format("column {} uses a codec unknown here: {}", column, codec),
                  "use an engine that knows it: --clickhouse-binary=/usr/bin/clickhouse");
  }

  Status TakeOutElements() {
    std::vector<NamedElement> kept;
    for (NamedElement& element : ddl_.table.elements) {
      bool keeps = element.kind == "PRIMARY KEY";
      if (element.kind == "INDEX") {
        PF_ASSIGN(keeps, KnowsIndex(element));
      }
      if (keeps) {
        kept.push_back(std::move(element));
      } else {
        Removed(element.name.empty() ? element.kind : element.kind + " " + element.name);
      }
    }
    ddl_.table.elements = std::move(kept);
    return {};
  }

  Result<bool> KnowsIndex(const NamedElement& element) {
    const std::vector<std::string>& known = options_.engine.index_types;
    if (known.empty()) return true;
    PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(element.body));
    for (size_t i = tokens.size(); i-- > 1;) {
      if (tokens[i - 1].IsWord("TYPE")) return Contains(known, Lower(tokens[i].text));
    }
    return true;
  }

  // Functions that only the source server has (user-defined ones, dictionaries).
  Status CheckDefaults() {
    for (ColumnDefinition& column : ddl_.table.columns) {
      if (column.default_expression.empty()) continue;
      PF_ASSIGN(const std::string unknown,
                UnknownFunction(column.default_expression, options_.engine));
      if (unknown.empty()) continue;
      if (column.default_kind != "DEFAULT" || column.type.empty()) {
        return Refuse(pf_number_,
                      fmt::format("{} of column {} calls a function unknown here: {}",
                                  column.default_kind, column.name, unknown),
                      "write the expression without that function");
      }
      Removed(fmt::format("DEFAULT of column {} (unknown function {})", column.name, unknown));
      ddl_.columns_without_default.push_back(column.name);
      column.default_kind.clear();
      column.default_expression.clear();
    }
    return {};
  }

  const DdlOptions& options_;
  const int pf_number_;
  LocalDdl ddl_;
};

Result<CreateTable> Parse(std::string_view sql, int pf_number, std::string_view which) {
  Result<CreateTable> table = ParseCreateTable(sql);
  if (table.ok()) return table;
  return std::move(table)
      .status()
      .As(Code::kRefused)
      .Explain(pf_number, fmt::format("the {} table's CREATE TABLE", which),
               "one CREATE TABLE with its columns and an engine of the MergeTree family");
}

}  // namespace

std::map<std::string, std::string> LenientCreateSettings() {
  std::map<std::string, std::string> settings;
  for (const char* name : {"allow_suspicious_codecs", "allow_suspicious_fixed_string_types",
                           "allow_suspicious_indices", "allow_suspicious_low_cardinality_types",
                           "allow_suspicious_primary_key", "allow_suspicious_ttl_expressions",
                           "allow_suspicious_variant_types"}) {
    settings[name] = "1";
  }
  return settings;
}

Result<LocalDdl> NormalizeSource(std::string_view sql, const DdlOptions& options) {
  PF_ASSIGN(CreateTable table, Parse(sql, kSourcePf, "source"));
  Normalizer normalizer(std::move(table), options, kSourcePf);
  PF_TRY(normalizer.TakeOutPlacement());
  PF_TRY(normalizer.TakeOutWhatReadingDoesNotNeed());
  return normalizer.Take();
}

Result<LocalDdl> NormalizeDestination(std::string_view sql, const DdlOptions& options) {
  PF_ASSIGN(CreateTable table, Parse(sql, kDestinationPf, "destination"));
  Normalizer normalizer(std::move(table), options, kDestinationPf);
  PF_TRY(normalizer.TakeOutPlacement());
  PF_TRY(normalizer.MoveNowhere());
  return normalizer.Take();
}

}  // namespace partforge::clickhouse
