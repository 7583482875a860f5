#include "base/failure_class.h"

namespace partforge {

std::string_view FailureClassName(FailureClass failure_class) {
  switch (failure_class) {
    case FailureClass::kResource:
      return "resource";
    case FailureClass::kTransient:
      return "transient";
    case FailureClass::kSql:
      return "sql";
    case FailureClass::kData:
      return "data";
    case FailureClass::kDisk:
      return "disk";
    case FailureClass::kEnv:
      return "env";
    case FailureClass::kDoubt:
      return "doubt";
    case FailureClass::kConflict:
      return "conflict";
    case FailureClass::kCrash:
      return "crash";
    case FailureClass::kPoison:
      return "poison";
    case FailureClass::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace partforge
