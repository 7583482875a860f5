#include "testing/engine_contract.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/random.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"
#include "testing/engine_child_fixture.h"

namespace partforge::testing {
namespace {

class Laws {
 public:
  Laws(const Context& ctx, Engine& engine, std::string database)
      : ctx_(ctx),
        engine_(engine),
        database_(std::move(database)),
        tag_(RandomHex(ctx.random, 6)) {}

  void Check() {
    Ask("CREATE DATABASE " + QuoteIdentifier(database_) + " ENGINE = Atomic");
    AnswersAreText();
    ErrorsHaveNumbers();
    SettingsAndParametersHoldForOneQuery();
    RowsGoInAndOut();
    PartsMove();
    KilledQueriesEnd();
    Ask("DROP DATABASE " + QuoteIdentifier(database_) + " SYNC");
  }

 private:
  std::string Ask(const std::string& sql, const QueryOptions& options = {}) {
    const auto outcome = engine_.Query(ctx_, sql, options);
    EXPECT_TRUE(outcome.ok()) << sql << "\n" << outcome.status().ToString();
    return outcome.ok() ? outcome->text : "";
  }
  int NumberOf(const std::string& sql, const QueryOptions& options = {}) {
    const auto outcome = engine_.Query(ctx_, sql, options);
    EXPECT_FALSE(outcome.ok()) << sql;
    return outcome.ok() ? 0 : ClickHouseNumber(outcome.status());
  }
  std::string Table(const std::string& name) const { return QuoteTable(database_, name); }

  void AnswersAreText() {
    EXPECT_EQ(Ask("SELECT 1, 'a\tb'"), "1\ta\\tb\n");
    EXPECT_EQ(Ask("SELECT 1 AS x FORMAT JSONEachRow"), "{\"x\":1}\n");
    EXPECT_EQ(Ask("SELECT 1 WHERE 0"), "");
  }

  void ErrorsHaveNumbers() {
    EXPECT_EQ(NumberOf("SELECT FROM WHERE"), 62);
    EXPECT_EQ(NumberOf("SELECT * FROM " + Table("none")), 60);
    EXPECT_EQ(NumberOf("SELECT throwIf(1)"), 395);
    EXPECT_EQ(NumberOf("SELECT 1; SELECT 2"), 62);
    EXPECT_EQ(NumberOf("SELECT sum(number) FROM numbers(100000000) GROUP BY number",
                       {.settings = {{"max_memory_usage", "20000000"}}}),
              241);
  }

  void SettingsAndParametersHoldForOneQuery() {
    EXPECT_EQ(
        Ask("SELECT getSetting('max_block_size')", {.settings = {{"max_block_size", "4242"}}}),
        "4242\n");
    EXPECT_NE(Ask("SELECT getSetting('max_block_size')"), "4242\n");
    EXPECT_EQ(Ask("SELECT {a:UInt8}", {.parameters = {{"a", "7"}}}), "7\n");
    EXPECT_EQ(Ask("SELECT currentDatabase()", {.database = database_}), database_ + "\n");
  }

  void RowsGoInAndOut() {
    Ask("CREATE TABLE " + Table("rows") + " (a UInt64, s String) ENGINE = MergeTree ORDER BY a");
    StringRows rows({"1\tx\n2\t", "y\n", "3\tz\n"});
    const auto inserted = engine_.Insert(
        ctx_, "INSERT INTO " + Table("rows") + " (a, s) FORMAT TabSeparated", rows, {});
    ASSERT_TRUE(inserted.ok()) << inserted.status().ToString();
    EXPECT_EQ(inserted->written_rows, 3);
    auto stream =
        engine_.Select(ctx_, "SELECT a, s FROM " + Table("rows") + " ORDER BY a", "CSV", {});
    ASSERT_TRUE(stream.ok()) << stream.status().ToString();
    EXPECT_EQ(ReadAll(ctx_, **stream).value(), "1,\"x\"\n2,\"y\"\n3,\"z\"\n");
    const auto selected = engine_.Query(
        ctx_, "INSERT INTO " + Table("rows") + " SELECT a + 10, s FROM " + Table("rows"), {});
    ASSERT_TRUE(selected.ok()) << selected.status().ToString();
    EXPECT_EQ(selected->written_rows, 3);
    EXPECT_EQ(selected->read_rows, 3);
    auto failing =
        engine_.Select(ctx_, "SELECT throwIf(number = 2000000) FROM numbers(3000000)", "TSV", {});
    const Status late = failing.ok() ? ReadAll(ctx_, **failing).status() : failing.status();
    EXPECT_EQ(ClickHouseNumber(late), 395) << late.ToString();
  }

  void PartsMove() {
    Ask("CREATE TABLE " + Table("parts") +
        " (d Date, n UInt64) ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY n");
    Ask("CREATE TABLE " + Table("done") + " AS " + Table("parts"));
    Ask("INSERT INTO " + Table("parts") +
        " SELECT toDate('2024-01-01') + number, number FROM numbers(40)");
    Ask("ALTER TABLE " + Table("parts") + " MOVE PARTITION ID '202402' TO TABLE " + Table("done"));
    EXPECT_EQ(Ask("SELECT count() FROM " + Table("done")), "9\n");
    Ask("EXCHANGE TABLES " + Table("parts") + " AND " + Table("done"));
    EXPECT_EQ(Ask("SELECT count() FROM " + Table("parts")), "9\n");
    EXPECT_EQ(NumberOf("ALTER TABLE " + Table("parts") + " ATTACH PART 'no-part'"), 233);
  }

  void KilledQueriesEnd() {
    EXPECT_TRUE(engine_.Kill(ctx_, "pf-never-" + tag_).ok());
    const std::string id = "pf-contract-" + tag_;
    Status ended;
    std::jthread query([&] {
      auto outcome = engine_.Query(
          ctx_, "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))",
          {.query_id = id});
      if (!outcome.ok()) ended = std::move(outcome).status();
    });
    const std::string running = "SELECT count() FROM system.processes WHERE (query_id = '" + id +
                                "' OR Settings['log_comment'] = '" + id + "')";
    for (int i = 0; i < 1000 && Ask(running) == "0\n"; ++i) {
    }
    const Status killed = engine_.Kill(ctx_, id);
    EXPECT_TRUE(killed.ok()) << killed.ToString();
    EXPECT_EQ(Ask(running), "0\n");
    query.join();
    EXPECT_EQ(ended.code(), Code::kCancelled) << ended.ToString();
  }

  const Context& ctx_;
  Engine& engine_;
  const std::string database_, tag_;
};

}  // namespace

void CheckEngineContract(const Context& ctx, Engine& engine, const std::string& database) {
  Laws(ctx, engine, database).Check();
}

}  // namespace partforge::testing
