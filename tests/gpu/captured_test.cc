// Real K, V and queries of two models (tools/gpu/run.sh capture): pages that the GPU encodes are
// the CPU's, byte for byte, and attention over them is attention in double over what they decode
// to. Without a captured file the test is skipped.
#include <cmath>
#include <fstream>
#include <numeric>

#include "captured_file.h"
#include "hot_case.h"
#include "kernels/cuda/attn/decode.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::DeviceArray;
using gpu_testing::HotCase;
using kernels::cuda::DecodeParams;
using kernels::cuda::Numbers;

using World = gpu_testing::EncodeWorld<HotCase>;

constexpr int32_t kBlockTokens = 64;

struct Layer {
    std::vector<float> k, v, q;
};
struct Captured {
    CapturedHeader header;
    std::vector<Layer> layers;
};

std::vector<float> read_numbers(std::ifstream& in, size_t n) {
    std::vector<float> numbers(n);
    in.read(reinterpret_cast<char*>(numbers.data()),
            static_cast<std::streamsize>(n * sizeof(float)));
    return numbers;
}

Captured read_captured(const std::string& model) {
    const std::string path = "build/captured/" + model + ".kv";
    std::ifstream in(path, std::ios::binary);
    if (!in) throw gpu_testing::Skipped{"no " + path + ": tools/gpu/run.sh capture makes it"};
    Captured all;
    const CapturedHeader expected;
    in.read(reinterpret_cast<char*>(&all.header), sizeof all.header);
    const CapturedHeader& h = all.header;
    CHECK(in && std::memcmp(h.magic, expected.magic, sizeof h.magic) == 0,
          path << " is of another version: tools/gpu/run.sh capture");
    for (int32_t i = 0; i < h.layers; ++i)
        all.layers.push_back({read_numbers(in, h.side_numbers()),
                              read_numbers(in, h.side_numbers()),
                              read_numbers(in, h.query_numbers())});
    CHECK(in && h.tokens % kBlockTokens == 0, path << " is too short");
    return all;
}

// Of each head's numbers, over all tokens.
std::vector<float> means_of(const CapturedHeader& h, const std::vector<float>& rows) {
    std::vector<float> means(static_cast<size_t>(h.kv_heads * h.head_dim), 0.0f);
    for (size_t i = 0; i < rows.size(); ++i) means[i % means.size()] += rows[i];
    for (float& mean : means) mean /= static_cast<float>(h.tokens);
    return means;
}

// [token][K, V][head_dim] of a head, as its pages decode; V less its mean.
std::vector<float> decoded(const World& w, const std::vector<int32_t>& blocks, size_t head) {
    const auto d = static_cast<size_t>(w.c.head_dim);
    std::vector<float> kv(blocks.size() * kBlockTokens * 2 * d);
    for (size_t b = 0; b < blocks.size(); ++b) {
        codec::DecodePage job;
        const codec::EncodePage encoded = w.c.job(nullptr, nullptr, 0);
        job.spec = encoded.spec;
        job.geometry = encoded.geometry;
        job.page =
            w.pages.data() + static_cast<size_t>(blocks[b]) * w.block_stride + head * w.head_stride;
        job.k = kv.data() + b * kBlockTokens * 2 * d;
        job.v = job.k + d;
        job.k_stride = job.v_stride = 2 * d;
        job.last = kBlockTokens;
        codec::hot::ref_decode(job);
    }
    return kv;
}

