// Sequences with compressed pages, for the tests of this layer: every token lies in an exact page
// and, when its block is complete, in a coded one. What a kernel may not read is NaN or absent.
#pragma once

#include <cmath>

#include "codec/codec_table.h"
#include "kernels/attention_fixture.h"
#include "kernels/ref/codes.h"
#include "kernels/ref/half.h"

namespace quire::kernels::testing {

struct Codes {
    int k_bits = 4;
    int v_bits = 4;
    int sink_tokens = 0;
    int span_tokens = 64;
    int pairs = 0;  // of turned means
};

class CodedWorld : public World {
 public:
    CodedWorld(const Geometry& g, const Codes& c, int n_tokens, uint64_t seed)
        : World(g, n_tokens, seed),
          spec_(codec::find_codec("k" + std::to_string(c.k_bits) + "v" + std::to_string(c.v_bits))
                    .value()),
          codec_geometry_{static_cast<uint32_t>(g.head_dim), static_cast<uint32_t>(g.n_kv_heads),
                          static_cast<uint32_t>(g.block_tokens), g.element} {
        for (int i = 0; i < kv_width(); ++i) {
            k_mean.push_back(0.5f * static_cast<float>(i % 7 - 3) * (g.softcap > 0 ? 0.0f : 1.0f));
            v_mean.push_back(0.3f * static_cast<float>(i % 5 - 2));
        }
        for (size_t i = 0; i < k.size(); ++i) {
            k[i] += k_mean[i % k_mean.size()];
            v[i] += v_mean[i % v_mean.size()];
        }
        make_turns(c.pairs);
        shape.codes = {
            .k_bits = c.k_bits,
            .v_bits = c.v_bits,
            .sink_tokens = c.sink_tokens,
            .span_tokens = c.span_tokens,
            .layer_offset = 192,
            .page_bytes = static_cast<int64_t>(codec::page_bytes(spec_, codec_geometry_) + 64),
            .v_mean = v_mean.data(),
            .turns = turns_};
        encode_blocks();
        store_exact();
    }
    CodedWorld(const CodedWorld&) = delete;
    CodedWorld& operator=(const CodedWorld&) = delete;

    AttnSequence rows(int first, int n, std::vector<float>& out) const {
        AttnSequence s = World::rows(first, n, out);
        s.coded_slabs = coded_slabs.data();
        return s;
    }

    // K or V of one token as a query at `position` sees it, in the space of the model.
    std::vector<float> seen(bool key_side, int position, int token, int kv_head) const {
        const AttnCodes& c = shape.codes;
        const int d = shape.head_dim;
        const bool coded =
            token >= c.sink_tokens && token < position / c.span_tokens * c.span_tokens;
        std::vector<float> row(d);
        if (coded) {
            const std::byte* page =
                coded_slabs[token / shape.block_tokens] + c.layer_offset + kv_head * c.page_bytes;
            const auto in_block = static_cast<uint32_t>(token % shape.block_tokens);
            codec::best_ops(codec::row_of(spec_))
                .decode({.spec = spec_,
                         .geometry = codec_geometry_,
                         .sidecar = sidecar(kv_head),
                         .page = page,
                         .k = key_side ? row.data() - int64_t{in_block} * d : nullptr,
                         .v = key_side ? nullptr : row.data() - int64_t{in_block} * d,
                         .k_stride = static_cast<size_t>(d),
                         .v_stride = static_cast<size_t>(d),
                         .first = in_block,
                         .last = in_block + 1});
            if (key_side) add_turned_mean(token, kv_head, 1.0f, row.data());
            return row;
        }
        const std::vector<float>& from = key_side ? k : v;
        std::copy_n(from.begin() + int64_t{token} * kv_width() + kv_head * d, d, row.begin());
        return row;
    }

    std::vector<float> k_mean, v_mean;
    std::vector<std::byte*> coded_slabs;

 private:
    codec::HeadSidecar sidecar(int kv_head) const {
        return {.k_mean = k_mean.data() + int64_t{kv_head} * shape.head_dim,
                .v_mean = v_mean.data() + int64_t{kv_head} * shape.head_dim};
    }

