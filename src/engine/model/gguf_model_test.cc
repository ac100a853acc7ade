#include "engine/model/gguf_model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include <ggml.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engine/model/tiny_model.h"

namespace quire {
namespace {

using test::TinySpec;

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

class Scratch {
 public:
    Scratch() : path_(test::write_tiny_model({.n_layers = 1}).path) {}
    void write(const std::string& bytes) const {
        std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    }
    const std::string& path() const { return path_; }

 private:
    std::string path_;
};

// Replaces one occurrence; the lengths must agree, since GGUF stores them.
std::string replaced(std::string bytes, const std::string& from, const std::string& to) {
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return bytes.replace(at, from.size(), to);
}

void expect_refused(const std::string& path, Code code, const std::string& part) {
    const auto model = GgufModel::open(path);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.code(), code) << model.error().message;
    EXPECT_NE(model.error().message.find(part), std::string::npos) << model.error().message;
    EXPECT_NE(model.error().message.find(path), std::string::npos) << model.error().message;
}

TEST(GgufModel, ReadsWhatItWasWritten) {
    const auto tiny = test::write_tiny_model({.family = "gemma3", .n_layers = 7});
    const auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const KvLayout layout = (*model)->kv_layout(16);
    ASSERT_EQ(layout.groups.size(), 2u);
    EXPECT_EQ(layout.groups[0].kind, KvKind::full);
    EXPECT_EQ(layout.groups[0].layers, std::vector<uint16_t>{5});
    EXPECT_EQ(layout.groups[1].kind, KvKind::window);
    EXPECT_EQ(layout.groups[1].window_tokens, 24u);
    EXPECT_EQ(layout.groups[1].layers, (std::vector<uint16_t>{0, 1, 2, 3, 4, 6}));
}

TEST(GgufModel, RefusesWhatIsNotAModel) {
    expect_refused("/nonexistent/model.gguf", Code::io, "cannot read the model");
    expect_refused(std::filesystem::temp_directory_path(), Code::invalid, "not a regular file");
    const Scratch fifo;
    std::filesystem::remove(fifo.path());
    ASSERT_EQ(::mkfifo(fifo.path().c_str(), 0600), 0);
    expect_refused(fifo.path(), Code::invalid, "is a pipe");
    std::filesystem::remove(fifo.path());
    const Scratch file;
    const std::string good = read_file(file.path());
    file.write("");
    expect_refused(file.path(), Code::invalid, "not a GGUF");
    file.write("GGUF");
    expect_refused(file.path(), Code::corrupt, "truncated");
    file.write("#!/bin/sh\necho hello\n");
    expect_refused(file.path(), Code::invalid, "not a GGUF");
    std::string version = good;
    version[4] = 77;
    file.write(version);
    expect_refused(file.path(), Code::corrupt, "version");
}

TEST(GgufModel, EveryTruncationIsRefused) {
    const Scratch file;
    const std::string good = read_file(file.path());
    std::mt19937 rng(11);
    for (int i = 0; i < 60; ++i) {
        const size_t n = rng() % good.size();
        SCOPED_TRACE("cut to " + std::to_string(n) + " of " + std::to_string(good.size()));
        file.write(good.substr(0, n));
        EXPECT_FALSE(GgufModel::open(file.path()).ok());
    }
    file.write(good.substr(0, good.size() - 100));
    expect_refused(file.path(), Code::corrupt, "truncated: tensor");
}

TEST(GgufModel, RefusesOtherArchitecturesByName) {
    const Scratch file;
    const std::string good = read_file(file.path());
    file.write(replaced(good, "llama", "mamba"));
    expect_refused(file.path(), Code::unsupported,
                   "architecture 'mamba' is not supported; supported: llama, qwen2, qwen3, gemma3");
}

TEST(GgufModel, RefusesTensorsThatDoNotFitTheMetadata) {
    const Scratch file;
    const std::string good = read_file(file.path());
    file.write(replaced(good, "blk.0.ffn_up.weight", "blk.9.ffn_up.weight"));
    expect_refused(file.path(), Code::invalid, "blk.0.ffn_up.weight is missing");
    // Swapping two names swaps their shapes.
    std::string swapped = replaced(good, "blk.0.attn_q.weight", "blk.0.attn_X.weight");
    swapped = replaced(swapped, "blk.0.attn_k.weight", "blk.0.attn_q.weight");
    swapped = replaced(swapped, "blk.0.attn_X.weight", "blk.0.attn_k.weight");
    file.write(swapped);
    expect_refused(file.path(), Code::invalid, "64 x 64, not 64 x 128");
    file.write(replaced(good, "llama.attention.head_count", "llama.attention.head_cOunt"));
    expect_refused(file.path(), Code::invalid, "llama.attention.head_count is missing");
}

TEST(GgufModel, FlippedBytesNeverCrashIt) {
    const Scratch file;
    const std::string good = read_file(file.path());
    const size_t metadata = std::min<size_t>(good.size(), 3000);
    for (uint32_t seed = 1; seed <= 150; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 rng(seed);
        std::string bad = good;
        for (int i = 0; i < 3; ++i) bad[rng() % metadata] = static_cast<char>(rng());
        file.write(bad);
        (void)GgufModel::open(file.path()).ok();
    }
}

TEST(GgufModel, IdentityFollowsWhatChangesKeysAndValues) {
    const auto base = test::write_tiny_model({});
    const auto same = test::write_tiny_model({});
    const auto other_weights = test::write_tiny_model({.seed = 2});
    const auto other_context = test::write_tiny_model({.context_tokens = 4096});
    auto id = [](const std::string& path) {
        const auto m = GgufModel::open(path);
        EXPECT_TRUE(m.ok());
        return (*m)->id();
    };
    EXPECT_EQ(id(base.path), id(same.path));
    EXPECT_EQ(id(base.path), id(other_context.path));
    EXPECT_NE(id(base.path), id(other_weights.path));

    const std::string bytes = read_file(base.path);
    const Scratch file;
    std::string flipped = bytes;
    flipped[flipped.size() - 5] = static_cast<char>(flipped[flipped.size() - 5] ^ 1);
    file.write(flipped);
    EXPECT_NE(id(file.path()), id(base.path));
    std::string rope = bytes;  // the base of RoPE, 100000.0f
    const float from = 100000.0f;
    const float to = 90000.0f;
    rope = replaced(rope, std::string(reinterpret_cast<const char*>(&from), 4),
                    std::string(reinterpret_cast<const char*>(&to), 4));
    file.write(rope);
    EXPECT_NE(id(file.path()), id(base.path));
}

TEST(GgufModel, QuantisedMatricesArePackedAndOthersAreNot) {
    for (const int32_t type : {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q8_0, GGML_TYPE_F16}) {
        const auto tiny = test::write_tiny_model(
            {.matrix_type = type, .n_layers = 1, .n_embd = 256, .head_dim = 64, .n_ff = 512});
        const auto model = GgufModel::open(tiny.path);
        ASSERT_TRUE(model.ok()) << model.error().message;
        const Matrix& down = (*model)->weights().layer(0).down.parts[0];
        EXPECT_EQ(down.n_in, 512);
        EXPECT_EQ(down.n_out, 256);
        if (type == GGML_TYPE_F16) {
            EXPECT_EQ(down.packed, nullptr);
            EXPECT_GE((*model)->traits(down.ggml).min_rows, 1);
        } else {
            EXPECT_NE(down.packed, nullptr);
            EXPECT_EQ(down.ggml, nullptr);
        }
    }
}

}  // namespace
}  // namespace quire
