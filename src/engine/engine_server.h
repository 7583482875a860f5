#pragma once

#include "base/context.h"
#include "engine/engine_arguments.h"

namespace partforge {

// Runs an engine process: loads libchdb, opens the data path, serves the ClickHouse HTTP interface,
// and prints one line
// {"ready":true,"port":N,"pid":N} on stdout when statements are taken. SIGTERM and SIGINT stop it:
// running statements are killed, and the process ends with _exit(0) (threads of the library never
// join), at the latest kEngineStopMsMax later. Must be called by the main thread before other
// threads are made that would take those signals. Returns an exit code only when it does not come
// so far; the reason is logged.
//   What a crash leaves: the data path as the engine recovers it; the folder partforge-engine in
//   it, written anew by the next start.
inline constexpr int64_t kEngineStopMsMax = 25'000;
int RunEngineServer(const Context& ctx, const EngineServerOptions& options);

}  // namespace partforge