std::vector<double> attend(const float* q, float scale, const std::vector<float>& kv, size_t d,
                           size_t n_keys) {
    std::vector<double> scores(n_keys), out(d, 0.0);
    for (size_t t = 0; t < n_keys; ++t) {
        const float* k = kv.data() + t * 2 * d;
        scores[t] = scale * std::inner_product(q, q + d, k, 0.0);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (size_t t = 0; t < n_keys; ++t) {
        const double weight = std::exp(scores[t] - top);
        sum += weight;
        for (size_t i = 0; i < d; ++i) out[i] += weight * kv[(t * 2 + 1) * d + i];
    }
    for (double& x : out) x /= sum;
    return out;
}

std::vector<float> attend_on_device(const World& w, const Captured& all, const Layer& layer,
                                    const DeviceArray<std::byte>& pages,
                                    const std::vector<int32_t>& table) {
    const CapturedHeader& h = all.header;
    const DeviceArray<float> q(layer.q), v_mean(w.v_side);
    const DeviceArray<float> out(std::vector<float>(layer.q.size(), NAN));
    const DeviceArray<int32_t> blocks(table), length(std::vector<int32_t>{h.tokens});
    DecodeParams p;
    p.q = q.data();
    p.out = out.data();
    p.q_head_stride = p.out_head_stride = h.head_dim;
    p.q_token_stride = p.out_token_stride = int64_t{h.head_dim} * h.n_heads;
    p.element = Numbers::f32;
    p.n_requests = 1;
    p.n_queries = h.queries;
    p.n_heads = h.n_heads;
    p.kv_heads = h.kv_heads;
    p.head_dim = h.head_dim;
    p.block_tokens = kBlockTokens;
    p.scale = h.scale;
    p.lengths = length.data();
    p.blocks = blocks.data();
    p.table_stride = static_cast<int64_t>(table.size());
    p.pages = pages.data();
    p.n_blocks = static_cast<int64_t>(w.n_blocks);
    p.block_stride = static_cast<int64_t>(w.block_stride);
    p.head_stride = static_cast<int64_t>(w.head_stride);
    p.k_bits = w.c.k_bits;
    p.v_bits = w.c.v_bits;
    if (w.c.mean) p.v_mean = v_mean.data();
    const int32_t workers = kernels::cuda::decode_blocks();
    CHECK(workers > 0, "decode_blocks: " << workers);
    const DeviceArray<std::byte> workspace(
        std::vector<std::byte>(kernels::cuda::decode_workspace_bytes(p, workers)));
    p.workspace = workspace.data();
    const char* why = kernels::cuda::decode_supports(p);
    CHECK(why == nullptr, why);
    check_cuda(kernels::cuda::decode(p, workers, nullptr), "decode");
    return out.read();
}

void check_attention(const World& w, const Captured& all, const Layer& layer,
                     const std::vector<float>& got, const std::vector<int32_t>& table,
                     const std::string& what) {
    const CapturedHeader& h = all.header;
    const auto d = static_cast<size_t>(h.head_dim), heads = static_cast<size_t>(h.n_heads);
    const size_t group = heads / static_cast<size_t>(h.kv_heads);
    for (size_t kv_head = 0; kv_head < heads / group; ++kv_head) {
        const std::vector<float> kv = decoded(w, table, kv_head);
        for (size_t row = 0; row < layer.q.size() / d; ++row) {
            if (row % heads / group != kv_head) continue;
            const auto keys = static_cast<size_t>(h.tokens - h.queries + 1) + row / heads;
            const std::vector<double> expected =
                attend(layer.q.data() + row * d, h.scale, kv, d, keys);
            double energy = 0, error = 0;
            for (size_t i = 0; i < d; ++i) {
                const double mean = w.c.mean ? w.v_side[kv_head * d + i] : 0.0f;
                energy += (expected[i] + mean) * (expected[i] + mean);
                error += std::pow(got[row * d + i] - expected[i] - mean, 2);
            }
            // As in decode_test.cc: weights, levels and queries are f16.
            CHECK(error <= 9e-6 * energy,
                  what << " row " << row << ": error " << std::sqrt(error / energy));
        }
    }
}

void check_layer(const Captured& all, const Layer& layer, int bits, const std::string& what) {
    const CapturedHeader& h = all.header;
    const HotCase c = {
        {h.head_dim, h.kv_heads, kBlockTokens, Numbers::bf16}, bits, 10 - bits, bits % 2 == 0};
    World w(c, static_cast<uint64_t>(bits), static_cast<size_t>(h.tokens / kBlockTokens));
    w.k_side = means_of(h, layer.k);
    w.v_side = means_of(h, layer.v);
    std::vector<int32_t> table(w.n_blocks);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), w.rng);
    for (int32_t t = 0; t < h.tokens; ++t)
        w.slots.push_back(table[static_cast<size_t>(t / kBlockTokens)] * kBlockTokens +
                          t % kBlockTokens);
    const DeviceArray<std::byte> pages(w.pages);
    gpu_testing::check_batch(w, pages, gpu_testing::stored_as(c.element, layer.k),
                             gpu_testing::stored_as(c.element, layer.v), what);
    check_attention(w, all, layer, attend_on_device(w, all, layer, pages, table), table, what);
}

void check_model(const std::string& model) {
    const Captured all = read_captured(model);
    for (size_t i = 0; i < all.layers.size(); ++i)
        for (int bits = 2; bits <= 8; ++bits)
            check_layer(all, all.layers[i], bits,
                        model + " layer " + std::to_string(i) + " k" + std::to_string(bits) + "v" +
                            std::to_string(10 - bits));
}

QUIRE_GPU_TEST(captured_smollm2) {
    check_model("smollm2");
}
QUIRE_GPU_TEST(captured_gemma3) {
    check_model("gemma3");
}

}  // namespace
}  // namespace quire
