#include "codec/ec/kernels.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "codec/ec/testing.h"

namespace quire::codec::ec {
namespace {

std::vector<const Kernels*> kernels_here() {
    std::vector<const Kernels*> out;
    for (const Kernels& one : all_kernels())
        if (one.cpu_has_it()) out.push_back(&one);
    return out;
}

struct Coded {
    std::vector<std::byte> bytes;
    BlockRows rows;
    bool operator==(const Coded&) const = default;
};

// Everything with one instruction set.
Coded code(const Model& model, const Kernels& kernels, const BlockRows& rows, uint32_t tokens) {
    BlockCoder coder = BlockCoder::create(model, whole_chain(model), 3).value();
    coder.use(kernels);
    Coded out;
    BlockScratch scratch;
    coder.encode(tokens, reads(rows), &scratch, &out.bytes);
    EXPECT_TRUE(coder.decode(out.bytes, tokens, keeps(&out.rows), &scratch).ok()) << kernels.name;
    return out;
}

// Turned components and weights for everything, so that orders of addition show.
Model dense_model() {
    Model model = foretold_model(3, 0.3f);
    std::mt19937_64 rng(kSeed);
    std::normal_distribution<float> normal(0, 0.1f);
    for (auto* side : {&model.k, &model.v})
        for (auto& layer : *side)
            for (HeadModel& head : layer)
                for (auto* numbers : {&head.components, &head.restore, &head.weights})
                    for (float& x : *numbers) x += normal(rng);
    return model;
}

TEST(EcKernels, AllInstructionSetsGiveTheSameBits) {
    const Model model = dense_model();
    for (const uint32_t tokens : {1u, 16u, 23u, 32u, 48u, 64u, 100u, 128u, 250u}) {
        BlockRows rows = random_rows(3, tokens, tokens);
        rows[1][0][3] = 1e6f;
        rows[1][1][tokens * kDim] = -std::numeric_limits<float>::infinity();
        rows[0][1][kDim - 1] = 3e38f;
        const Coded expected = code(model, all_kernels().front(), rows, tokens);
        for (const Kernels* one : kernels_here())
            EXPECT_TRUE(code(model, *one, rows, tokens) == expected) << one->name << " " << tokens;
    }
}

TEST(EcKernels, ReciprocalsDivide) {
    std::mt19937_64 rng(kSeed);
    for (uint32_t frequency = 1; frequency <= kProbabilities - (kSymbols - 1); ++frequency) {
        RansTable::Frequencies all;
        all.fill(1);
        all[7] = static_cast<uint16_t>(frequency);
        all[9] = static_cast<uint16_t>(all[9] + kProbabilities - (kSymbols - 1) - frequency);
        const RansTable table(all);
        const uint32_t shift = kStateBits + (table.symbols()[7] >> RansTable::kMoreShift);
        const auto divided = [&](uint32_t state) {
            return (uint64_t{state} * table.reciprocals()[7]) >> shift;
        };
        constexpr uint32_t kMost = (1u << kStateBits) - 1;
        for (int i = 0; i < 50; ++i) {
            const auto state = static_cast<uint32_t>(rng() & kMost);
            const uint32_t whole = state / frequency * frequency;
            for (const uint32_t one : {state, whole, whole - (whole > 0), kMost - state % 64})
                ASSERT_EQ(divided(one), one / frequency) << one << " / " << frequency;
        }
    }
}

class EcNoise : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Tokens, EcNoise, ::testing::Values(40, 64, 128));

TEST_P(EcNoise, AnyBytesAreTheSameToAll) {
    const uint32_t tokens = GetParam();
    const Model model = dense_model();
    const BlockCoder coder = BlockCoder::create(model, whole_chain(model), 3).value();
    BlockScratch scratch;
    std::vector<std::byte> bytes;
    coder.encode(tokens, reads(random_rows(3, tokens)), &scratch, &bytes);
    std::mt19937_64 rng(kSeed);
    for (int round = 0; round < 40; ++round) {
        std::vector<std::byte> noise(bytes.begin(), bytes.end() - static_cast<int>(rng() % 200));
        for (int i = 0; i < 20; ++i)
            noise[136 + rng() % (noise.size() - 136)] = static_cast<std::byte>(rng());
        const auto words = static_cast<uint32_t>(rng() % (noise.size() / 2 - 68));
        std::memcpy(noise.data() + 4, &words, sizeof(words));
        BlockRows expected;
        for (const Kernels* one : kernels_here()) {
            BlockCoder own = coder;
            own.use(*one);
            BlockRows rows;
            EXPECT_EQ(own.decode(noise, tokens, keeps(&rows), &scratch).code(), Code::corrupt);
            if (expected.empty()) expected = rows;
            EXPECT_TRUE(rows == expected) << one->name << " round " << round;
        }
    }
}

TEST(EcKernels, SymbolsTakeTheirEntropy) {
    const std::vector<ClassModel> classes = normal_classes();
    const RansTable table(classes[24].frequencies);
    std::mt19937_64 rng(kSeed);
    constexpr uint32_t kTokens = 20000;
    std::vector<uint8_t> symbols, back(kTokens);
    double bits = 0;
    for (uint32_t i = 0; i < kTokens; ++i) {
        symbols.push_back(
            static_cast<uint8_t>(table.slots()[rng() % kProbabilities] >> RansTable::kSymbolShift));
        bits += table.cost_bits(symbols.back());
    }
    std::vector<std::byte> words(2 * kTokens);
    for (const Kernels* one : kernels_here()) {
        SymbolWriter writer{.states = {}, .end = words.data() + words.size()};
        std::ranges::fill(writer.states, kStateLow);
        writer.turn = kTokens / kLanes % kGroups;
        const uint8_t only_class = 0;
        const uint32_t only_component = 0;
        const SymbolRows rows{&table, &only_class, &only_component, 1, kTokens, kTokens};
        one->write(&writer, rows, symbols.data());
        const auto n = static_cast<size_t>(words.data() + words.size() - writer.end);
        EXPECT_LT(8.0 * static_cast<double>(n), bits * 1.001) << one->name;
        SymbolReader reader{.states = {}, .words = writer.end, .left_words = n / 2};
        std::ranges::copy(writer.states, reader.states);
        one->read(&reader, rows, back.data());
        EXPECT_EQ(back, symbols) << one->name;
        EXPECT_EQ(reader.left_words, 0u);
        for (const uint32_t state : reader.states) EXPECT_EQ(state, kStateLow);
    }
}

}  // namespace
}  // namespace quire::codec::ec
