#include "app/csv.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace partforge::app {
namespace {

TEST(Csv, RowsAreTheObjectsOfTheFirstList) {
  const auto document = ParseJson(
      R"({"job_id": "j", "names": ["x"], "found": [
          {"id": "a", "rows": 12345678901, "stage": {"name": "insert", "ms": 1.5}, "tags": [1, 2]},
          {"id": "b", "failed": true, "rows": null, "stage": {}}],
          "later": [{"z": 1}]})");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(RenderCsv(*document),
            "id,rows,stage.name,stage.ms,tags,failed,stage\n"
            "a,12345678901,insert,1.5,\"[1,2]\",,\n"
            "b,,,,,true,{}\n");
}

TEST(Csv, TheTableWinsOverSums) {
  EXPECT_EQ(RenderCsv(*ParseJson(R"({"tiers": [{"tier": "T5"}], "parts": [{"id": "a"}]})")),
            "id\na\n");
}

TEST(Csv, ADocumentWithoutAListIsOneRow) {
  EXPECT_EQ(RenderCsv(*ParseJson(R"({"version": "1", "at": {"host": "h"}, "keys": [1]})")),
            "version,at.host,keys\n1,h,[1]\n");
}

TEST(Csv, AnEmptyListThatIsNoTableDoesNotTakeTheRowAway) {
  EXPECT_EQ(RenderCsv(*ParseJson(R"({"freeze": "f", "notes": []})")), "freeze,notes\nf,[]\n");
}

TEST(Csv, WhatWouldBreakALineIsQuoted) {
  const JsonDoc document{{"list", JsonDoc::array({JsonDoc{{"a,b", "x\"y\nz"}, {"c", "\r"}}})}};
  EXPECT_EQ(RenderCsv(document), "\"a,b\",c\n\"x\"\"y\nz\",\"\r\"\n");
}

TEST(Csv, AnEmptyListGivesNoLine) {
  EXPECT_EQ(RenderCsv(*ParseJson(R"({"jobs": []})")), "");
  EXPECT_EQ(RenderCsv(*ParseJson(R"({"job_id": "j", "events": []})")), "");
  EXPECT_EQ(RenderCsv(JsonDoc::object()), "");
}

}  // namespace
}  // namespace partforge::app
