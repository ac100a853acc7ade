#include "base/options.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"
#include "base/scratch_file.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;

Result<ServeOptions> options(std::vector<ConfigEntry> flags, uint64_t machine = 64 * kGiB) {
    flags.push_back({"model", "m.gguf"});
    const auto config = Config::load(serve_option_table(), {std::move(flags), {}, "", ""});
    if (!config.ok()) return config.error();
    return serve_options(*config, machine);
}

std::string problem(const Result<ServeOptions>& result) {
    return result.ok() ? "no problem" : result.error().message;
}

TEST(ServeOptions, DefaultsAreWhatTheReferenceSays) {
    const auto o = options({});
    ASSERT_TRUE(o.ok()) << problem(o);
    EXPECT_EQ(o->model_path, "m.gguf");
    EXPECT_EQ(o->host, "127.0.0.1");
    EXPECT_EQ(o->port, 8000);
    EXPECT_EQ(o->kv_memory_bytes, 2 * kGiB);
    EXPECT_EQ(o->host_memory_bytes, 4 * kGiB);
    EXPECT_TRUE(o->disk_path.empty());
    EXPECT_EQ(o->block_tokens, 16u);
    EXPECT_EQ(o->kv_codec, "raw16");
    EXPECT_EQ(o->kv_sinks, 64u);
    EXPECT_EQ(o->step_tokens, 512u);
    EXPECT_EQ(o->max_running, 64u);
    EXPECT_EQ(o->max_queue, 1024u);
    EXPECT_EQ(o->request_timeout_ns, 600'000'000'000);
    EXPECT_EQ(o->drain_timeout_ns, 30'000'000'000);
    EXPECT_EQ(o->body_limit_bytes, 8u << 20);
    EXPECT_EQ(o->header_limit_bytes, 64u << 10);
    EXPECT_EQ(o->threads, machine_cores());
    EXPECT_TRUE(o->cache);
    EXPECT_EQ(o->isa, IsaChoice::automatic);
}

TEST(ServeOptions, TableRowsAreSound) {
    std::set<std::string> keys;
    for (const OptionSpec& spec : serve_option_table()) {
        SCOPED_TRACE(std::string(spec.key));
        EXPECT_TRUE(keys.insert(std::string(spec.key)).second);
        EXPECT_EQ(spec.key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
                  spec.key.npos);
        EXPECT_FALSE(spec.help.empty());
        EXPECT_NE(spec.help.back(), '.');
        EXPECT_FALSE(spec.section.empty());
        EXPECT_LE(spec.min, spec.max);
        EXPECT_EQ(spec.type == OptionType::choice, !spec.choices.empty());
    }
}

TEST(ServeOptions, DiskFolderAndLimit) {
    const auto o = options({{"disk", "/data/kv:1TiB"}});
    ASSERT_TRUE(o.ok()) << problem(o);
    EXPECT_EQ(o->disk_path, "/data/kv");
    EXPECT_EQ(o->disk_bytes, 1024 * kGiB);
    EXPECT_EQ(parse_disk_option("/data/kv")->bytes, kDefaultDiskBytes);
    EXPECT_EQ(parse_disk_option("/data/a:b/")->path, "/data/a:b/");
    EXPECT_EQ(parse_disk_option("host:/data")->path, "host:/data");
    for (const char* mistyped : {"/data/a:b", "/data/a:", "/data/a:GiB", "/data/a: ", "/data/a:-1"})
        EXPECT_THAT(problem(options({{"disk", mistyped}})),
                    AllOf(HasSubstr("is not a size"), HasSubstr(std::string(mistyped) + "/")));
    EXPECT_EQ(parse_disk_option("a:b:2GiB")->path, "a:b");
    EXPECT_THAT(problem(options({{"disk", "/d:64Gi"}})), HasSubstr("flag --disk: disk: '64Gi'"));
    EXPECT_THAT(problem(options({{"disk", ":1GiB"}})), HasSubstr("no folder"));
    EXPECT_THAT(problem(options({{"disk", "/d:1MiB"}})), HasSubstr("at least 256MiB"));
    EXPECT_THAT(problem(options({{"disk", "~/kv:1GiB"}})), HasSubstr("write the folder in full"));
}

TEST(ServeOptions, SizesLargerThanTheMachineNameItsMemory) {
    const std::string text = problem(options({{"kv_memory", "6GiB"}}, 8 * kGiB));
    EXPECT_THAT(text, HasSubstr("kv-memory 6GiB (flag --kv-memory)"));
    EXPECT_THAT(text, HasSubstr("8.00 GiB"));
    EXPECT_TRUE(options({{"kv_memory", "4GiB"}}, 8 * kGiB).ok());
    EXPECT_FALSE(options({{"kv_memory", "900TiB"}, {"host_memory", "900TiB"}}).ok());
}

TEST(ServeOptions, OffLoopbackNeedsAKey) {
    EXPECT_THAT(problem(options({{"host", "0.0.0.0"}})), HasSubstr("--api-keys"));
    EXPECT_TRUE(options({{"host", "0.0.0.0"}, {"api_keys", "abc=team"}}).ok());
    for (const char* host : {"127.0.0.1", "127.3.2.1", "::1", "localhost"})
        EXPECT_TRUE(is_loopback(host)) << host;
    for (const char* host :
         {"0.0.0.0", "::", "10.0.0.1", "127.0.0.1.evil.example", "", "1270.0.0.1"})
        EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(ServeOptions, KeysFromListAndFile) {
    const ScratchFile file;
    const std::string text = "# keys\nk2=red\n\nk3\n";
    ASSERT_EQ(::pwrite(file.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    const auto o = options({{"api_keys", "k1==blue"}, {"api_keys_file", file.path()}});
    ASSERT_TRUE(o.ok()) << problem(o);
    ASSERT_EQ(o->api_keys.size(), 3u);
    EXPECT_EQ(o->api_keys[0].key, "k1=");
    EXPECT_EQ(o->api_keys[0].tenant, "blue");
    EXPECT_EQ(o->api_keys[1].tenant, "red");
    EXPECT_EQ(o->api_keys[2].tenant, "default");
}

// Whoever named keys must not get a server that asks for none.
TEST(ServeOptions, NoKeyWhereKeysWereNamedIsAnError) {
    const ScratchFile file;
    EXPECT_THAT(
        problem(options({{"api_keys_file", file.path()}})),
        HasSubstr("the API key file " + file.path() + " (flag --api-keys-file) names no key"));
    EXPECT_THAT(problem(options({{"api_keys", "k=a"}, {"api_keys_file", file.path()}})),
                HasSubstr("names no key"));
    const std::string text = "# none\n\n";
    ASSERT_EQ(::pwrite(file.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    EXPECT_THAT(problem(options({{"api_keys_file", file.path()}})), HasSubstr("names no key"));
    EXPECT_THAT(problem(options({{"api_keys", ""}})),
                HasSubstr("api-keys (flag --api-keys) names no key"));
    EXPECT_FALSE(options({{"api_keys_file", ""}}).ok());
}

TEST(ServeOptions, AMissingKeyFileIsCalledWhatItIs) {
    const std::string text = problem(options({{"api_keys_file", "/nowhere/keys"}}));
    EXPECT_THAT(text, HasSubstr("cannot read the API key file /nowhere/keys"));
    EXPECT_THAT(text, Not(HasSubstr("configuration")));
}

TEST(ServeOptions, FarMoreThreadsThanCoresAreRefused) {
    const std::string most = std::to_string(4 * machine_cores());
    EXPECT_TRUE(options({{"threads", most}}).ok());
    const std::string text =
        problem(options({{"threads", std::to_string(4 * machine_cores() + 1)}}));
    EXPECT_THAT(text, HasSubstr("(flag --threads)"));
    EXPECT_THAT(text, HasSubstr(std::to_string(machine_cores()) + " cores"));
    EXPECT_THAT(text, HasSubstr("at most " + most));
}

TEST(ServeOptions, BadKeysAreNumberedNotShown) {
    const std::string text = problem(options({{"api_keys", "ok=a,secret=no/slash,ok=b"}}));
    EXPECT_THAT(text, HasSubstr("API key number 2: the tenant"));
    EXPECT_THAT(text, HasSubstr("API key number 3 was given before"));
    EXPECT_THAT(text, Not(HasSubstr("secret")));
    EXPECT_THAT(problem(options({{"api_keys_file", "/nowhere/keys"}})), HasSubstr("/nowhere/keys"));
    EXPECT_FALSE(parse_api_key_option("").ok());
    EXPECT_FALSE(parse_api_key_option("a b=t").ok());
    EXPECT_FALSE(parse_api_key_option("k=" + std::string(65, 't')).ok());
}

TEST(ServeOptions, BlockTokensAndModelAreChecked) {
    EXPECT_THAT(problem(options({{"block_tokens", "24"}})), HasSubstr("multiple of 16"));
    EXPECT_THAT(problem(options({{"block_tokens", "8"}})), HasSubstr("at least 16"));
    EXPECT_THAT(problem(options({{"kv_codec", "k8v8"}, {"block_tokens", "32"}})),
                HasSubstr("a block has 64 tokens"));
    EXPECT_TRUE(options({{"kv_codec", "k8v8"}, {"block_tokens", "64"}}).ok());
    EXPECT_THAT(problem(options({{"kv_codec", "k8v8"}, {"kv_sinks", "16"}})),
                HasSubstr("multiple of 64"));
    EXPECT_THAT(problem(options({{"kv_sinks", "128"}})),
                HasSubstr("with ec:BITS as kv-codec-host"));
    EXPECT_EQ(options({{"kv_codec", "k8v8"}, {"kv_skip_layers", "0,29"}})->kv_skip_layers,
              (std::vector<uint32_t>{0, 29}));
    for (const char* bad : {"x", "-1", "1x", "4294967296"})
        EXPECT_THAT(problem(options({{"kv_codec", "k8v8"}, {"kv_skip_layers", bad}})),
                    HasSubstr("'" + std::string(bad) + "' is none"));
    EXPECT_THAT(problem(options({{"kv_skip_layers", "0"}})), HasSubstr("with a kv-codec only"));
    EXPECT_TRUE(options({{"kv_dtype", "bf16"}})->kv_bf16);
    EXPECT_THAT(problem(options({{"kv_dtype", "fp16"}})), HasSubstr("f16 or bf16, not 'fp16'"));
    EXPECT_THAT(problem(options({{"kv_codec", ""}})), HasSubstr("kv-codec is empty"));
    EXPECT_THAT(problem(options({{"kv_codec", "k6v4"}, {"kv_schedule", "x"}})),
                HasSubstr("kv-schedule is of use with kv-codec schedule only"));
    EXPECT_EQ(options({{"kv_codec", "k6v4"}, {"kv_codec_allow", "schedule"}, {"kv_schedule", "x"}})
                  ->kv_schedule,
              "x");
    EXPECT_THAT(problem(options({{"kv_sidecar", "x"}})), HasSubstr("kv-codec-cold only"));
    const auto learning = options({{"kv_codec", "k6v4"}, {"kv_sidecar", "learn:a/b:c"}});
    EXPECT_EQ(learning->kv_sidecar, "a/b:c");
    EXPECT_EQ(learning->kv_learn_tokens, 4096u);
    EXPECT_EQ(options({{"kv_codec", "k6v4"}, {"kv_sidecar", "x"}})->kv_learn_tokens, 0u);
    EXPECT_THAT(problem(options({{"kv_codec", "k6v4"}, {"kv_sidecar", "learn:"}})),
                HasSubstr("names no file"));
    EXPECT_THAT(
        problem(options({{"kv_codec", "k6v4"}, {"kv_sidecar", "x"}, {"kv_learn_tokens", "512"}})),
        HasSubstr("kv-sidecar learn:FILE only"));
    EXPECT_THAT(problem(options({{"kv_sidecar", "learn:x"}})), HasSubstr("kv-codec-cold only"));
    EXPECT_THAT(problem(options({{"kv_codec_cold", "zstd"}})), HasSubstr("--disk DIR"));
    EXPECT_THAT(problem(options({{"kv_codec_host", ""}})), HasSubstr("kv-codec-host is empty"));
    EXPECT_THAT(problem(options({{"kv_codec_host", "zstd"}, {"host_memory", "0"}})),
                HasSubstr("host-memory is 0"));
    const auto host = options({{"kv_codec_host", "ec:4"},
                               {"kv_sidecar", "x"},
                               {"kv_sinks", "128"},
                               {"cold_cpu", "20"},
                               {"cold_unpack_threads", "3"}});
    ASSERT_TRUE(host.ok());
    EXPECT_EQ(host->kv_codec_host, "ec:4");
    EXPECT_EQ(host->block_tokens, 64u);
    EXPECT_THAT(problem(options({{"kv_codec_cold", ""}})), HasSubstr("kv-codec-cold is empty"));
    EXPECT_THAT(problem(options({{"cold_unpack_threads", "4"}})), HasSubstr("kv-codec-cold only"));
    EXPECT_THAT(problem(options({{"cold_unpack_threads", "0"}})), HasSubstr("at least 1"));
    EXPECT_THAT(problem(options({{"cold_cpu", "20"}})), HasSubstr("kv-codec-cold only"));
    EXPECT_THAT(problem(options({{"cold_cpu", "0"}})), HasSubstr("at least 1"));
    const auto cold =
        options({{"kv_codec_cold", "ec:2.7"}, {"kv_sidecar", "x"}, {"disk", "/nowhere:1GiB"}});
    EXPECT_EQ(cold->block_tokens, 64u);
    EXPECT_TRUE(options({{"kv_codec_cold", "ec:2.7"},
                         {"kv_sinks", "128"},
                         {"kv_sidecar", "x"},
                         {"disk", "/nowhere:1GiB"}})
                    .ok());
    EXPECT_THAT(problem(options({{"model", ""}, {"block_tokens", "24"}})),
                Not(HasSubstr("no model")));
    const auto config = Config::load(serve_option_table(), {});
    EXPECT_THAT(problem(serve_options(*config, 64 * kGiB)), HasSubstr("quire serve MODEL.gguf"));
}

TEST(ServeOptions, SpansAreWholeBlocksAndNeedACodec) {
    EXPECT_EQ(options({{"kv_codec", "k8v8"}})->kv_recent_tokens, 64u);
    EXPECT_EQ(options({{"kv_codec", "k8v8"}, {"kv_recent_tokens", "192"}})->kv_recent_tokens, 192u);
    EXPECT_THAT(problem(options({{"kv_codec", "k8v8"}, {"kv_recent_tokens", "100"}})),
                HasSubstr("kv-recent-tokens must be a multiple of 64, not 100"));
    EXPECT_THAT(problem(options({{"kv_codec", "k8v8"}, {"kv_recent_tokens", "0"}})),
                HasSubstr("at least 64"));
    EXPECT_THAT(problem(options({{"kv_recent_tokens", "128"}})), HasSubstr("with a kv-codec only"));
}

TEST(ServeOptions, FurtherCodecs) {
    const auto further =
        options({{"kv_codec_allow", "k8v8,k6v4"}, {"block_tokens", "32"}, {"kv_sinks", "128"}});
    ASSERT_TRUE(further.ok());
    EXPECT_EQ(further->kv_codecs_allowed, (std::vector<std::string>{"k8v8", "k6v4"}));
    EXPECT_TRUE(
        options({{"kv_codec", "k8v8"}, {"kv_codec_allow", "raw16"}, {"block_tokens", "32"}}).ok());
    EXPECT_THAT(problem(options(
                    {{"kv_codec", "k8v8"}, {"kv_codec_allow", "k6v4"}, {"block_tokens", "32"}})),
                HasSubstr("a block has 64 tokens"));
}

TEST(ServeOptions, AConfigFileCannotNameAnother) {
    const auto config =
        Config::load(serve_option_table(), {{}, {}, "a.yaml", "port: 1\n\nconfig: b.yaml\n"});
    ASSERT_FALSE(config.ok());
    EXPECT_THAT(config.error().message, HasSubstr("a.yaml:3"));
    EXPECT_THAT(config.error().message, HasSubstr("--config"));
    const auto printed = Config::load(serve_option_table(), {{{"config", "a.yaml"}}, {}, "", ""});
    EXPECT_THAT(printed->effective(), Not(HasSubstr("\nconfig:")));
}

TEST(ServeOptions, ConfigFileComesFromFlagThenEnvironment) {
    EXPECT_EQ(config_file_name({{"config", "a"}}, {{"QUIRE_CONFIG", "b"}}), "a");
    EXPECT_EQ(config_file_name({}, {{"QUIRE_CONFIG", "b"}}), "b");
    EXPECT_EQ(config_file_name({}, {}), "");
}

TEST(Machine, HasMemoryAndCores) {
    EXPECT_GT(machine_memory_bytes(), uint64_t{64} << 20);
    EXPECT_GE(machine_cores(), 1u);
}

}  // namespace
}  // namespace quire
