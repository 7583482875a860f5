#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "testing/source_tree.h"

namespace partforge::testing {

// The rules of the house that a program can check (HACKING.md, "How code reads here"). All pure.
// A violation reads "src/job/worker.cc:12: what stands there: what to write instead".
using Violations = std::vector<std::string>;
using RoomGraph = std::map<std::string, std::set<std::string>>;

// Includes go to the own room and to rooms that partforge_room() names, as "room/file.h"; heavy
// third-party headers stand only in .cc files. `generated` lists the headers of the build folder.
Violations CheckIncludes(const SourceFile& file, const RoomGraph& rooms,
                         const std::set<std::string>& generated);

// Words that are banned, each with its replacement and the places where it is allowed.
Violations CheckWords(const SourceFile& file);

// Variables that live as long as the program and can change: at namespace scope and as local
// statics. Sees declarations of one line, as clang-format lays them out.
Violations CheckGlobals(const SourceFile& file);

// Files and types are named after their concept: no util, helper, common, misc, manager.
Violations CheckNames(const SourceFile& file);

// A header starts with #pragma once.
Violations CheckHeaderGuard(const SourceFile& file);

// The fault points of a file, in order.
struct FaultPoint {
  std::string name;
  std::string place;  // "path:line"
};
std::vector<FaultPoint> FaultPoints(const SourceFile& file);

// Names of fault points stand once in the product, in the form room.done_verb.
Violations CheckFaultPoints(std::span<const SourceFile> files);

}  // namespace partforge::testing
