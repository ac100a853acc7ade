// quire codec list, bench and verify, as a user runs them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "tier/testing/temp_dir.h"

namespace quire::commands {
namespace {

using ::testing::HasSubstr;

struct CodecRun {
    int code = 0;
    std::string text;
    std::string errors;
};

CodecRun run_with(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "quire codec");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    CodecRun output;
    output.code = run_codec(static_cast<int>(arguments.size()), arguments.data());
    output.text = ::testing::internal::GetCapturedStdout();
    output.errors = ::testing::internal::GetCapturedStderr();
    return output;
}

const std::filesystem::path kGolden = "tests/golden/codec";  // tests run in the source folder

TEST(CodecCommand, AFlagThatIsNotKnownGetsTheNearestOne) {
    const CodecRun near = run_with({"list", "--head-dm=64"});
    EXPECT_EQ(near.code, kExitError);
    EXPECT_THAT(near.errors, HasSubstr("quire codec: there is no --head-dm=64; did you mean "
                                       "--head-dim?"));
    const CodecRun far = run_with({"list", "--nothing-like-it"});
    EXPECT_EQ(far.code, kExitError);
    EXPECT_THAT(far.errors, HasSubstr("there is no --nothing-like-it (--help"));
}

TEST(CodecCommand, ListsEveryCodecWithItsBits) {
    const CodecRun output = run_with({"list", "--head-dim", "64", "--json"});
    ASSERT_EQ(output.code, kExitOk) << output.errors;
    const auto json = nlohmann::json::parse(output.text);
    bool seen = false;
    for (const auto& codec : json["codecs"]) {
        EXPECT_TRUE(codec["fits"]);
        if (codec["codec"] != "k6v4") continue;
        seen = true;
        EXPECT_EQ(codec["bits_per_element"], 5.125);
        EXPECT_EQ(codec["page_bytes"], 1312);
        EXPECT_EQ(codec["fused"], true);
    }
    EXPECT_TRUE(seen);
    EXPECT_THAT(run_with({"list", "k6v4"}).text, HasSubstr("k6v4  |"));
}

TEST(CodecCommand, ListsFamiliesWithTheirRangesOnAScreen) {
    const CodecRun output = run_with({"list", "--head-dim", "64"});
    ASSERT_EQ(output.code, kExitOk) << output.errors;
    EXPECT_THAT(output.text, HasSubstr("k{2..8}v{2..8}"));
    EXPECT_THAT(output.text, HasSubstr("2.12 to 8.12"));
    EXPECT_LT(std::ranges::count(output.text, '\n'), 45);
    size_t longest = 0, begin = 0;
    for (size_t end; (end = output.text.find('\n', begin)) != std::string::npos; begin = end + 1)
        longest = std::max(longest, end - begin);
    EXPECT_LE(longest, 110u);
    const CodecRun all = run_with({"list", "--head-dim", "64", "--all"});
    EXPECT_THAT(all.text, HasSubstr("k7v3"));
    EXPECT_THAT(all.text, HasSubstr("turboquant_3bit_nc"));
    const CodecRun odd = run_with({"list", "--head-dim", "48"});
    EXPECT_THAT(odd.text, HasSubstr("0 of 12 fit: head_dim must be 64, 80,"));
}

TEST(CodecCommand, ListSaysWhatItsColumnsMeanAndWhoTakesARow) {
    for (const std::vector<const char*>& arguments :
         {std::vector<const char*>{"list"}, {"list", "--all"}, {"list", "--help"}}) {
        const CodecRun output = run_with(arguments);
        for (const char* word : {"bits a number", "of raw16", "page bytes", "given to",
                                 "--kv-codec-cold", "quire eval --caches"})
            EXPECT_THAT(output.text, HasSubstr(word)) << arguments.back();
    }
    const auto json = nlohmann::json::parse(run_with({"list", "--json"}).text);
    std::map<std::string, std::string> takers;
    for (const auto& codec : json["codecs"]) takers[codec["codec"]] = codec["given_to"];
    EXPECT_EQ(takers["raw16"], "page");
    EXPECT_EQ(takers["k3v2"], "page");
    EXPECT_EQ(takers["bx"], "cold, host");
    EXPECT_EQ(takers["fp8_e4m3"], "eval");
    EXPECT_EQ(takers["tq2.5"], "eval");
}

TEST(CodecCommand, AShapeThatDoesNotFitIsSaid) {
    const CodecRun output = run_with({"list", "k6v4", "--head-dim", "72"});
    EXPECT_EQ(output.code, kExitOk);
    EXPECT_THAT(output.text, HasSubstr("does not fit: head_dim must be a multiple of 16"));
    const CodecRun bench = run_with({"bench", "k6v4", "--head-dim", "72", "--quick"});
    EXPECT_EQ(bench.code, kExitError);
    EXPECT_THAT(bench.errors, HasSubstr("head_dim 72"));
}

TEST(CodecCommand, UnknownNamesAreErrorsWithTheNearest) {
    for (const char* what : {"list", "bench"}) {
        const CodecRun output = run_with({what, "k6v44"});
        EXPECT_EQ(output.code, kExitError);
        EXPECT_THAT(output.errors, HasSubstr("nearest: k6v4"));
    }
    EXPECT_EQ(run_with({}).code, kExitError);
    EXPECT_EQ(run_with({"transcend"}).code, kExitError);
}

TEST(CodecCommand, HelpTeachesTheNames) {
    const CodecRun output = run_with({"--help"});
    EXPECT_EQ(output.code, kExitOk);
    EXPECT_THAT(output.text, HasSubstr("k6v4 is 6 bits a key number"));
    EXPECT_THAT(output.text, HasSubstr("quire codec verify"));
}

TEST(CodecCommand, BenchMeasuresEveryInstructionSet) {
    const CodecRun output =
        run_with({"bench", "k8v8", "raw16", "--quick", "--repeats", "1", "--json"});
    ASSERT_NE(output.code, kExitError) << output.errors;
    const auto json = nlohmann::json::parse(output.text);
    EXPECT_GE(json["speeds"].size(), 2u);
    EXPECT_EQ(json["bars"].size(), 1u);
    for (const auto& speed : json["speeds"]) {
        EXPECT_GT(speed["encode_bytes_per_s"], 0);
        EXPECT_GT(speed["decode_share"], 0);
    }
}

TEST(CodecCommand, VerifyFindsAByteThatDiffers) {
    const std::string good = kGolden / "hot.bin";
    const CodecRun output = run_with({"verify", good.c_str()});
    EXPECT_EQ(output.code, kExitOk) << output.text << output.errors;
    EXPECT_THAT(output.text, HasSubstr(" checked, 0 differ"));

    std::ifstream file(good, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(file), {});
    bytes[bytes.size() / 2] ^= 1;
    const testing::TempDir folder;
    const std::string damaged = folder.file("damaged.bin");
    std::ofstream(damaged, std::ios::binary) << bytes;
    EXPECT_EQ(run_with({"verify", damaged.c_str()}).code, kExitNotOk);
    EXPECT_EQ(run_with({"verify", "/nowhere/at/all"}).code, kExitError);
}

TEST(CodecCommand, VerifyTakesAFolderAndEveryKindOfVectorsInIt) {
    const CodecRun whole = run_with({"verify", kGolden.c_str(), "--json"});
    EXPECT_EQ(whole.code, kExitOk) << whole.text << whole.errors;
    std::set<std::string> seen;
    const auto json = nlohmann::json::parse(whole.text);
    for (const auto& check : json["checks"]) seen.insert(check["codec"]);
    for (const char* codec : {"raw16", "k6v4", "bx", "i2c", "ec", "mla"})
        EXPECT_TRUE(seen.contains(codec)) << codec;

    for (const char* name : {"ec.block", "mla.rows"}) {
        const testing::TempDir folder;
        std::filesystem::copy_file(kGolden / name, folder.file(name));
        std::filesystem::copy_file(kGolden / "README.md", folder.file("README.md"));
        EXPECT_EQ(run_with({"verify", folder.path().c_str()}).code, kExitOk) << name;
        std::fstream file(folder.file(name), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(20'000).put('!').flush();
        const CodecRun damaged = run_with({"verify", folder.path().c_str()});
        EXPECT_EQ(damaged.code, kExitNotOk) << name;
        EXPECT_THAT(damaged.text, HasSubstr("byte 20000 differs"));
        std::filesystem::resize_file(folder.file(name), 20'000);
        EXPECT_THAT(run_with({"verify", folder.path().c_str()}).text, HasSubstr("has 20000 bytes"));
    }
    const testing::TempDir empty;
    EXPECT_THAT(run_with({"verify", empty.path().c_str()}).errors, HasSubstr("no golden vectors"));
    const std::string other = kGolden / "README.md";
    EXPECT_THAT(run_with({"verify", other.c_str()}).errors, HasSubstr("end in .bin"));
}

}  // namespace
}  // namespace quire::commands