    // Means of some pairs, which every head has elsewhere, and the tables of RoPE's angles.
    void make_turns(int n_pairs) {
        if (n_pairs == 0) return;
        const int n_angles = shape.head_dim / 2, n_tiles = n_tokens() / kKeyTileTokens + 1;
        for (int i = 0; i < n_angles; ++i) {
            const auto angle = [&](int j) {
                return j * std::pow(10000.0, -2.0 * i / shape.head_dim);
            };
            for (int j = 0; j < kKeyTileTokens; ++j) near_.push_back(cosine(angle(j)));
            for (int j = 0; j < kKeyTileTokens; ++j) near_.push_back(sine(angle(j)));
        }
        for (int t = 0; t < n_tiles; ++t) {
            for (int i = 0; i < n_angles; ++i) {
                const double angle =
                    t * kKeyTileTokens * std::pow(10000.0, -2.0 * i / shape.head_dim);
                far_.push_back(cosine(angle));
                far_.push_back(sine(angle));
            }
        }
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            for (int p = 0; p < n_pairs; ++p) {
                const int i = (3 + h + p) % n_angles;
                pairs_.push_back({static_cast<int16_t>(i), static_cast<int16_t>(i + n_angles), i,
                                  1.5f - 0.25f * static_cast<float>(p % 9),
                                  0.5f + 0.125f * static_cast<float>(h)});
            }
        }
        turns_ = {n_pairs, n_angles, pairs_.data(), near_.data(), far_.data()};
        for (int t = 0; t < n_tokens(); ++t)
            for (int h = 0; h < shape.n_kv_heads; ++h)
                add_turned_mean(t, h, 1.0f,
                                k.data() + int64_t{t} * kv_width() + h * shape.head_dim);
    }
    static float cosine(double angle) { return static_cast<float>(std::cos(angle)); }
    static float sine(double angle) { return static_cast<float>(std::sin(angle)); }

    void add_turned_mean(int token, int kv_head, float times, float* row) const {
        for (int p = 0; p < turns_.n_pairs; ++p) {
            const AttnPairMean& m = pairs_[kv_head * turns_.n_pairs + p];
            const double angle = token * std::pow(10000.0, -2.0 * m.angle / shape.head_dim);
            row[m.x] += times * (m.mean_x * cosine(angle) - m.mean_y * sine(angle));
            row[m.y] += times * (m.mean_x * sine(angle) + m.mean_y * cosine(angle));
        }
    }

    void encode_blocks() {
        std::vector<float> left = k;  // without turned means
        for (int t = 0; t < n_tokens(); ++t)
            for (int h = 0; h < shape.n_kv_heads; ++h)
                add_turned_mean(t, h, -1.0f,
                                left.data() + int64_t{t} * kv_width() + h * shape.head_dim);
        const int64_t slab = shape.codes.layer_offset + shape.n_kv_heads * shape.codes.page_bytes;
        const int n_blocks = n_tokens() / shape.block_tokens;
        coded_memory_.assign((n_blocks + 1) * slab + 64, std::byte{0xff});
        void* base = coded_memory_.data();
        size_t space = coded_memory_.size();
        std::align(64, 1, base, space);
        const codec::PageCodecOps& ops = codec::best_ops(codec::row_of(spec_));
        for (int b = 0; b < n_blocks; ++b) {
            coded_slabs.push_back(static_cast<std::byte*>(base) + (n_blocks - 1 - b) * slab);
            for (int h = 0; h < shape.n_kv_heads; ++h) {
                const int64_t at =
                    int64_t{b} * shape.block_tokens * kv_width() + h * shape.head_dim;
                ops.encode({.spec = spec_,
                            .geometry = codec_geometry_,
                            .sidecar = sidecar(h),
                            .k = left.data() + at,
                            .v = v.data() + at,
                            .k_stride = static_cast<size_t>(kv_width()),
                            .v_stride = static_cast<size_t>(kv_width()),
                            .first = 0,
                            .last = static_cast<uint32_t>(shape.block_tokens),
                            .page = coded_slabs[b] + shape.codes.layer_offset +
                                    h * shape.codes.page_bytes});
            }
        }
        coded_slabs.push_back(nullptr);  // of the last, incomplete block
    }

    // Exact pages hold what the codec would code: rotated, mean removed.
    void store_exact() {
        const std::vector<float> model_k = k, model_v = v;
        const int d = shape.head_dim;
        for (size_t i = 0; i < k.size(); i += d) {
            for (int j = 0; j < d; ++j) {
                k[i + j] -= k_mean[(i + j) % k_mean.size()];
                v[i + j] -= v_mean[(i + j) % v_mean.size()];
            }
            ref::rotate(k.data() + i, d);
            ref::rotate(v.data() + i, d);
        }
        store_all(attention_table()[0]);
        k = model_k;
        v = model_v;
    }

    codec::CodecSpec spec_;
    codec::Geometry codec_geometry_;
    std::vector<std::byte> coded_memory_;
    std::vector<AttnPairMean> pairs_;
    std::vector<float> near_, far_;
    AttnTurns turns_;
};

}  // namespace quire::kernels::testing
