#include "clickhouse/engine_failure.h"

#include "engine/clickhouse_codes.h"

namespace partforge::clickhouse {

Failure ReadEngineFailure(const Status& status) {
  Failure failure = FailureFrom(status);
  failure.code = ClickHouseNumber(status);
  return failure;
}

}  // namespace partforge::clickhouse
