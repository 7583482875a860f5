#include "app/concat_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace partforge::app {
namespace {

using data::ConcatColumn;
using data::ConcatReport;
using data::RewriteStep;
using data::StepKind;

// Steps of one kind and reason, counted together.
struct StepSum {
  int64_t steps = 0, groups = 0, rows = 0, bytes = 0;
};

std::string WayOf(StepKind kind) {
  switch (kind) {
    case StepKind::kCopy:
      return "copied byte by byte";
    case StepKind::kStitch:
      return "joined page by page";
    case StepKind::kFilterPages:
      return "rows left out page by page";
    case StepKind::kDecode:
      return "decoded and encoded";
  }
  return "";
}

JsonDoc StepJson(const RewriteStep& step, const ConcatReport& report) {
  JsonDoc groups = JsonDoc::array();
  for (const data::GroupRef& group : step.groups) {
    groups.push_back(
        JsonDoc{{"input", Printable(report.inputs[group.input])}, {"row_group", group.row_group}});
  }
  return JsonDoc{{"way", std::string(data::StepName(step.kind))},
                 {"row_groups", groups},
                 {"rows", step.live_rows},
                 {"bytes", step.bytes},
                 {"reason", Printable(step.reason)}};
}

std::string StepsText(const ConcatReport& report, const OutputStyle& style) {
  std::map<std::pair<StepKind, std::string>, StepSum> sums;
  for (const RewriteStep& step : report.steps) {
    StepSum& sum = sums[{step.kind, step.reason}];
    ++sum.steps;
    sum.groups += static_cast<int64_t>(step.groups.size());
    sum.rows += step.live_rows;
    sum.bytes += step.bytes;
  }
  Table table{{{.title = "HOW"},
               {.title = "ROW GROUPS", .is_right_aligned = true},
               {.title = "INTO", .is_right_aligned = true},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "WHY", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  for (const auto& [key, sum] : sums) {
    const bool is_decoded = key.first == StepKind::kDecode;
    table.rows.push_back({WayOf(key.first), FormatCount(sum.groups),
                          is_decoded ? "" : FormatCount(sum.steps), FormatCount(sum.rows),
                          FormatBytes(sum.bytes),
                          key.first == StepKind::kCopy ? "nothing changes" : key.second});
  }
  return table.rows.empty() ? "" : RenderTable(table, style);
}

// Which verification ran and how far it looked.
std::string VerifiedText(const ConcatReport& report) {
  if (report.verify == data::VerifyMode::kNone) return "  not verified\n";
  const data::VerifyCounts& counts = report.verified;
  const bool is_full = report.verify == data::VerifyMode::kFull;
  std::string text =
      fmt::format("  verified {}: {} pages decoded, {} {} compared with the inputs   ✓",
                  data::VerifyModeName(report.verify), FormatCount(counts.pages),
                  FormatCount(counts.rows_compared), is_full ? "rows" : "rows of single columns");
  if (counts.pages_unread > 0) {
    text += fmt::format(" · {} pages that cannot be read alone left out",
                        FormatCount(counts.pages_unread));
  }
  return text + "\n";
}

std::string ConcatColumnsText(const ConcatReport& report, const OutputStyle& style) {
  Table table{{{.title = "COLUMN", .is_right_aligned = false, .may_be_cut = true},
               {.title = "CHUNKS COPIED", .is_right_aligned = true},
               {.title = "PAGES COPIED", .is_right_aligned = true},
               {.title = "PAGES CHANGED", .is_right_aligned = true},
               {.title = "ROWS DECODED", .is_right_aligned = true}},
              {}};
  const bool has_reason =
      std::any_of(report.columns.begin(), report.columns.end(),
                  [](const ConcatColumn& column) { return !column.decode_reason.empty(); });
  if (has_reason) {
    table.columns.push_back(
        {.title = "WHY DECODED", .is_right_aligned = false, .may_be_cut = true});
  }
  for (const ConcatColumn& column : report.columns) {
    auto& row = table.rows.emplace_back();
    row = {column.path, FormatCount(column.chunks_copied), FormatCount(column.pages.pages_copied),
           FormatCount(column.pages.pages_changed), FormatCount(column.rows_decoded)};
    if (has_reason) row.push_back(column.decode_reason);
  }
  return table.rows.empty() ? "" : "\n" + RenderTable(table, style);
}

}  // namespace

std::string ConcatText(const ConcatReport& report, std::string_view output, ConcatRun run,
                       const OutputStyle& style) {
  const bool is_dry_run = run == ConcatRun::kDry;
  std::string text =
      fmt::format("{}  {}\n", is_dry_run ? "would join into" : "joined into", Printable(output));
  const std::string in =
      fmt::format("{} → 1", FormatCount(static_cast<int64_t>(report.inputs.size())));
  text += fmt::format("  files    {}        bytes {}", in, FormatBytes(report.bytes_in));
  if (!is_dry_run) text += fmt::format(" → {}", FormatBytes(report.output.size_bytes));
  text += fmt::format("\n  rows     {} in", FormatCount(report.rows_in));
  if (!is_dry_run) {
    text += fmt::format(" · {} out   {} conserved", FormatCount(report.output.row_count),
                        report.output.row_count == report.rows_in ? "✓" : "✗");
  }
  text += "\n";
  if (!is_dry_run) text += VerifiedText(report);
  if (!report.dropped_keys.empty()) {
    std::vector<std::string> keys;
    for (const std::string& key : report.dropped_keys) keys.push_back(Printable(key));
    text += fmt::format("  left out properties that differ between the inputs: {}\n",
                        fmt::join(keys, ", "));
  }
  text += "\n" + StepsText(report, style);
  if (!is_dry_run) text += ConcatColumnsText(report, style);
  return text;
}

JsonDoc ConcatDocument(const ConcatReport& report, std::string_view output, ConcatRun run) {
  const bool is_dry_run = run == ConcatRun::kDry;
  JsonDoc doc{{"output", Printable(output)},
              {"dry_run", is_dry_run},
              {"files", static_cast<int64_t>(report.inputs.size())},
              {"bytes_in", report.bytes_in},
              {"rows_in", report.rows_in}};
  doc["dropped_properties"] = JsonDoc::array();
  for (const std::string& key : report.dropped_keys)
    doc["dropped_properties"].push_back(Printable(key));
  doc["steps"] = JsonDoc::array();
  for (const RewriteStep& step : report.steps) doc["steps"].push_back(StepJson(step, report));
  if (is_dry_run) return doc;
  const data::StitchCounts& pages = report.counts.pages;
  doc["bytes_out"] = report.output.size_bytes;
  doc["rows_out"] = report.output.row_count;
  doc["row_groups_out"] = static_cast<int64_t>(report.output.split_offsets.size());
  doc["row_groups_copied"] = report.counts.row_groups_copied;
  doc["pages"] = JsonDoc{{"copied", pages.pages_copied},
                         {"recompressed", pages.pages_recompressed},
                         {"remapped", pages.pages_remapped},
                         {"materialised", pages.pages_materialised}};
  doc["rows_decoded"] = report.counts.rows_decoded;
  doc["verified"] = JsonDoc{{"mode", std::string(data::VerifyModeName(report.verify))},
                            {"pages", report.verified.pages},
                            {"pages_compared", report.verified.pages_compared},
                            {"rows_compared", report.verified.rows_compared},
                            {"pages_unread", report.verified.pages_unread}};
  doc["columns"] = JsonDoc::array();
  for (const ConcatColumn& column : report.columns) {
    doc["columns"].push_back(JsonDoc{{"path", Printable(column.path)},
                                     {"chunks_copied", column.chunks_copied},
                                     {"pages_copied", column.pages.pages_copied},
                                     {"pages_changed", column.pages.pages_changed},
                                     {"rows_decoded", column.rows_decoded},
                                     {"decode_reason", Printable(column.decode_reason)}});
  }
  return doc;
}

}  // namespace partforge::app
