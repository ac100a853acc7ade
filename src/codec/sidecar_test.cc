#include "codec/sidecar.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/scratch_file.h"
#include "codec/sidecar_format.h"

namespace quire::codec {
namespace {

using ::testing::HasSubstr;

// Two kinds of layers, of two shapes.
KvLayout layout_of_three() {
    return {.groups = {{.kind = KvKind::full, .layers = {1}, .kv_heads = 2, .head_dim = 32},
                       {.kind = KvKind::window,
                        .window_tokens = 512,
                        .layers = {0, 2},
                        .kv_heads = 1,
                        .head_dim = 64}}};
}

Sidecar sample() {
    Sidecar s;
    s.model.value = {0x0123456789abcdef, 0xfedcba9876543210};
    s.layers = sidecar_layers(layout_of_three());
    const size_t floats = vector_floats(s.layers);
    for (size_t i = 0; i < floats; ++i) {
        s.k_mean.push_back(static_cast<float>(i) * 0.5f);
        s.v_mean.push_back(-static_cast<float>(i));
        s.k_mean_before.push_back(static_cast<float>(i) * 3);
    }
    s.bits = {{6, 4}, {8, 2}, {2, 8}};
    s.sensitivity = {{0.5f, 0}, {3, 4}, {1e-9f, 7}};
    set_section(&s, {sidecar_tag("ZZZZ"), {std::byte{1}, std::byte{2}, std::byte{3}}});
    set_section(&s, {sidecar_tag("AAAA"), {}});
    return s;
}

std::vector<std::byte> bytes_of(const Sidecar& s) {
    return sidecar_file(s).bytes;
}

// Makes checksums right again, so that what lies behind them is reached.
void seal(std::vector<std::byte>* file) {
    SidecarHeader header;
    std::memcpy(&header, file->data(), sizeof header);
    const size_t head = sizeof header + header.section_count * sizeof(SidecarEntry);
    for (size_t at = sizeof header; at < head && head <= file->size(); at += sizeof(SidecarEntry)) {
        SidecarEntry entry;
        std::memcpy(&entry, file->data() + at, sizeof entry);
        if (entry.offset > file->size() || entry.bytes > file->size() - entry.offset) continue;
        entry.crc = crc32c(std::span(*file).subspan(entry.offset, entry.bytes));
        std::memcpy(file->data() + at, &entry, sizeof entry);
    }
    header.header_crc = 0;
    header.hash = {};
    std::memcpy(file->data(), &header, sizeof header);
    const Digest128 digest = sha256_128(*file);
    header.hash = {digest.hi, digest.lo};
    std::memcpy(file->data(), &header, sizeof header);
    header.header_crc = crc32c(std::span(*file).first(std::min(head, file->size())));
    std::memcpy(file->data(), &header, sizeof header);
}

TEST(Sidecar, LayersComeFromTheLayoutByTheirNumbers) {
    const Sidecar s = sample();
    ASSERT_EQ(s.layers.size(), 3u);
    EXPECT_EQ(s.layers[0], (SidecarLayer{KvKind::window, 1, 64, 512}));
    EXPECT_EQ(s.layers[1], (SidecarLayer{KvKind::full, 2, 32, 0}));
    EXPECT_EQ(vector_offset(s, 1, 1), 64u + 32u);
    EXPECT_EQ(vector_offset(s, 2, 0), 128u);
    const HeadSidecar head = head_sidecar(s, 1, 1);
    EXPECT_EQ(head.k_mean, s.k_mean.data() + 96);
    EXPECT_EQ(head.v_mean, s.v_mean.data() + 96);
    Sidecar bare = s;
    bare.k_mean.clear();
    EXPECT_EQ(head_sidecar(bare, 0, 0).k_mean, nullptr);
}

TEST(Sidecar, ComesBackFromItsFile) {
    const Sidecar s = sample();
    const ScratchFile file;
    const auto hash = write_sidecar(file.path(), s);
    ASSERT_TRUE(hash.ok()) << hash.error().message;
    const auto read = read_sidecar(file.path());
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->sidecar, s);
    EXPECT_EQ(read->hash, *hash);
    EXPECT_EQ(bytes_of(read->sidecar), bytes_of(s));
    EXPECT_EQ(find_section(read->sidecar, sidecar_tag("ZZZZ"))->bytes.size(), 3u);
    EXPECT_EQ(find_section(read->sidecar, sidecar_tag("NONE")), nullptr);
    EXPECT_TRUE(match_sidecar(read->sidecar, s.model, layout_of_three()).ok());
}

TEST(Sidecar, OptionalPartsMayBeAbsent) {
    Sidecar s = sample();
    s.k_mean_before.clear();
    s.bits.clear();
    s.sensitivity.clear();
    s.sections.clear();
    const auto read = parse_sidecar(bytes_of(s));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->sidecar, s);
}

