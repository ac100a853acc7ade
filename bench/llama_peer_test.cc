#include "bench/llama_peer.h"

#include <gtest/gtest.h>

#include "bench/subprocess.h"

namespace quire::bench {
namespace {

constexpr int64_t kWait_ns = int64_t{20} * 1'000'000'000;

TEST(LlamaPeer, ReadsTheRates) {
    EXPECT_EQ(*parse_llama_bench(R"([{"n_prompt":512,"avg_ts":140.25,"samples_ts":[1]}])"), 140.25);
    EXPECT_EQ(*parse_batched_bench("main: n_kv_max = 9\n{\"pp\":1,\"speed_tg\": 47.5}\n"), 47.5);
}

TEST(LlamaPeer, OddOutputIsAnError) {
    for (const char* text : {"", "{}", "[]", "[1]", "[{}]", "[{\"avg_ts\":0}]", "null",
                             "[{\"avg_ts\":\"fast\"}]", "{\"speed_tg\":-1}", "{\"speed_tg\":[]}"}) {
        EXPECT_FALSE(parse_llama_bench(text).ok()) << text;
        EXPECT_FALSE(parse_batched_bench(text).ok()) << text;
    }
}

TEST(LlamaPeer, MissingProgramNamesTheRemedy) {
    auto peer = LlamaPeer::find("/nowhere/llama-bench", 2);
    ASSERT_FALSE(peer.ok());
    EXPECT_NE(peer.error().message.find("--llama-bench"), std::string::npos);
}

TEST(Subprocess, ReturnsWhatWasPrinted) {
    EXPECT_EQ(*run_program({"echo", "one", "two words"}, kWait_ns), "one two words\n");
}

TEST(Subprocess, FailureAndAbsenceAreErrors) {
    EXPECT_EQ(run_program({"false"}, kWait_ns).code(), Code::io);
    auto absent = run_program({"/nowhere/program"}, kWait_ns);
    ASSERT_FALSE(absent.ok());
    EXPECT_NE(absent.error().message.find("/nowhere/program"), std::string::npos);
}

TEST(Subprocess, OneThatHangsIsKilled) {
    EXPECT_EQ(run_program({"tail", "-f", "/dev/null"}, 50'000'000).code(), Code::timeout);
}

}  // namespace
}  // namespace quire::bench
