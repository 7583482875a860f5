#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "clickhouse/local_schemas.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/slot_engines.h"

namespace partforge::clickhouse {

// The empty tables that a part left in a slot's engine for the next part of the same job: making
// and dropping two tables costs more than a small part's insert. Whoever takes them owns them, and
// gives them back only after an attempt that ended well. Thread-safe.
class KeptTables {
 public:
  // The slot's tables if they were made from these very schemas for such an engine, else null:
  // then what was kept is forgotten, and making new tables drops it in the engine too.
  std::unique_ptr<LocalTables> Take(int slot, const std::shared_ptr<const LocalSchemas>& schemas,
                                    const EngineWish& wish);
  // Keeps empty tables for the slot's next part.
  void Keep(int slot, std::shared_ptr<const LocalSchemas> schemas, const EngineWish& wish,
            std::unique_ptr<LocalTables> tables);

 private:
  struct Entry {
    std::shared_ptr<const LocalSchemas> schemas;
    EngineWish wish = EngineWish({});
    std::unique_ptr<LocalTables> tables;
  };
  std::mutex mutex_;
  std::map<int, Entry> entries_;  // by slot; guarded by mutex_
};

}  // namespace partforge::clickhouse
