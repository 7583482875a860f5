#include "testing/engine_contract.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"
#include "engine/child_engine.h"
#include "engine/http_engine.h"
#include "testing/engine_child_fixture.h"

namespace partforge {
namespace {

TEST(EngineContract, TheEmbeddedEngineKeepsIt) {
  testing::TestWorld world;
  const testing::TempDir dir;
  const auto engine =
      ChildEngine::Start(world.context(), testing::EngineChildOptions(dir / "data"));
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  testing::CheckEngineContract(world.context(), **engine, "contract");
}

// A real server, e.g. PARTFORGE_TEST_CLICKHOUSE_URL=http://127.0.0.1:8123 (and …_USER, …_PASSWORD).
TEST(EngineContract, ARealServerKeepsIt) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  HttpEngineOptions options;
  options.url = variable("PARTFORGE_TEST_CLICKHOUSE_URL");
  if (options.url.empty())
    GTEST_SKIP() << "no real ClickHouse: PARTFORGE_TEST_CLICKHOUSE_URL is not set";
  options.user = variable("PARTFORGE_TEST_CLICKHOUSE_USER");
  options.password = Secret(variable("PARTFORGE_TEST_CLICKHOUSE_PASSWORD"));
  testing::TestWorld world;
  const auto engine = HttpEngine::Open(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  SystemRandom random;
  testing::CheckEngineContract(world.context(), **engine,
                               "partforge_contract_" + RandomHex(random, 4));
}

}  // namespace
}  // namespace partforge
