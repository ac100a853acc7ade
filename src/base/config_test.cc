#include "base/config.h"

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config_flags.h"
#include "base/config_yaml.h"
#include "base/scratch_file.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kColours[] = {"red", "green"};
constexpr OptionSpec kTable[] = {
    {.key = "model",
     .type = OptionType::text,
     .section = "A",
     .help = "the model",
     .value_name = "MODEL",
     .positional = true},
    {.key = "kv_memory",
     .type = OptionType::size,
     .fallback = "2GiB",
     .section = "A",
     .help = "memory",
     .min = 1 << 20},
    {.key = "port",
     .type = OptionType::integer,
     .fallback = "8000",
     .section = "A",
     .help = "port",
     .max = 65535},
    {.key = "wait",
     .type = OptionType::duration,
     .fallback = "30s",
     .section = "B",
     .help = "wait"},
    {.key = "log_json",
     .type = OptionType::boolean,
     .fallback = "off",
     .section = "B",
     .help = "json"},
    {.key = "colour",
     .type = OptionType::choice,
     .fallback = "red",
     .section = "B",
     .help = "colour",
     .choices = kColours},
    {.key = "keys", .type = OptionType::list, .section = "B", .help = "keys", .secret = true},
};

Result<Config> load(std::vector<ConfigEntry> flags, std::vector<ConfigEntry> env,
                    std::string file) {
    return Config::load(kTable, {std::move(flags), std::move(env), "quire.yaml", std::move(file)});
}

std::string problem(const Result<Config>& config) {
    return config.ok() ? "no problem" : config.error().message;
}

