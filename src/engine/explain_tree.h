#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

// One line of EXPLAIN AST or EXPLAIN QUERY TREE (run_passes = 1, measured on 26.7), with its place
// in the tree.
struct ExplainNode {
  std::string text;  // without indentation
  size_t depth = 0;  // in steps of the format: one blank a level in AST, two in QUERY TREE
  int parent = -1;   // index of the line it stands below; -1 for a root

  // AST: "Function" of "Function sum (alias s) (children 1)". QUERY TREE: what stands before "
  // id:", or the whole line of a section.
  std::string_view Kind() const;
  // AST: the word behind the kind, e.g. the function's name; empty when there is none.
  std::string_view AstName() const;
  // QUERY TREE: the value of "key: value" up to the next ", "; empty when absent.
  std::string_view Attribute(std::string_view key) const;
};

enum class ExplainKind : uint8_t { kAst, kQueryTree };

// Parses an answer in TabSeparated (so that a line is a line whatever the texts hold). kCorruption
// when the indentation makes no tree; at most 2,000,000 lines.
Result<std::vector<ExplainNode>> ParseExplain(std::string_view answer, ExplainKind kind);

// True when some line above `index` has this kind.
bool HasAbove(const std::vector<ExplainNode>& nodes, size_t index, std::string_view kind);

}  // namespace partforge
