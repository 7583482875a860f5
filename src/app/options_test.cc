#include "app/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "app/command.h"

namespace partforge::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The settings of one run of a made-up command, with files that live in the test.
class Resolving : public ::testing::Test {
 protected:
  Resolving() {
    command_.name = "forge";
    command_.options = {
        {.name = "job-id", .help = "job", .is_repeatable = true},
        {.name = "rows", .type = OptionType::kInt, .default_text = "10", .help = "rows"},
        {.name = "cap", .type = OptionType::kSize, .help = "cap"},
        {.name = "window", .type = OptionType::kDuration, .default_text = "24h", .help = "window"},
        {.name = "compact", .type = OptionType::kBool, .default_text = "true", .help = "compact"},
        {.name = "region", .help = "region", .env_alias = "AWS_REGION"},
        {.name = "token", .help = "token", .is_secret = true},
        {.name = "run-id", .help = "run", .refuses_empty = true},
        {.name = "place-url", .help = "place", .may_hold_password = true},
    };
    other_.name = "other";
    other_.options = {{.name = "only-here", .help = "x"}};
  }

  Result<ResolvedOptions> Resolve(std::vector<std::string> argv) {
    OptionInputs inputs;
    inputs.argv = std::move(argv);
    inputs.environment = environment_;
    inputs.read_file = [this](const std::string& path) -> Result<std::string> {
      const auto it = files_.find(path);
      if (it == files_.end()) return Status(Code::kNotFound, "no such file: " + path);
      return it->second;
    };
    const std::vector<CommandSpec> all = {command_, other_};
    return ResolveOptions(command_, all, inputs);
  }

  void ExpectUsage(const Result<ResolvedOptions>& result, int number, const std::string& text) {
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(result.status().explanation().pf_number, number) << result.status().ToString();
    EXPECT_FALSE(result.status().explanation().where.empty());
    EXPECT_FALSE(result.status().explanation().what_to_do.empty());
    EXPECT_THAT(result.status().message() + "|" + result.status().explanation().where + "|" +
                    result.status().explanation().what_to_do,
                HasSubstr(text));
  }

  CommandSpec command_, other_;
  std::map<std::string, std::string> environment_;
  std::map<std::string, std::string> files_;
};