TEST(Sidecar, HowManyPairsAreTurnedIsAPartOfItsOwn) {
    const Sidecar unchosen = sample();
    Sidecar s = unchosen;
    for (const uint32_t pairs : {0u, 4u, 16u}) {
        s.key_pairs = pairs;
        const auto read = parse_sidecar(bytes_of(s));
        ASSERT_TRUE(read.ok()) << read.error().message;
        EXPECT_EQ(read->sidecar.key_pairs, pairs);
        EXPECT_NE(read->hash, sidecar_file(unchosen).hash);
    }
    EXPECT_FALSE(parse_sidecar(bytes_of(unchosen))->sidecar.key_pairs.has_value());
}

// With checksums made right again.
TEST(Sidecar, PairsAreOneNumber) {
    Sidecar s = sample();
    s.key_pairs = 4;
    const auto refusal = [&](uint64_t bytes) {
        std::vector<std::byte> file = bytes_of(s);
        auto* header = reinterpret_cast<SidecarHeader*>(file.data());
        auto* entry = reinterpret_cast<SidecarEntry*>(header + 1);
        while (entry->tag != kTagKeyPairs) ++entry;
        entry->bytes = bytes;  // what follows are the zeros before the next section
        seal(&file);
        return parse_sidecar(file).error().message;
    };
    EXPECT_THAT(refusal(6), HasSubstr("section PAIR of an odd size"));
    EXPECT_THAT(refusal(8), HasSubstr("2 numbers in its section PAIR"));
}

TEST(Sidecar, EveryChangeIsAnotherHash) {
    const Hash128 hash = sidecar_file(sample()).hash;
    EXPECT_EQ(sidecar_file(sample()).hash, hash);
    std::vector<Sidecar> others(5, sample());
    others[0].model.value.lo ^= 1;
    others[1].v_mean[5] = std::nextafter(others[1].v_mean[5], 9.0f);
    others[2].bits[1].k = 7;
    others[3].sections.back().bytes[0] = std::byte{9};
    others[4].layers[0].window_tokens = 513;
    for (const Sidecar& other : others) EXPECT_NE(sidecar_file(other).hash, hash);
}

// The written format may not change without a new version.
TEST(Sidecar, TheFormatStaysAsItIs) {
    const SidecarFile file = sidecar_file(sample());
    EXPECT_EQ(file.hash.to_hex(), "ef3890baccd769f82265edf722384e58");
    EXPECT_EQ(file.bytes.size(), 2819u);
}

TEST(Sidecar, OneFlippedBitAnywhereIsRefused) {
    const std::vector<std::byte> good = bytes_of(sample());
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
        std::vector<std::byte> bad = good;
        bad[bit / 8] ^= std::byte(1 << bit % 8);
        const auto read = parse_sidecar(bad);
        ASSERT_FALSE(read.ok()) << "bit " << bit;
        ASSERT_FALSE(read.error().message.empty());
    }
}

TEST(Sidecar, CutShortOrTooLongIsRefused) {
    const std::vector<std::byte> good = bytes_of(sample());
    for (size_t n = 0; n < good.size(); ++n) {
        const auto read = parse_sidecar(std::span(good).first(n));
        ASSERT_EQ(read.code(), Code::corrupt) << n;
    }
    std::vector<std::byte> more = good;
    more.push_back(std::byte{0});
    EXPECT_EQ(parse_sidecar(more).code(), Code::corrupt);
}

// With checksums made right again, so that it is the content that is refused.
TEST(Sidecar, FieldsThatCannotBeAreRefusedByName) {
    using File = std::vector<std::byte>;
    struct Edit {
        const char* complaint;
        std::function<void(SidecarHeader*, SidecarEntry*, File*)> change;
    };
    const Edit edits[] = {
        {"version 2, this build reads 1", [](auto h, auto, auto) { h->version = 2; }},
        {"no version wrote", [](auto h, auto, auto) { h->version = 0; }},
        {"no version wrote", [](auto h, auto, auto) { h->reserved = 1; }},
        {"this is no sidecar", [](auto h, auto, auto) { h->magic ^= 1; }},
        {"bytes", [](auto h, auto, auto) { h->file_bytes ^= 1; }},
        {"bytes", [](auto h, auto, auto) { h->section_count = 0xffff; }},
        {"goes on after its last section",
         [](auto h, auto, File* file) {
             h->file_bytes += 64;
             file->resize(file->size() + 64);
         }},
        {"AAAA twice", [](auto, auto e, auto) { e[1].tag = e[0].tag; }},
        {"@AAA twice", [](auto, auto e, auto) { e[1].tag = e[0].tag - 1; }},
        {"where it should", [](auto, auto e, auto) { e[1].offset += 64; }},
        {"where it should", [](auto, auto e, auto) { e[1].bytes = UINT64_MAX; }},
        {"where it should", [](auto, auto e, auto) { e[1].reserved = 1; }},
        {"something before its section KAFT",
         [](auto, auto e, File* file) {
             EXPECT_EQ(tag_text(e[5].tag), "BITS");
             (*file)[e[5].offset + e[5].bytes] = std::byte{1};
         }},
    };
    for (const Edit& edit : edits) {
        File file = bytes_of(sample());
        auto* header = reinterpret_cast<SidecarHeader*>(file.data());
        edit.change(header, reinterpret_cast<SidecarEntry*>(header + 1), &file);
        seal(&file);
        const auto read = parse_sidecar(file);
        ASSERT_FALSE(read.ok()) << edit.complaint;
        EXPECT_THAT(read.error().message, HasSubstr(edit.complaint));
    }
    File same = bytes_of(sample());
    seal(&same);
    EXPECT_EQ(same, bytes_of(sample()));
}

