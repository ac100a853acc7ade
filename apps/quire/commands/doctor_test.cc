#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/commands/doctor/checks.h"
#include "cache/ghosts.h"
#include "server/test_server.h"
#include "tier/testing/disk_fixture.h"

namespace quire::doctor {
namespace {

std::string all_text(const Findings& findings) {
    return findings_text(findings);
}

bool mentions(const Findings& findings, std::string_view word) {
    return all_text(findings).find(word) != std::string::npos;
}

TEST(Findings, TextAndJsonSayTheSame) {
    const Findings findings = {good("CPU", "fast"), warning("disk", "slow", "buy another"),
                               failure("server", "gone", "start it")};
    EXPECT_EQ(findings_text(findings),
              "ok    CPU                 fast\n"
              "warn  disk                slow\n"
              "                          -> buy another\n"
              "FAIL  server              gone\n"
              "                          -> start it\n"
              "\n1 ok, 1 warnings, 1 failures\n");
    EXPECT_EQ(worst(findings), Verdict::fail);
    EXPECT_EQ(worst(std::span(findings).first(2)), Verdict::warn);
    const auto json = nlohmann::json::parse(findings_json(findings));
    EXPECT_EQ(json["verdict"], "fail");
    EXPECT_EQ(json["findings"][1]["remedy"], "buy another");
}

TEST(Doctor, MachineIsDescribed) {
    const Findings findings = check_machine();
    EXPECT_EQ(findings.size(), 6u);
    EXPECT_TRUE(mentions(findings, "cores, attention by"));
    EXPECT_TRUE(mentions(findings, "io_uring"));
    for (const Finding& finding : findings)
        EXPECT_EQ(finding.verdict == Verdict::ok, finding.remedy.empty()) << finding.what;
}

TEST(Doctor, EveryMissReasonHasARowInTheTable) {
    for (MissReason reason :
         {MissReason::evicted, MissReason::corrupt, MissReason::io_error, MissReason::not_admitted,
          MissReason::other_salt, MissReason::other_tenant, MissReason::other_model,
          MissReason::other_packing, MissReason::no_space, MissReason::cache_off})
        EXPECT_FALSE(miss_remedy(miss_reason_name(reason)).empty()) << miss_reason_name(reason);
    for (MissReason reason : {MissReason::none, MissReason::never_seen,
                              MissReason::cheaper_to_recompute, MissReason::flushed})
        EXPECT_TRUE(miss_remedy(miss_reason_name(reason)).empty()) << miss_reason_name(reason);
}

TEST(Doctor, MissesAreSortedAndExplained) {
    const Findings findings = judge_misses(
        "# HELP quire_misses_total Lookups\n"
        "quire_misses_total{reason=\"never_seen\"} 3\n"
        "quire_misses_total{reason=\"evicted\"} 17\n"
        "quire_misses_total{reason=\"corrupt\"} 0\n"
        "quire_other_total{reason=\"evicted\"} 99\n"
        "quire_misses_total{reason=\"evicted\n"
        "quire_misses_total{reason=\"x\"}nonsense\n");
    ASSERT_EQ(findings.size(), 2u);
    EXPECT_EQ(findings[0].found, "17 x evicted");
    EXPECT_EQ(findings[0].verdict, Verdict::warn);
    EXPECT_NE(findings[0].remedy.find("--kv-memory"), std::string::npos);
    EXPECT_EQ(findings[1].found, "3 x never_seen");
    EXPECT_EQ(findings[1].verdict, Verdict::ok);
    EXPECT_EQ(judge_misses("").front().found, "none so far");
}

TEST(Doctor, DegradedAndCorruptTiersAreTold) {
    const Findings findings = judge_cache_status(
        R"({"tiers":[{"tier":"g2","used_bytes":1024,"capacity_bytes":2048,"corrupt":2},
            {"tier":"g3","degraded":true,"degraded_why":"disk full"},7],
            "lookups":{"tokens":200,"hit_tokens":50}})");
    ASSERT_EQ(findings.size(), 3u);
    EXPECT_EQ(findings[0].verdict, Verdict::warn);
    EXPECT_EQ(findings[1].verdict, Verdict::fail);
    EXPECT_NE(findings[1].found.find("disk full"), std::string::npos);
    EXPECT_EQ(findings[2].found, "50 of 200 prompt tokens (25.0 %)");
}

