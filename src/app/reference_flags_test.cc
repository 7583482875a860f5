#include "app/reference_flags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "app/command.h"
#include "base/error_ids.h"

namespace partforge::app {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::set<std::string> FlagsOfAllCommands() {
  std::set<std::string> names;
  for (const CommandSpec& command : CommandSpecs()) {
    for (const OptionSpec& option : AllOptions(command)) {
      names.emplace(option.name);
      if (option.is_secret || option.may_hold_password)
        names.insert(std::string(option.name) + "-file");
    }
  }
  return names;
}

std::set<std::string> FlagsNamedIn(std::string_view text) {
  static const std::regex kFlag("--([a-z][a-z0-9-]*)");
  const std::string copy(text);
  std::set<std::string> names;
  for (std::sregex_iterator it(copy.begin(), copy.end(), kFlag), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

Result<ResolvedOptions> Resolve(std::string_view command, std::vector<std::string> argv) {
  const std::vector<CommandSpec> all = CommandSpecs();
  for (const CommandSpec& spec : all) {
    if (spec.name != command) continue;
    OptionInputs inputs;
    inputs.argv = std::move(argv);
    inputs.read_file = [](const std::string& path) {
      return Result<std::string>(Status(Code::kNotFound, path));
    };
    return ResolveOptions(spec, all, inputs);
  }
  return Status(Code::kNotFound, std::string(command));
}

TEST(ErrorTexts, NameOnlyFlagsAndCommandsThatExist) {
  std::set<std::string> flags = FlagsOfAllCommands(), commands;
  flags.insert({"name", "flag"});  // how flags are written at all (PF1003, PF1004)
  for (const CommandSpec& command : CommandSpecs()) commands.emplace(command.name);
  commands.insert({"help"});
  static const std::regex kCommand("`partforge ([a-z][a-z-]*)");
  for (const ErrorId& id : ErrorIds()) {
    for (const std::string& flag : FlagsNamedIn(id.paragraph))
      EXPECT_TRUE(flags.contains(flag)) << ErrorIdText(id.number) << ": --" << flag;
    const std::string text(id.paragraph);
    for (std::sregex_iterator it(text.begin(), text.end(), kCommand), end; it != end; ++it)
      EXPECT_TRUE(commands.contains((*it)[1])) << ErrorIdText(id.number) << ": " << (*it)[1];
  }
}

TEST(ReferenceFlags, AreNoFlagsOfOursAndPointToFlagsThatExist) {
  const std::set<std::string> ours = FlagsOfAllCommands();
  for (const ReferenceFlag& flag : ReferenceFlags()) {
    // One of a single command may be a flag of ours elsewhere.
    if (flag.command.empty()) {
      EXPECT_FALSE(ours.contains(std::string(flag.name))) << flag.name;
    }
    for (const std::string& named : FlagsNamedIn(flag.text))
      EXPECT_TRUE(ours.contains(named)) << flag.name << ": --" << named;
    if (flag.fate == ReferenceFlag::Fate::kRenamed) {
      EXPECT_TRUE(ours.contains(std::string(flag.text))) << flag.name;
    }
  }
}

TEST(ReferenceFlags, MeaninglessOnesAreAcceptedWithOneWarning) {
  const auto options =
      Resolve("worker", {"-s5cmd-binary", "/usr/bin/s5cmd", "--compact=false", "--compact",
                         "--compact-window=24h", "--clickhouse-prometheus-port", "9363", "--once"});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_TRUE(options->Bool("once"));
  EXPECT_THAT(options->arguments(), IsEmpty());
  ASSERT_THAT(options->warnings(), SizeIs(1));
  for (const char* const named :
       {"--s5cmd-binary", "--compact,", "--compact-window", "--clickhouse-prometheus-port",
        "compaction of finished parts is not part of this version"})
    EXPECT_THAT(options->warnings().front(), HasSubstr(named));
}

TEST(ReferenceFlags, AFlagOfOneCommandIsUnknownToTheOthers) {
  const std::vector<std::string> import = {"--job-id=j", "--database=d", "--table=t",
                                           "--work-dir=/scratch"};
  const auto options = Resolve("import-finished", import);
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_FALSE(options->Has("work-dir"));
  ASSERT_THAT(options->warnings(), SizeIs(1));
  EXPECT_THAT(options->warnings().front(), HasSubstr("--work-dir"));
  EXPECT_EQ(Resolve("list-jobs", {"--work-dir=/scratch"}).status().explanation().pf_number, 1003);
  const auto worker = Resolve("worker", {"--work-dir=/scratch"});
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ(worker->String("work-dir"), "/scratch");
  EXPECT_THAT(worker->warnings(), IsEmpty());
}

TEST(ReferenceFlags, AnOldNameSetsTheNewFlag) {
  const auto options = Resolve("worker", {"--shutdown-grace-period=3s"});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->DurationMs("shutdown-grace"), 3'000);
  EXPECT_THAT(options->warnings(), IsEmpty());
}

// clickhouse-parts §8.4: a worker of the reference program was told of the server it started
// itself.
TEST(ReferenceFlags, OfTheWorkersEngineAreIgnoredAndItsPasswordIsHidden) {
  const auto options = Resolve("worker", {"-clickhouse-url=http://127.0.0.1:8123",
                                          "-clickhouse-user", "u", "-clickhouse-password=canary"});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  ASSERT_THAT(options->warnings(), SizeIs(1));
  for (const char* const named : {"--clickhouse-url", "--clickhouse-user", "--clickhouse-password"})
    EXPECT_THAT(options->warnings().front(), HasSubstr(named));
  EXPECT_THAT(options->secrets(), ::testing::Contains("canary"));
}

TEST(ReferenceFlags, WhatIsAlwaysDoneCannotBeSwitchedOff) {
  std::vector<std::string> upload = {"--database=d",
                                     "--table=t",
                                     "--freeze=f",
                                     "--bucket=b",
                                     "--destination-schema-file=a",
                                     "--insert-select-file=c",
                                     "-validate"};
  const auto on = Resolve("upload-freeze", upload);
  ASSERT_TRUE(on.ok()) << on.status().ToString();
  EXPECT_THAT(on->warnings(), IsEmpty());
  upload.back() = "-validate=false";
  const auto off = Resolve("upload-freeze", upload);
  ASSERT_FALSE(off.ok());
  EXPECT_EQ(off.status().explanation().pf_number, 1003);
  upload.back() = "-validate=maybe";
  EXPECT_EQ(Resolve("upload-freeze", upload).status().explanation().pf_number, 1005);
  const std::vector<std::string> import = {"--job-id=j", "--database=d", "--table=t"};
  std::vector<std::string> resumed = import;
  resumed.emplace_back("-resume=true");
  EXPECT_TRUE(Resolve("import-finished", resumed).ok());
  resumed.back() = "-resume=false";
  EXPECT_FALSE(Resolve("import-finished", resumed).ok());
}

TEST(ReferenceFlags, TheNumberOfFilesAtOnceHasANewName) {
  const auto options =
      Resolve("upload-freeze",
              {"--database=d", "--table=t", "--freeze=f", "--bucket=b", "-s5cmd-numworkers", "7",
               "--destination-schema-file=a", "--insert-select-file=c"});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->Int("upload-files"), 7);
}

TEST(ReferenceFlags, ThoseThatWouldChangeTheResultAreRefusedWithAWayOut) {
  const auto table = Resolve("worker", {"--state-table=jobs"});
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.status().explanation().pf_number, 1003);
  EXPECT_THAT(table.status().explanation().what_to_do, HasSubstr("--state-schema"));
  EXPECT_FALSE(Resolve("worker", {"--postgres-iam-auth"}).ok());
  EXPECT_TRUE(Resolve("worker", {"--postgres-iam-auth=false"}).ok());
  // Commands that know nothing of jobs never had them.
  EXPECT_FALSE(Resolve("version", {"--compact"}).ok());
}

}  // namespace
}  // namespace partforge::app