TEST(Sidecar, ValuesThatCannotBeAreRefusedByName) {
    struct Case {
        const char* complaint;
        std::function<void(Sidecar*)> change;
    };
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const Case cases[] = {
        {"number of key means that is not finite, at 7", [](auto s) { s->k_mean[7] = kNan; }},
        {"number of value means that is not finite", [](auto s) { s->v_mean[0] = INFINITY; }},
        {"before RoPE that is not finite", [](auto s) { s->k_mean_before[1] = -INFINITY; }},
        {"its layers need 192", [](auto s) { s->v_mean.pop_back(); }},
        {"turns 17 pairs of each head; its heads have 16", [](auto s) { s->key_pairs = 17; }},
        {"turns 4294967295 pairs", [](auto s) { s->key_pairs = UINT32_MAX; }},
        {"a width of 9 bits, not 2 to 8", [](auto s) { s->bits[2].v = 9; }},
        {"a width of 1 bits", [](auto s) { s->bits[0].k = 1; }},
        {"widths for 2 of 3 layers", [](auto s) { s->bits.pop_back(); }},
        {"sensitivities for 2 of 3", [](auto s) { s->sensitivity.pop_back(); }},
        {"not a number from 0 up", [](auto s) { s->sensitivity[1].v = -1; }},
        {"not a number from 0 up", [=](auto s) { s->sensitivity[0].k = kNan; }},
        {"unknown kind", [](auto s) { s->layers[1].kind = KvKind::mla; }},
        {"window does not fit its kind", [](auto s) { s->layers[0].window_tokens = 0; }},
        {"0 KV heads", [](auto s) { s->layers[1].kv_heads = 0; }},
        {"head_dim 2048", [](auto s) { s->layers[1].head_dim = 2048; }},
        {"0 layers", [](auto s) { s->layers.clear(); }},
        {"section of its own name, BITS",
         [](auto s) { set_section(s, {sidecar_tag("BITS"), {}}); }},
        {"out of order", [](auto s) { std::swap(s->sections[0], s->sections[1]); }},
        {"more than 64",
         [](auto s) {
             for (uint32_t i = 1; i < 70; ++i) set_section(s, {i, {}});
         }},
    };
    for (const Case& one : cases) {
        Sidecar s = sample();
        one.change(&s);
        const Status status = check_sidecar(s);
        ASSERT_EQ(status.code(), Code::invalid) << one.complaint;
        EXPECT_THAT(status.error().message, HasSubstr(one.complaint));
        const ScratchFile file;
        EXPECT_EQ(write_sidecar(file.path(), s).code(), Code::invalid);
    }
}

TEST(Sidecar, OfAnotherModelIsAMissThatSaysWhy) {
    const Sidecar s = sample();
    const auto miss = [&](const Sidecar& one, const KvLayout& layout, const char* why) {
        const Status status = match_sidecar(one, s.model, layout);
        ASSERT_EQ(status.code(), Code::miss);
        EXPECT_THAT(status.error().message, HasSubstr(why));
        EXPECT_THAT(status.error().message, HasSubstr("quire calibrate"));
    };
    Sidecar other = s;
    other.model.value.hi ^= 1;
    miss(other, layout_of_three(), "is of model 0123456789abcdee");
    KvLayout layout = layout_of_three();
    layout.groups[0].head_dim = 64;
    miss(s, layout, "a layer 1 with 2 KV heads of 32, and the model 2 KV heads of 64");
    layout = layout_of_three();
    layout.groups[1].window_tokens = 1024;
    miss(s, layout, "1 KV heads of 64, window 512");
    layout = layout_of_three();
    layout.groups[1].layers.push_back(3);
    miss(s, layout, "has 3 layers and the model 4");
}

TEST(Sidecar, AFileThatIsNoneIsAnErrorWithItsPath) {
    EXPECT_EQ(read_sidecar("/nowhere/at/all").code(), Code::io);
    const ScratchFile file;
    std::ofstream(file.path()) << std::string(100, 'x');
    const auto read = read_sidecar(file.path());
    EXPECT_EQ(read.code(), Code::corrupt);
    EXPECT_THAT(read.error().message, HasSubstr(file.path() + ": this is no sidecar"));
}

}  // namespace
}  // namespace quire::codec
