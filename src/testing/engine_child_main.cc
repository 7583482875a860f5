// The engine process for tests: `engine_child engine --path=DIR …`, the same words as `partforge
// engine …`.
#include <cstdio>
#include <cstdlib>

#include "base/process.h"
#include "base/world.h"
#include "engine/engine_server.h"

namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace partforge;
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "engine") words.erase(words.begin());
  auto world = World::Open({});
  auto options = ParseEngineArguments(words);
  if (!world.ok() || !options.ok()) {
    std::fprintf(stderr, "%s\n",
                 (world.ok() ? options.status() : world.status()).ToString().c_str());
    return 2;
  }
  const auto library = FindEngineLibrary({.flag = options->library,
                                          .environment = Environment("PARTFORGE_ENGINE_LIBRARY"),
                                          .self = SelfPath(),
                                          .deps = Environment("PARTFORGE_DEPS_PREFIX")});
  if (!library.ok()) {
    std::fprintf(stderr, "%s\n", library.status().ToString().c_str());
    return 2;
  }
  options->library = *library;
  options->access_key = Secret(Environment("PARTFORGE_ENGINE_KEY"));
  return RunEngineServer((*world)->MakeContext({}), *options);
}
