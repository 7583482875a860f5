#include "app/engine_command.h"

#include <fmt/format.h>

#include "app/wire.h"
#include "base/process.h"
#include "base/world.h"
#include "engine/engine_arguments.h"
#include "engine/engine_server.h"

namespace partforge::app {
namespace {

std::string Variable(const std::map<std::string, std::string>& environment,
                     const std::string& name) {
  const auto it = environment.find(name);
  return it == environment.end() ? std::string() : it->second;
}

}  // namespace

std::string EngineHelp() {
  return R"(The embedded engine as a server: started by workers, stands in for `clickhouse server`.

usage: partforge engine --path=DIR [flags]

examples:
  partforge engine --path=/var/tmp/engine
  partforge engine --path=/var/tmp/engine --port=8123 --allow-external-reads

  --path=DIR                data folder of this engine (required)
  --host=TEXT --port=N      address to answer at (default 127.0.0.1 and a free port, printed as JSON)
  --threads=N               threads of the HTTP server
  --engine-library=FILE     libchdb.so (default: beside the program)
  --config-file=FILE        a server's configuration, for its ports and settings
  --allow-external-reads    table functions that read files and other servers
  --pid-file --log-file --errorlog-file --log-level
  -- --KEY=VALUE …          keys of the server's configuration

exits: 0 ended in order · 1 failed · 2 usage · 3 refused

related: worker
)";
}

Status RunEngineCommand(const std::vector<std::string>& arguments,
                        const std::map<std::string, std::string>& environment) {
  PF_ASSIGN(EngineServerOptions options, ParseEngineArguments(arguments));
  EngineLibraryPlaces places;
  places.flag = options.library;
  places.environment = Variable(environment, "PARTFORGE_ENGINE_LIBRARY");
  places.self = SelfPath();
  places.deps = DepsFolder(environment);
  PF_ASSIGN(options.library, FindEngineLibrary(places));
  // Given by ChildEngine: other users of the machine can reach a loopback port too.
  options.access_key = Secret(Variable(environment, "PARTFORGE_ENGINE_KEY"));
  World::Options world_options;
  world_options.log.common = {{"component", "engine"}};
  world_options.log.level = LogLevel::kWarn;
  PF_ASSIGN(const std::unique_ptr<World> world, World::Open(world_options));
  const Context ctx = world->MakeContext({});
  const int code = RunEngineServer(ctx, options);
  if (code == 0) return {};
  return Status(Code::kUnavailable, fmt::format("the engine ended with {}", code))
      .Explain(2142, options.data_path.string(),
               "see the lines above; another process may use the same folder");
}

}  // namespace partforge::app
