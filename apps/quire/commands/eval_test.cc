#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/eval_plan.h"
#include "apps/quire/commands/eval_report.h"
#include "engine/model/schedule_file.h"

namespace quire::commands {
namespace {

using bench::EvalRow;

EvalRow row(const char* name, double bits, double kl) {
    EvalRow out{.name = name};
    out.bits = out.total_bits = bits;
    out.divergence.positions = 10;
    out.divergence.mean = kl;
    return out;
}

EvalReport sample() {
    EvalReport report{
        .model = "M", .text = "T", .tokens = 256, .exact = {}, .rows = {}, .bars = {}};
    report.rows = {row("k4v4", 4.125, 1e-2), row("bf16", 16, 1e-6)};
    report.rows[1].noise_floor = true;
    return report;
}

EvalReport with_details() {
    EvalReport report = sample();
    report.greedy.prompts = 2;
    report.greedy.prompt_tokens = 128;
    report.greedy.tokens = 64;
    report.keys = {.keys = 2, .tokens = 256, .seed = 7};
    report.keys_by_16_bit = {true, true};
    report.key_depths = {0.25, 0.75};
    for (EvalRow& r : report.rows) {
        r.layer_errors = {0.001, 0.003};
        r.greedy.prompts = {{64, 64}, {64, 64}};
        r.keys = {true, true};
    }
    report.rows[0].greedy.prompts[1].same = 12;
    report.rows[0].keys[0] = false;
    return report;
}

TEST(EvalPlans, SayWhatIsJudgedHowOftenAndAboutHowLong) {
    EvalPlan plan{.tokens = 257, .caches = 3, .judged = 4 * 257, .ns_a_token = 1e6};
    EXPECT_NE(plan_text(plan).find("each of 3 others; the last 129 are judged"),
              std::string::npos);
    EXPECT_NE(plan_text(plan).find("1028 tokens through the model: roughly 1.03 s\n"),
              std::string::npos)
        << plan_text(plan);
    plan.learning = 100;
    plan.ns_a_token = 0;
    EXPECT_NE(plan_text(plan).find("1128 tokens through the model (text 1028, learning 100, "
                                   "continuations and keys 0)\n"),
              std::string::npos)
        << plan_text(plan);
}

TEST(EvalReports, TheNoiseFloorIsNeitherOursNorAPeer) {
    EvalReport report = sample();
    EXPECT_NE(eval_text(report).find("bf16 (noise of 16 bits)"), std::string::npos);
    EXPECT_TRUE(peers_below(report.rows).empty());
    // It beats nobody.
    report.rows.push_back(row("peer", 17, 1e-3));
    report.rows.back().reference = true;
    EXPECT_EQ(peers_below(report.rows), std::vector<std::string>{"peer"});
    const auto json = nlohmann::json::parse(eval_json(report));
    EXPECT_EQ(json["rows"][0]["noise_floor"], false);
    EXPECT_EQ(json["rows"][1]["noise_floor"], true);
    EXPECT_EQ(json["rows"][1]["peer"], false);
    EXPECT_NE(eval_svg(report).find("bf16: noise of 16 bits"), std::string::npos);
}

TEST(EvalReports, WhatWasNotAskedForIsNotThere) {
    const std::string text = eval_text(sample());
    for (const char* word : {"ttention", "reedy", "eys"})
        EXPECT_EQ(text.find(word), std::string::npos) << word;
    const auto json = nlohmann::json::parse(eval_json(sample()));
    for (const char* name : {"attention_error", "greedy", "keys"})
        EXPECT_FALSE(json.contains(name) || json["rows"][0].contains(name)) << name;
}

TEST(EvalReports, PrintSchedulesThatCanBeReadAgain) {
    EvalReport report = sample();
    EXPECT_EQ(eval_text(report).find("layers:"), std::string::npos);
    LayerSchedule schedule;
    for (uint8_t l = 0; l < 8; ++l) schedule.bits.push_back({static_cast<uint8_t>(2 + l % 7), 4});
    schedule.skip_layers = {0, 7};
    report.rows.push_back(row("auto:4.5, layers 0+7 exact", 6.1, 1e-3));
    report.rows.back().schedule = schedule;
    const std::string text = eval_text(report);
    const size_t from = text.find("# auto:4.5, layers 0+7 exact: 6.100 bits\n");
    ASSERT_NE(from, std::string::npos) << text;
    const std::string end = "skip_layers: [0, 7]\n";
    const auto printed = parse_schedule(
        text.substr(from, text.find(end, from) + end.size() - from), schedule.bits.size());
    ASSERT_TRUE(printed.ok()) << printed.error().message;
    EXPECT_EQ(*printed, schedule);
    const auto json = nlohmann::json::parse(eval_json(report));
    EXPECT_FALSE(json["rows"][0].contains("schedule"));
    const auto again = parse_schedule(json["rows"][2]["schedule"].get<std::string>(), 8);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, schedule);
}

TEST(EvalReports, SayWhatStaysExact) {
    EvalReport report = sample();
    report.exact = {.sinks = 64, .tail = 128};
    EXPECT_NE(eval_text(report).find("16 bit: the first 64 tokens and the newest 128\n"),
              std::string::npos);
    const auto json = nlohmann::json::parse(eval_json(report));
    EXPECT_EQ(json["sink_tokens"], 64);
    EXPECT_EQ(json["tail_tokens"], 128);
}

TEST(EvalReports, DetailsHaveATableAndStableNames) {
    const std::string text = eval_text(with_details());
    EXPECT_NE(text.find("planted in 256 tokens each (seed 7); the 16-bit cache: 2/2."),
              std::string::npos);
    EXPECT_NE(text.find("0.300 % |     1 |             12 |       12 |  1/2"), std::string::npos)
        << text;
    const auto json = nlohmann::json::parse(eval_json(with_details()));
    const auto& k4v4 = json["rows"][0];
    EXPECT_EQ(k4v4["attention_error"]["layers"].size(), 2u);
    EXPECT_EQ(k4v4["attention_error"]["worst_layer"], 1);
    EXPECT_NEAR(k4v4["attention_error"]["mean"].get<double>(), 0.002, 1e-12);
    EXPECT_EQ(k4v4["greedy"]["median"], 12);
    EXPECT_EQ(k4v4["greedy"]["earliest"], 12);
    EXPECT_EQ(k4v4["greedy"]["prompts"][1]["same"], 12);
    EXPECT_TRUE(json["rows"][1]["greedy"]["median"].is_null());
    EXPECT_EQ(k4v4["keys"]["found"], 1);
    EXPECT_EQ(k4v4["keys"]["by_depth"], nlohmann::json::array({false, true}));
    EXPECT_EQ(json["keys"]["seed"], 7);
    EXPECT_EQ(json["keys"]["found_by_16_bit"], 2);
    EXPECT_EQ(json["keys"]["depths"].size(), 2u);
    EXPECT_EQ(json["greedy"]["prompt_tokens"], 128);
}

}  // namespace
}  // namespace quire::commands