TEST_F(Resolving, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const auto origin = [](const ResolvedOptions& options) {
    return options.values().find("rows")->second.origin;
  };
  auto options = Resolve({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->Int("rows"), 10);
  EXPECT_EQ(origin(*options), "default");
  EXPECT_FALSE(options->IsSet("rows"));

  files_["/etc/partforge/config.json"] = "{\n  \"rows\": 20\n}";
  options = Resolve({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->Int("rows"), 20);
  EXPECT_EQ(origin(*options), "/etc/partforge/config.json:2");

  files_["/my.json"] = "{\"rows\": 21,\n\"commands\": {\"forge\": {\n\"rows\": 22}}}";
  environment_["PARTFORGE_CONFIG"] = "/my.json";
  options = Resolve({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->Int("rows"), 22) << "the command's own section is nearer";

  environment_["PARTFORGE_ROWS"] = "30";
  options = Resolve({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->Int("rows"), 30);
  EXPECT_EQ(origin(*options), "env PARTFORGE_ROWS");

  options = Resolve({"--rows=40"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->Int("rows"), 40);
  EXPECT_EQ(origin(*options), "flag");
  EXPECT_TRUE(options->IsSet("rows"));
}

TEST_F(Resolving, NamesOfOthersAreTheLowestLayer) {
  environment_["AWS_REGION"] = "eu-west-1";
  EXPECT_EQ(Resolve({})->String("region"), "eu-west-1");
  files_["/etc/partforge/config.json"] = R"({"region": "file"})";
  EXPECT_EQ(Resolve({})->String("region"), "file");
  environment_["PARTFORGE_REGION"] = "ours";
  EXPECT_EQ(Resolve({})->String("region"), "ours");
}

TEST_F(Resolving, ValuesStandBehindEqualsOrInTheNextWord) {
  EXPECT_EQ(Resolve({"--rows=7"})->Int("rows"), 7);
  EXPECT_EQ(Resolve({"--rows", "7"})->Int("rows"), 7);
  EXPECT_EQ(Resolve({"-rows", "7"})->Int("rows"), 7);
  EXPECT_EQ(Resolve({"--cap", "2KiB"})->SizeBytes("cap"), 2048);
  EXPECT_EQ(Resolve({"--window=1d12h"})->DurationMs("window"), 36 * 3600 * 1000);
  EXPECT_THAT(Resolve({"--job-id=a", "--job_id", "b"})->List("job-id"), ElementsAre("a", "b"));
  ExpectUsage(Resolve({"--rows"}), 1004, "--rows needs a value");
}

TEST_F(Resolving, TruthValuesHaveFourForms) {
  for (const char* yes : {"--compact", "-compact", "--compact=true", "--compact=1", "--compact=t"})
    EXPECT_TRUE(Resolve({"--no-compact", yes})->Bool("compact")) << yes;
  for (const char* no : {"--no-compact", "-no-compact", "--compact=false", "--compact=0"})
    EXPECT_FALSE(Resolve({no})->Bool("compact")) << no;
  ExpectUsage(Resolve({"--compact=maybe"}), 1005, "not a truth value: maybe");
}

TEST_F(Resolving, WrongValuesNameTheFlag) {
  ExpectUsage(Resolve({"--rows=many"}), 1005, "--rows: not a number: many");
  ExpectUsage(Resolve({"--cap=big"}), 1005, "--cap");
  ExpectUsage(Resolve({"--window=soon"}), 1005, "--window");
  environment_["PARTFORGE_ROWS"] = "x";
  ExpectUsage(Resolve({}), 1005, "PARTFORGE_ROWS");
}

TEST_F(Resolving, UnknownFlagsComeWithTheNearestNames) {
  ExpectUsage(Resolve({"--windw=1h"}), 1003, "did you mean --window?");
  ExpectUsage(Resolve({"--utterly-else"}), 1003, "forge --help lists the flags");
  ExpectUsage(Resolve({"--win=1h"}), 1003, "unknown flag --win");  // nothing is abbreviated
}

TEST_F(Resolving, LeftOverAndMissingArgumentsAreRefused) {
  ExpectUsage(Resolve({"job-1"}), 1007, "unexpected argument job-1");
  command_.arguments = "JOB";
  command_.arguments_min = command_.arguments_max = 1;
  ExpectUsage(Resolve({}), 1006, "JOB is missing");
  EXPECT_THAT(Resolve({"--", "--rows"})->arguments(), ElementsAre("--rows"));
  EXPECT_TRUE(Resolve({"--help"}).ok()) << "help needs nothing else";
}

TEST_F(Resolving, RequiredSettingsMayComeFromAnywhere) {
  command_.options.push_back({.name = "bucket", .help = "bucket", .is_required = true});
  ExpectUsage(Resolve({}), 1006, "PARTFORGE_BUCKET in the environment");
  environment_["PARTFORGE_BUCKET"] = "b";
  EXPECT_EQ(Resolve({})->String("bucket"), "b");
}

TEST_F(Resolving, UnknownKeysOfTheFileAreRefusedWithPlaceAndNearest) {
  files_["/etc/partforge/config.json"] = "{\n\"x-note\": 1,\n\"only_here\": \"a\",\n\"rosw\": 3}";
  ExpectUsage(Resolve({}), 1009, "/etc/partforge/config.json:4|did you mean rows?");
  files_["/etc/partforge/config.json"] = R"({"commands": {"forge": {"only-here": "a"}}})";
  ExpectUsage(Resolve({}), 1009, "only-here");
  files_["/etc/partforge/config.json"] = R"({"commands": {"other": {"only-here": "a"}}})";
  EXPECT_TRUE(Resolve({}).ok());
}

TEST_F(Resolving, SettingsFilesMustBeReadableObjects) {
  EXPECT_TRUE(Resolve({}).ok()) << "the default place may be empty";
  ExpectUsage(Resolve({"--config=/absent.json"}), 1008, "/absent.json");
  for (const char* bad : {"[1]", "{", "", "3"}) {
    files_["/bad.json"] = bad;
    ExpectUsage(Resolve({"--config=/bad.json"}), 1008, "/bad.json");
  }
  files_["/bad.json"] = R"({"rows": {"a": 1}})";
  ExpectUsage(Resolve({"--config=/bad.json"}), 1005, "rows");
}

TEST_F(Resolving, VariablesWithOurPrefixThatMatchNothingWarnOnce) {
  environment_["PARTFORGE_PORT"] = "tcp://10.0.0.1:80";
  environment_["PARTFORGE_ONLY_HERE"] = "of another command";
  const auto options = Resolve({});
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->warnings(), ElementsAre(HasSubstr("PARTFORGE_PORT")));
}

TEST_F(Resolving, SecretsComeByFileOrEnvironment) {
  files_["/run/token"] = "s3cret\n";
  auto options = Resolve({"--token-file=/run/token"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->SecretValue("token").Reveal(), "s3cret");
  EXPECT_THAT(options->secrets(), ElementsAre("s3cret"));
  environment_["PARTFORGE_TOKEN"] = "of-environment";
  EXPECT_EQ(Resolve({})->SecretValue("token").Reveal(), "of-environment");
  environment_.clear();
  environment_["PARTFORGE_TOKEN_FILE"] = "/run/token";
  EXPECT_EQ(Resolve({})->SecretValue("token").Reveal(), "s3cret");
  ExpectUsage(Resolve({"--token-file=/absent"}), 1013, "--token-file");
}

TEST_F(Resolving, SecretsOnTheCommandLineAreRefused) {
  ExpectUsage(Resolve({"--token=abcd"}), 1014, "--token-file=PATH");
  ExpectUsage(Resolve({"--place-url=http://me:hunter2@host/x"}), 1014, "PARTFORGE_PLACE_URL");
  EXPECT_TRUE(Resolve({"--place-url=http://me@host:80/x"}).ok());
  const auto options =
      Resolve({"--place-url=http://me:hunter2@host/x", "--allow-password-on-command-line"});
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->secrets(), ElementsAre("hunter2"));
  EXPECT_FALSE(Resolve({"--token=abcd"}).status().message().find("abcd") != std::string::npos)
      << "the refusal must not show it";
}

TEST(PasswordInUrl, IsFoundOnlyInTheAuthority) {
  EXPECT_EQ(PasswordInUrl("postgres://u:p%40w@h:5432/db"), "p%40w");
  EXPECT_EQ(PasswordInUrl("postgres://u@h/db?x=a:b@c"), "");
  EXPECT_EQ(PasswordInUrl("http://h:80/a@b"), "");
  EXPECT_EQ(PasswordInUrl("sqlite:/a:b@c"), "");
  EXPECT_EQ(MaskPasswordInUrl("postgres://u:secret@h/db"), "postgres://u:***@h/db");
  EXPECT_EQ(MaskPasswordInUrl("sqlite:/x"), "sqlite:/x");
}

TEST(PasswordInUrl, IsAlsoFoundWhereItMakesTheUrlUnreadable) {
  EXPECT_EQ(PasswordInUrl("postgres://u:canary/secret@h/db"), "canary/secret");
  EXPECT_EQ(PasswordInUrl("postgres://u:a#b?c@h/db"), "a#b?c");
}

TEST(SecretsInUrl, AreAllThatAMessageMayNotShow) {
  EXPECT_THAT(SecretsInUrl("postgres://u:canary/secret@h/db"),
              ElementsAre("canary/secret", "canary", "secret"));
  EXPECT_THAT(SecretsInUrl("host=127.0.0.1 password=canarysecret port=1"),
              ElementsAre("canarysecret"));
  EXPECT_THAT(SecretsInUrl("host=h password = 'canary secret' user=u"),
              ElementsAre("canary secret"));
  EXPECT_THAT(SecretsInUrl("http://h:8123/?user=u&Password=ca%41nary#x"),
              ElementsAre("ca%41nary", "caAnary"));
  EXPECT_THAT(SecretsInUrl("postgres://u@h/d?sslpassword=canary&x=password"),
              ElementsAre("canary"));
  EXPECT_THAT(SecretsInUrl("http://h:8123/"), IsEmpty());
  EXPECT_EQ(MaskPasswordInUrl("http://u:one@h/?password=two&x=1"),
            "http://u:***@h/?password=***&x=1");
  EXPECT_EQ(MaskPasswordInUrl("host=h password=two"), "host=h password=***");
}

TEST_F(Resolving, SecretsOfOtherFormsAreRefusedAndHidden) {
  ExpectUsage(Resolve({"--place-url=host=h password=hunter2"}), 1014, "PARTFORGE_PLACE_URL");
  ExpectUsage(Resolve({"--place-url=http://h/?password=hunter2"}), 1014, "PARTFORGE_PLACE_URL");
  environment_["PARTFORGE_PLACE_URL"] = "http://h/?password=hunter2";
  EXPECT_THAT(Resolve({})->secrets(), ElementsAre("hunter2"));
}

TEST_F(Resolving, AnEmptyFlagThatMeansNothingIsRefused) {
  ExpectUsage(Resolve({"--run-id="}), 1005, "--run-id");
  ExpectUsage(Resolve({"--run-id", ""}), 1005, "--run-id");
  environment_["PARTFORGE_RUN_ID"] = "";
  EXPECT_TRUE(Resolve({}).ok()) << "an empty variable is an unset one";
}

TEST_F(Resolving, AnEmptyVariableIsAnUnsetOne) {
  files_["/my.json"] = R"({"rows": 20})";
  environment_["PARTFORGE_CONFIG"] = "/my.json";
  environment_["PARTFORGE_ROWS"] = "";
  environment_["PARTFORGE_TOKEN_FILE"] = "";
  environment_["PARTFORGE_NO_SUCH_SETTING"] = "";
  const auto options = Resolve({});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->Int("rows"), 20) << "the file's, as without the variable";
  EXPECT_THAT(options->warnings(), IsEmpty());
}

TEST_F(Resolving, AnEmptySecretFileIsRefused) {
  files_["/run/token"] = "\n";
  ExpectUsage(Resolve({"--token-file=/run/token"}), 1013, "empty");
}

TEST_F(Resolving, AMisspeltCommandInTheFileIsRefused) {
  files_["/etc/partforge/config.json"] = "{\n\"commands\": {\n\"forgee\": {\"rows\": 1}}}";
  ExpectUsage(Resolve({}), 1009, "/etc/partforge/config.json:3|did you mean forge?");
  files_["/etc/partforge/config.json"] = R"({"commands": {"nonsense": {"rows": 1}}})";
  ExpectUsage(Resolve({}), 1009, "unknown command nonsense");
  files_["/etc/partforge/config.json"] = R"({"commands": {"x-note": {"rows": 1}}})";
  EXPECT_TRUE(Resolve({}).ok());
}

TEST_F(Resolving, ASettingOfAnotherCommandIsNamedAsSuch) {
  files_["/etc/partforge/config.json"] = R"({"commands": {"forge": {"only_here": "a"}}})";
  ExpectUsage(Resolve({}), 1009, "forge has no setting only_here");
  ExpectUsage(Resolve({}), 1009, "other");
}

TEST_F(Resolving, OneSettingUnderTwoSpellingsIsRefused) {
  files_["/etc/partforge/config.json"] = "{\"place_url\": \"a\",\n\"place-url\": \"b\"}";
  ExpectUsage(Resolve({}), 1008, "place_url and place-url");
}

TEST(NearestNames, AreWithinTwoEditsNearestFirst) {
  const std::vector<std::string> names = {"freeze", "verify", "version", "worker", "debug"};
  EXPECT_THAT(NearestNames("verifi", names), ElementsAre("verify"));
  EXPECT_THAT(NearestNames("frieze", names), ElementsAre("freeze"));
  EXPECT_THAT(NearestNames("import", names), IsEmpty());
}

// A value that each type accepts.
std::string ValueOf(const OptionSpec& option) {
  switch (option.type) {
    case OptionType::kString:
      return "text";
    case OptionType::kBool:
      return "true";
    case OptionType::kInt:
      return "3";
    case OptionType::kDouble:
      return "0.5";
    case OptionType::kSize:
      return "3GiB";
    case OptionType::kDuration:
      return "3s";
    case OptionType::kTime:
      return "2026-01-01";
  }
  return "";
}

// check: UX-2
TEST(EveryFlagOfEveryCommand, MayBeWrittenWithOneHyphenOrTwo) {
  const std::vector<CommandSpec> specs = CommandSpecs();
  int64_t flags = 0;
  for (const CommandSpec& spec : specs) {
    CommandSpec relaxed = spec;
    relaxed.arguments_min = 0;
    for (OptionSpec& option : relaxed.options) option.is_required = false;
    for (const OptionSpec& option : AllOptions(relaxed)) {
      if (option.name == "config") continue;
      const auto resolve = [&](std::vector<std::string> argv) {
        OptionInputs inputs;
        inputs.argv = std::move(argv);
        inputs.argv.push_back("--allow-password-on-command-line");
        inputs.default_config_path.clear();
        inputs.read_file = [](const std::string&) -> Result<std::string> {
          return std::string("x");
        };
        return ResolveOptions(relaxed, specs, inputs);
      };
      SCOPED_TRACE(fmt::format("{} --{}", spec.name, option.name));
      const std::string value = ValueOf(option);
      std::string underscored(option.name);
      std::replace(underscored.begin(), underscored.end(), '-', '_');
      std::vector<std::vector<std::string>> forms = {{fmt::format("--{}={}", option.name, value)},
                                                     {fmt::format("-{}={}", option.name, value)},
                                                     {fmt::format("--{}={}", underscored, value)}};
      if (option.type == OptionType::kBool) {
        forms.push_back({fmt::format("-{}", option.name)});
        forms.push_back({fmt::format("--{}", option.name)});
        if (option.letter != '\0') forms.push_back({fmt::format("-{}", option.letter)});
      } else {
        forms.push_back({fmt::format("--{}", option.name), value});
        forms.push_back({fmt::format("-{}", option.name), value});
      }
      for (const auto& form : forms) {
        const auto options = resolve(form);
        ASSERT_TRUE(options.ok()) << form.front() << ": " << options.status().ToString();
        EXPECT_THAT(options->List(option.name), ElementsAre(value)) << form.front();
        EXPECT_EQ(options->values().find(option.name)->second.origin, "flag");
      }
      ++flags;
    }
  }
  EXPECT_GT(flags, 200);
}

TEST(EveryFlagOfEveryCommand, IsNamedOnceAndHasADefaultOfItsType) {
  for (const CommandSpec& spec : CommandSpecs()) {
    std::set<std::string_view> names;
    std::set<char> letters;
    for (const OptionSpec& option : AllOptions(spec)) {
      SCOPED_TRACE(fmt::format("{} --{}", spec.name, option.name));
      EXPECT_TRUE(names.insert(option.name).second);
      if (option.letter != '\0') {
        EXPECT_TRUE(letters.insert(option.letter).second);
      }
      EXPECT_EQ(option.name.find('_'), std::string_view::npos);
      EXPECT_FALSE(option.name.starts_with("no-"));
      EXPECT_FALSE(option.help.empty());
      EXPECT_TRUE(option.type != OptionType::kBool || !option.default_text.empty());
    }
    CommandSpec relaxed = spec;
    relaxed.arguments_min = 0;
    for (OptionSpec& option : relaxed.options) option.is_required = false;
    OptionInputs inputs;
    inputs.default_config_path.clear();
    const std::vector<CommandSpec> specs = CommandSpecs();
    const auto options = ResolveOptions(relaxed, specs, inputs);
    ASSERT_TRUE(options.ok()) << spec.name << options.status().ToString();
    for (const OptionSpec& option : AllOptions(relaxed)) {
      // Reading aborts when a default is not of the option's type.
      if (option.type == OptionType::kBool) options->Bool(option.name);
      if (option.type == OptionType::kInt) options->Int(option.name);
      if (option.type == OptionType::kSize) options->SizeBytes(option.name);
      if (option.type == OptionType::kDuration) options->DurationMs(option.name);
    }
  }
}

}  // namespace
}  // namespace partforge::app