TEST(Config, DefaultsWithoutSources) {
    const auto config = load({}, {}, "");
    ASSERT_TRUE(config.ok()) << problem(config);
    EXPECT_EQ(config->size("kv_memory"), uint64_t{2} << 30);
    EXPECT_EQ(config->integer("port"), 8000);
    EXPECT_EQ(config->duration_ns("wait"), 30'000'000'000);
    EXPECT_FALSE(config->boolean("log_json"));
    EXPECT_EQ(config->text("colour"), "red");
    EXPECT_TRUE(config->list("keys").empty());
    EXPECT_TRUE(config->is_default("port"));
}

TEST(Config, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
    const std::string file = "port: 1\nkv-memory: 1GiB\nlog_json: true\n";
    const auto config =
        load({{"port", "3"}}, {{"QUIRE_PORT", "2"}, {"QUIRE_KV_MEMORY", "3GiB"}}, file);
    ASSERT_TRUE(config.ok()) << problem(config);
    EXPECT_EQ(config->integer("port"), 3);
    EXPECT_EQ(config->origin("port"), "flag --port");
    EXPECT_EQ(config->size("kv_memory"), uint64_t{3} << 30);
    EXPECT_EQ(config->origin("kv_memory"), "environment QUIRE_KV_MEMORY");
    EXPECT_TRUE(config->boolean("log_json"));
    EXPECT_EQ(config->origin("log_json"), "quire.yaml:3");
    EXPECT_EQ(config->origin("wait"), "default");
}

TEST(Config, UnknownNamesNameTheNearest) {
    EXPECT_THAT(problem(load({}, {}, "port: 1\nkv-memori: 1GiB\n")),
                HasSubstr("quire.yaml:2: unknown key 'kv-memori'; did you mean kv-memory?"));
    EXPECT_THAT(
        problem(load({}, {{"QUIRE_KVMEMORY", "1GiB"}}, "")),
        HasSubstr("environment QUIRE_KVMEMORY: unknown variable; did you mean QUIRE_KV_MEMORY?"));
    EXPECT_THAT(problem(load({}, {{"QUIRE_port", "1"}}, "")),
                HasSubstr("did you mean QUIRE_PORT?"));
    EXPECT_THAT(problem(load({}, {}, "xyzzyplugh: 1\n")), HasSubstr("see --help"));
}

TEST(Config, WrongValuesNamePlaceAndExpectation) {
    EXPECT_THAT(
        problem(load({}, {}, "\n\nport: many\n")),
        HasSubstr("quire.yaml:3: port: expected a whole number, at most 65535, got 'many'"));
    EXPECT_THAT(problem(load({{"port", "65536"}}, {}, "")),
                HasSubstr("flag --port: port: expected"));
    EXPECT_THAT(problem(load({{"port", "-1"}}, {}, "")), HasSubstr("'-1'"));
    EXPECT_THAT(problem(load({{"kv_memory", "1KiB"}}, {}, "")), HasSubstr("at least 1MiB"));
    EXPECT_THAT(problem(load({{"wait", "30"}}, {}, "")), HasSubstr("a duration like 30s"));
    EXPECT_THAT(problem(load({{"colour", "blue"}}, {}, "")), HasSubstr("one of red, green"));
    EXPECT_THAT(problem(load({{"log_json", "maybe"}}, {}, "")), HasSubstr("on or off"));
    EXPECT_THAT(problem(load({}, {}, "port: [1, 2]\n")), HasSubstr("got a list"));
}

TEST(Config, EveryProblemIsReportedEvenIfOverridden) {
    const std::string text =
        problem(load({{"port", "9"}}, {{"QUIRE_WAIT", "soon"}}, "port: x\nfoo: 1\n"));
    EXPECT_THAT(text, HasSubstr("quire.yaml:1: port"));
    EXPECT_THAT(text, HasSubstr("quire.yaml:2: unknown key 'foo'"));
    EXPECT_THAT(text, HasSubstr("environment QUIRE_WAIT: wait: expected a duration"));
}

TEST(Config, BadYamlIsAnErrorWithItsLine) {
    for (const char* bad :
         {"- a\n- b\n", "port: 1\nport: 2\n", "kv_memory: 1GiB\nkv-memory: 2GiB\n",
          "port: {a: 1}\n", "port:\n", "port: [1, [2]]\n", "port: \"1\n", "a: b: c\n",
          "just text\n", "? [a]\n: b\n", "\t\n\tport: 1\n", "keys: ['a,b']\n"}) {
        const auto config = load({}, {}, bad);
        ASSERT_FALSE(config.ok()) << bad;
        EXPECT_THAT(problem(config), HasSubstr("quire.yaml")) << bad;
    }
    EXPECT_FALSE(read_yaml_entries(std::string(100'000, '[')).ok());
    EXPECT_FALSE(read_yaml_entries(std::string(100'000, '{')).ok());
    std::string nested;
    for (int i = 0; i < 50'000; ++i) nested += "- ";
    EXPECT_FALSE(read_yaml_entries(nested).ok());
}

TEST(Config, RulersOfDashesAreNoNesting) {
    EXPECT_TRUE(load({}, {}, "# " + std::string(200, '-') + "\nport: 1\n").ok());
}

TEST(Config, ListsFromEverySource) {
    EXPECT_THAT(load({}, {}, "keys: [a=1, b=2]\n")->list("keys"), ElementsAre("a=1", "b=2"));
    EXPECT_THAT(load({}, {}, "keys:\n  - a=1\n  - b=2\n")->list("keys"), ElementsAre("a=1", "b=2"));
    EXPECT_THAT(load({}, {{"QUIRE_KEYS", "a=1, b=2,,"}}, "")->list("keys"),
                ElementsAre("a=1", "b=2"));
}

TEST(Config, EffectiveConfigurationLoadsBackAndHidesSecrets) {
    const auto config = load({{"model", "a \"b\"\\c\n# x"}, {"keys", "s3cret=t"}},
                             {{"QUIRE_COLOUR", "green"}}, "port: 1\n");
    ASSERT_TRUE(config.ok()) << problem(config);
    const std::string text = config->effective();
    EXPECT_THAT(text, Not(HasSubstr("s3cret")));
    EXPECT_THAT(text, HasSubstr("# environment QUIRE_COLOUR"));
    EXPECT_THAT(text, HasSubstr("# quire.yaml:1"));
    const auto again = load({}, {}, text);
    ASSERT_TRUE(again.ok()) << problem(again) << "\n" << text;
    EXPECT_EQ(again->text("model"), config->text("model"));
    EXPECT_EQ(again->text("colour"), "green");
    EXPECT_EQ(again->integer("port"), 1);
}

TEST(Config, SecretsAreNotEchoedInErrors) {
    constexpr OptionSpec kSecret[] = {
        {.key = "pin", .type = OptionType::integer, .fallback = "0", .secret = true}};
    const auto config = Config::load(kSecret, {{{"pin", "hunter2"}}, {}, "", ""});
    EXPECT_THAT(problem(config), Not(HasSubstr("hunter2")));
}

TEST(Config, ReferenceHasEveryOption) {
    const std::string text = config_reference(kTable);
    for (const OptionSpec& spec : kTable) EXPECT_THAT(text, HasSubstr(option_env(spec)));
    EXPECT_THAT(text, HasSubstr("## A"));
    EXPECT_THAT(text, HasSubstr("`--kv-memory`"));
}

TEST(Config, EnvironmentKeepsOnlyOurVariables) {
    const char* const variables[] = {"PATH=/bin",    "QUIRE_PORT=1", "QUIRE_TEST_LONG=1",
                                     "QUIRE_EMPTY=", "QUIRED=1",     "QUIRE_BARE",
                                     nullptr};
    const auto entries = quire_environment(variables);
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].key, "QUIRE_PORT");
    EXPECT_EQ(entries[0].value, "1");
    EXPECT_EQ(entries[2].key, "QUIRE_BARE");
}

TEST(Config, FilesAreReadWholeOrRefused) {
    const ScratchFile file;
    ASSERT_EQ(::pwrite(file.fd(), "port: 1\n", 8, 0), 8);
    EXPECT_EQ(*read_config_file(file.path()), "port: 1\n");
    EXPECT_THAT(read_config_file("/nowhere/quire.yaml").error().message,
                HasSubstr("/nowhere/quire.yaml"));
    EXPECT_EQ(read_config_file("/").code(), Code::invalid);
    ASSERT_EQ(::ftruncate(file.fd(), (1 << 20) + 1), 0);
    EXPECT_EQ(read_config_file(file.path()).code(), Code::invalid);
}

class ConfigFlagsTest : public ::testing::Test {
 protected:
    // The problem in words, empty if the arguments parse.
    std::string parse(std::vector<std::string> arguments) {
        std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
        try {
            app_.parse(arguments);
        } catch (const CLI::ParseError& e) {
            return e.what();
        }
        return "";
    }
    std::string given() const {
        std::string text;
        for (const ConfigEntry& entry : flags_.given()) text += entry.key + "=" + entry.value + ";";
        return text;
    }

    CLI::App app_;
    ConfigFlags flags_{app_, kTable};
};

TEST_F(ConfigFlagsTest, NothingGiven) {
    EXPECT_EQ(parse({}), "");
    EXPECT_EQ(given(), "");
}

TEST_F(ConfigFlagsTest, ValuesBooleansListsAndThePositional) {
    EXPECT_EQ(
        parse({"--kv-memory", "1GiB", "--log-json", "m.gguf", "--keys", "a=1", "--keys=b=2,c=3"}),
        "");
    EXPECT_EQ(given(), "model=m.gguf;kv_memory=1GiB;log_json=on;keys=a=1,b=2,c=3;");
}

TEST_F(ConfigFlagsTest, BooleansCanBeTurnedOff) {
    EXPECT_EQ(parse({"--no-log-json"}), "");
    EXPECT_EQ(given(), "log_json=off;");
}

TEST_F(ConfigFlagsTest, BooleansTakeAValueAfterEquals) {
    EXPECT_EQ(parse({"--log-json=off"}), "");
    EXPECT_EQ(given(), "log_json=off;");
}

TEST_F(ConfigFlagsTest, UnknownFlagsFail) {
    EXPECT_THAT(parse({"--kv-memori=1"}), HasSubstr("kv-memori"));
}

TEST_F(ConfigFlagsTest, HelpShowsDefaults) {
    EXPECT_THAT(app_.help(), HasSubstr("memory [2GiB]"));
}

}  // namespace
}  // namespace quire
