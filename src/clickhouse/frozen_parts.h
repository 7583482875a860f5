#pragma once

#include <vector>

#include "clickhouse/freeze_scan.h"

namespace partforge::clickhouse {

// What a set of frozen parts of one table must be, so that each of its rows is there exactly once.

// kRefused (PF2107) naming the first patch part.
Status RefusePatches(const std::vector<FrozenPart>& parts, const TableName& table);

// kRefused (PF2119) when one part stands there twice: equal checksums.txt, and the same name or the
// same file on disk (hard links). Two inserts of equal rows are two parts and pass. Reads inode
// numbers.
Status RefuseDuplicates(const std::vector<FrozenPart>& parts, const TableName& table);

// Parts that no other covers; the covered ones are refused (PF2136) or set aside. Parts that share
// blocks without one covering the other are always refused. Keeps the order.
Result<FreezeScan> SeparateCovered(std::vector<FrozenPart> parts, const TableName& table,
                                   CoveredParts covered);

}  // namespace partforge::clickhouse
