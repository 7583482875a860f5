#include "clickhouse/kept_tables.h"

#include <utility>

namespace partforge::clickhouse {

std::unique_ptr<LocalTables> KeptTables::Take(int slot,
                                              const std::shared_ptr<const LocalSchemas>& schemas,
                                              const EngineWish& wish) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(slot);
  if (found == entries_.end()) return nullptr;
  Entry entry = std::move(found->second);
  entries_.erase(found);
  if (entry.schemas != schemas || entry.wish != wish) return nullptr;
  return std::move(entry.tables);
}

void KeptTables::Keep(int slot, std::shared_ptr<const LocalSchemas> schemas, const EngineWish& wish,
                      std::unique_ptr<LocalTables> tables) {
  const std::lock_guard lock(mutex_);
  entries_.insert_or_assign(
      slot, Entry{.schemas = std::move(schemas), .wish = wish, .tables = std::move(tables)});
}

}  // namespace partforge::clickhouse