TEST(Doctor, OddRepliesAreWarningsNotCrashes) {
    for (const char* text : {"", "[]", "{", "{\"tiers\":3}", "null", "\"\xff\""}) {
        EXPECT_EQ(worst(judge_cache_status(text)), Verdict::warn) << text;
        EXPECT_EQ(judge_explanation(text).verdict, Verdict::warn) << text;
    }
}

TEST(Doctor, LiveServerIsAskedEverything) {
    server::TestServer served;
    server::HttpClient client = served.client();
    const Findings findings = check_server(client, "one two three");
    EXPECT_TRUE(mentions(findings, "takes requests")) << all_text(findings);
    EXPECT_TRUE(mentions(findings, "this prompt")) << all_text(findings);
    EXPECT_TRUE(mentions(findings, "hits")) << all_text(findings);
    EXPECT_NE(worst(findings), Verdict::fail) << all_text(findings);
}

TEST(Doctor, NoServerIsOneFailureWithARemedy) {
    uint16_t port = 0;
    {
        server::TestServer gone;
        port = gone.server->port();
    }
    server::HttpClient client({"127.0.0.1", port, ""}, "", 2'000'000'000);
    const Findings findings = check_server(client, "");
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].verdict, Verdict::fail);
    EXPECT_NE(findings[0].remedy.find("quire serve"), std::string::npos);
}

TEST(Doctor, DiskIsTriedAndLeftAsItWas) {
    testing::TempDir dir;
    const Findings findings = check_disk(dir.path());
    EXPECT_TRUE(mentions(findings, "an empty directory")) << all_text(findings);
    EXPECT_TRUE(mentions(findings, "disk write")) << all_text(findings);
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
    EXPECT_TRUE(mentions(check_disk(dir.path() + "/not/yet"), "not there yet"));
}

TEST(Doctor, ForeignDirectoryFails) {
    testing::TempDir dir;
    std::ofstream(dir.file("letter.txt")) << "not ours";
    EXPECT_EQ(worst(check_disk(dir.path())), Verdict::fail);
}

TEST(Doctor, DiskCacheInUseIsFine) {
    testing::DiskFixture disk;
    const Findings findings = check_disk(disk.dir().path());
    EXPECT_TRUE(mentions(findings, "in use by a running process")) << all_text(findings);
}

TEST(Doctor, ConfigurationIsChecked) {
    const char* none[] = {nullptr};
    EXPECT_EQ(worst(check_config("", none)), Verdict::ok) << all_text(check_config("", none));
    const char* unknown[] = {"QUIRE_PORTT=1", nullptr};
    EXPECT_EQ(worst(check_config("", unknown)), Verdict::fail);
    EXPECT_TRUE(mentions(check_config("", unknown), "QUIRE_PORTT"));
    EXPECT_EQ(worst(check_config("/nowhere/quire.yaml", none)), Verdict::fail);
    testing::TempDir dir;
    std::ofstream(dir.file("quire.yaml")) << "port: 99999999\n";
    EXPECT_EQ(worst(check_config(dir.file("quire.yaml"), none)), Verdict::fail);
    std::ofstream(dir.file("good.yaml")) << "port: 8001\n";
    EXPECT_EQ(worst(check_config(dir.file("good.yaml"), none)), Verdict::ok)
        << all_text(check_config(dir.file("good.yaml"), none));
}

TEST(DoctorCommand, PromptWithoutServerIsAnError) {
    const char* arguments[] = {"quire doctor", "--prompt", "x"};
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(commands::run_doctor(3, arguments), commands::kExitError);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("--url"), std::string::npos);
}

TEST(DoctorCommand, JsonIsWhole) {
    const char* arguments[] = {"quire doctor", "--json"};
    ::testing::internal::CaptureStdout();
    const int code = commands::run_doctor(2, arguments);
    const auto json = nlohmann::json::parse(::testing::internal::GetCapturedStdout());
    EXPECT_EQ(code, json["verdict"] == "fail" ? 1 : 0);
    EXPECT_GE(json["findings"].size(), 7u);
}

}  // namespace
}  // namespace quire::doctor
