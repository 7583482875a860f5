#include "engine/explain_tree.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge {
namespace {
constexpr size_t kLinesMax = 2'000'000;
}  // namespace

std::string_view ExplainNode::Kind() const {
  const std::string_view line = text;
  if (const size_t id = line.find(" id: "); id != std::string_view::npos) return line.substr(0, id);
  // Sections of QUERY TREE are written in capitals, kinds of AST are one word.
  const bool is_section = line.size() >= 2 && line[1] >= 'A' && line[1] <= 'Z' && line[0] >= 'A' &&
                          line[0] <= 'Z' && !line.starts_with("SYSTEM");
  if (!is_section) return line.substr(0, line.find(' '));
  const size_t end = line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ ");
  std::string_view section = line.substr(0, end);
  while (section.ends_with(' ')) section.remove_suffix(1);
  if (end != std::string_view::npos && line[end - 1] != ' ')
    section = section.substr(0, section.rfind(' '));
  return section;
}

std::string_view ExplainNode::AstName() const {
  const size_t space = text.find(' ');
  if (space == std::string::npos) return {};
  std::string_view rest = std::string_view(text).substr(space + 1);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest.starts_with("(children ") || rest.starts_with("(alias ")) return {};
  const size_t end = std::min(rest.find(" (alias "), rest.find(" (children "));
  return rest.substr(0, end);
}

std::string_view ExplainNode::Attribute(std::string_view key) const {
  const std::string_view line = text;
  for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    const bool begins = at == 0 || line[at - 1] == ' ';
    std::string_view rest = line.substr(at + key.size());
    if (!begins || !rest.starts_with(": ")) continue;
    rest.remove_prefix(2);
    return rest.substr(0, rest.find(", "));
  }
  return {};
}

Result<std::vector<ExplainNode>> ParseExplain(std::string_view answer, ExplainKind kind) {
  const size_t step = kind == ExplainKind::kAst ? 1 : 2;
  std::vector<ExplainNode> nodes;
  std::vector<int> path;  // the last line of each depth
  while (!answer.empty()) {
    const size_t end = std::min(answer.find('\n'), answer.size());
    const std::string_view line = answer.substr(0, end);
    answer.remove_prefix(std::min(end + 1, answer.size()));
    const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    const size_t depth = blanks / step;
    if (line.empty()) continue;
    if (blanks % step != 0 || depth > path.size() || nodes.size() >= kLinesMax) {
      return Status(Code::kCorruption, fmt::format("EXPLAIN answered no tree, at line {}: {}",
                                                   nodes.size() + 1, line));
    }
    path.resize(depth);
    nodes.push_back({.text = std::string(line.substr(blanks)),
                     .depth = depth,
                     .parent = depth == 0 ? -1 : path.back()});
    path.push_back(static_cast<int>(nodes.size()) - 1);
  }
  if (nodes.empty()) return Status(Code::kCorruption, "EXPLAIN answered nothing");
  return nodes;
}

bool HasAbove(const std::vector<ExplainNode>& nodes, size_t index, std::string_view kind) {
  for (int above = nodes[index].parent; above >= 0;
       above = nodes[static_cast<size_t>(above)].parent) {
    if (nodes[static_cast<size_t>(above)].Kind() == kind) return true;
  }
  return false;
}

}  // namespace partforge
