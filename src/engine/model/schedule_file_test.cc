#include "engine/model/schedule_file.h"

#include <fstream>

#include <gtest/gtest.h>

#include "engine/model/kv_coding.h"

namespace quire {
namespace {

std::string refusal(const std::string& yaml) {
    const auto bad = parse_schedule(yaml, 3);
    return bad.ok() ? "" : bad.error().message;
}

TEST(ScheduleFiles, ComeBackAsTheyWereWritten) {
    const LayerSchedule plain{{{6, 4}, {2, 8}, {5, 3}}};
    LayerSchedule skipping = plain;
    skipping.skip_layers = {0, 2};
    for (const LayerSchedule& schedule : {plain, skipping}) {
        const auto back = parse_schedule(schedule_yaml(schedule), 3);
        ASSERT_TRUE(back.ok()) << back.error().message;
        EXPECT_EQ(*back, schedule);
    }
    const auto by_hand =
        parse_schedule("skip_layers: [2, 0, 2]\nlayers: [{k: 6, v: 4},\n {v: 8, k: 2}, {k: 5, v: "
                       "3}]",
                       3);
    ASSERT_TRUE(by_hand.ok()) << by_hand.error().message;
    EXPECT_EQ(*by_hand, skipping);
}

TEST(ScheduleFiles, AreRefusedByWhatIsWrongWithThem) {
    const std::string first = "layers:\n - {k: 6, v: 4}\n - {k: 6, v: 4}\n";
    const std::pair<std::string, const char*> cases[] = {
        {"", "no list 'layers'"},
        {"layers: 3", "'layers' is no list"},
        {"layers: [1, 2, 3]", "'layers' is no list"},
        {"{", "line "},
        {first, "it has 2 layers and the model 3"},
        {first + " - {k: 9, v: 4}", "line 4: layer 2 has k: 9; a width is 2 to 8 bits"},
        {first + " - {k: 1, v: 4}", "layer 2 has k: 1"},
        {first + " - {k: 6, v: four}", "layer 2 has v: four"},
        {first + " - {k: 6}", "line 4: layer 2 lacks v"},
        {first + " - {k: 6, v: 4, q: 3}", "layer 2 has 'q'"},
        {first + " - {k: 6, v: 4, k: 3}", "'k' appears twice"},
        {first + " - {k: 6, v: 4}\nskip_layers: [3]", "line 5: skip_layers has 3; this model has"},
        {first + " - {k: 6, v: 4}\nskip_layers: [0, 1, 2]", "leaves no layer"},
        {first + " - {k: 6, v: 4}\nskip: [1]", "line 5: 'skip'"},
    };
    for (const auto& [yaml, why] : cases) {
        EXPECT_NE(refusal(yaml).find(why), std::string::npos) << yaml << "\n" << refusal(yaml);
        EXPECT_NE(refusal(yaml).find("--save-schedule"), std::string::npos) << yaml;
    }
}

TEST(ScheduleFiles, AreServedUnderALayoutOfTheirOwn) {
    const KvLayout plain{.block_tokens = kCodedBlockTokens,
                         .groups = {{.layers = {0, 1, 2}, .kv_heads = 2, .head_dim = 64}}};
    const auto layout_of = [&](const std::vector<codec::LayerBits>& bits,
                               std::vector<uint32_t> skip) {
        auto coding = find_kv_coding("schedule", kSinkTokens, plain);
        EXPECT_TRUE(coding.ok());
        EXPECT_TRUE(keep_exact(&*coding, std::move(skip), plain).ok());
        EXPECT_TRUE(take_widths(&*coding, bits, plain).ok());
        EXPECT_EQ(coding->spec_of(1).k_bits, bits[1].k);
        // A sidecar that is taken afterwards brings means, not widths.
        codec::Sidecar other{.layers = codec::sidecar_layers(plain)};
        other.bits = {{8, 8}, {8, 8}, {8, 8}};
        EXPECT_TRUE(take_sidecar(&*coding, {other, {}}, plain).ok());
        EXPECT_EQ(coding->spec_of(1).k_bits, bits[1].k);
        return coding->split(plain).digest();
    };
    const Hash128 one = layout_of({{6, 4}, {2, 8}, {5, 3}}, {});
    EXPECT_EQ(layout_of({{6, 4}, {2, 8}, {5, 3}}, {}), one);
    EXPECT_FALSE(layout_of({{6, 4}, {2, 7}, {5, 3}}, {}) == one);
    EXPECT_FALSE(layout_of({{6, 4}, {2, 8}, {5, 3}}, {2}) == one);
}

TEST(ScheduleFiles, NameTheFile) {
    EXPECT_NE(read_schedule("/nowhere.yaml", 3).error().message.find("/nowhere.yaml"),
              std::string::npos);
    const std::string path = testing::TempDir() + "quire_schedule_file_test.yaml";
    std::ofstream(path) << "layers: []";
    const auto bad = read_schedule(path, 3);
    ASSERT_FALSE(bad.ok());
    EXPECT_TRUE(bad.error().message.starts_with("the schedule " + path + ": "));
}

}  // namespace
}  // namespace quire
