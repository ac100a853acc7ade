// Attention over pages for tests: random pages, and the same attention in double over the numbers
// that the CPU's oracle decodes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "check.h"
#include "codec/fp8/fp8.h"
#include "codec/hot/hot.h"
#include "codec/hot/scale.h"
#include "codec/raw16/raw16.h"
#include "core/half.h"
#include "kernels/cuda/attn/decode.h"

namespace quire::gpu_testing {

using codec::fp8::Scaling;
using kernels::cuda::is_fp8;
using kernels::cuda::Numbers;
using kernels::cuda::PagesHold;

// One attention over pages, and what it is over.
struct Case {
    int32_t head_dim = 128, kv_heads = 2, group = 4, n_queries = 1, block_tokens = 64;
    int k_bits = 4, v_bits = 4;
    PagesHold hold = PagesHold::codes;
    int32_t window = 0;
    float softcap = 0;
    std::vector<int32_t> lengths = {1, 31, 32, 33, 700, 5000};
    std::vector<int32_t> queries = {};  // of each request, where they have not n_queries each
    bool causal = true;
    Scaling scaling = Scaling::one;  // of fp8
    bool spoiled = false;  // fp8: a NaN in K of the second request, others in V of the third

    int32_t queries_of(size_t request) const {
        return queries.empty() ? n_queries : queries[request];
    }
    // Queries of requests before this one.
    std::vector<int32_t> first_tokens() const {
        std::vector<int32_t> first = {0};
        for (size_t r = 0; r < lengths.size(); ++r) first.push_back(first[r] + queries_of(r));
        return first;
    }
};

inline std::string describe(const Case& c) {
    return "D " + std::to_string(c.head_dim) + " heads " + std::to_string(c.group) + " x " +
           std::to_string(c.kv_heads) + " queries " + std::to_string(c.queries_of(0)) + " block " +
           std::to_string(c.block_tokens) + " k" + std::to_string(c.k_bits) + "v" +
           std::to_string(c.v_bits) + " pages " + std::to_string(static_cast<int>(c.hold)) +
           " scaling " + std::to_string(static_cast<int>(c.scaling)) + " window " +
           std::to_string(c.window) + " cap " + std::to_string(c.softcap);
}

// Pages of random codes. Tokens that no request has are all ones, as bad as bytes can be.
class World {
 public:
    World(const Case& c, uint64_t seed) : c_(c), first_(c.first_tokens()), rng_(seed) {
        shape_ = {c.k_bits, c.v_bits, static_cast<uint32_t>(c.head_dim),
                  static_cast<uint32_t>(c.block_tokens)};
        page_bytes_ = is_codes()       ? codec::hot::page_bytes(shape_)
                      : is_fp8(c.hold) ? codec::fp8::k_scale_at(geometry(), 0) +
                                             (c.scaling == Scaling::token ? 4 * shape_.tokens : 0)
                                       : size_t{4} * shape_.head_dim * shape_.tokens;
        head_scales_.assign(static_cast<size_t>(2 * c.kv_heads), 1.0f);
        if (is_fp8(c.hold))
            for (float& x : head_scales_) x = std::exp2(static_cast<float>(rng_() % 64) / -16.0f);
        const int32_t most = *std::max_element(c.lengths.begin(), c.lengths.end());
        table_stride_ = (most + c.block_tokens - 1) / c.block_tokens + 1;
        make_tables();
        make_pages();
        q_.resize(n_rows() * static_cast<size_t>(c.head_dim));
        std::normal_distribution<float> normal(0.0f, 1.5f);
        for (float& x : q_) x = static_cast<float>(__nv_bfloat16(normal(rng_)));
        v_mean_.resize(static_cast<size_t>(c.kv_heads * c.head_dim));
        for (float& x : v_mean_) x = normal(rng_);
    }

    size_t n_rows() const {
        return static_cast<size_t>(first_.back()) * static_cast<size_t>(c_.group * c_.kv_heads);
    }
    float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_dim)); }

    // Row: [request][query][head].
    void attend(size_t request, int32_t query, int32_t head, std::vector<double>& out,
                double& lse) const {
        const auto d = static_cast<size_t>(c_.head_dim);
        out.assign(d, 0.0);
        const int32_t length = c_.lengths[request];
        const int32_t end = c_.causal ? length - c_.queries_of(request) + query + 1 : length;
        const int32_t begin = c_.window > 0 ? std::max(0, end - c_.window) : 0;
        const int32_t kv_head = head / c_.group;
        const std::vector<float>& kv = decoded(request, kv_head);
        const float* q = q_.data() + row_of(request, query, head) * d;
        std::vector<double> scores;
        for (int32_t t = begin; t < end; ++t) {
            const float* k = kv.data() + static_cast<size_t>(t) * 2 * d;
            double x = 0;
            for (size_t i = 0; i < d; ++i) x += double{q[i]} * k[i];
            x *= scale();
            scores.push_back(c_.softcap > 0 ? std::tanh(x / c_.softcap) * c_.softcap : x);
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (int32_t t = begin; t < end; ++t) {
            const double weight = std::exp(scores[static_cast<size_t>(t - begin)] - top);
            sum += weight;
            const float* v = kv.data() + (static_cast<size_t>(t) * 2 + 1) * d;
            for (size_t i = 0; i < d; ++i) out[i] += weight * v[i];
        }
        const float* mean = v_mean_.data() + static_cast<size_t>(kv_head) * d;
        for (size_t i = 0; i < d; ++i) out[i] = out[i] / sum + mean[i];
        lse = top + std::log(sum);
    }

    size_t row_of(size_t request, int32_t query, int32_t head) const {
        return static_cast<size_t>(first_[request] + query) *
                   static_cast<size_t>(c_.group * c_.kv_heads) +
               static_cast<size_t>(head);
    }

    // What params of decode and prefill have in common.
    template <class Params>
    Params params() const {
        Params p;
        p.q_head_stride = p.out_head_stride = c_.head_dim;
        p.q_token_stride = p.out_token_stride = int64_t{c_.head_dim} * c_.group * c_.kv_heads;
        p.element = Numbers::f32;
        p.n_requests = static_cast<int32_t>(c_.lengths.size());
        p.n_heads = c_.group * c_.kv_heads;
        p.kv_heads = c_.kv_heads;
        p.head_dim = c_.head_dim;
        p.block_tokens = c_.block_tokens;
        p.window = c_.window;
        p.scale = scale();
        p.softcap = c_.softcap;
        p.table_stride = table_stride_;
        p.block_stride = static_cast<int64_t>(page_bytes_) * c_.kv_heads;
        p.head_stride = static_cast<int64_t>(page_bytes_);
        p.pages_hold = c_.hold;
        p.k_bits = c_.k_bits;
        p.v_bits = c_.v_bits;
        return p;
    }

    // Request `to` has the first blocks of request `from` for its own first ones, all of whose
    // tokens both have.
    void share_blocks(int32_t from, int32_t to, int32_t n) {
        for (int32_t b = 0; b < n; ++b)
            tables_[static_cast<size_t>(to * table_stride_ + b)] =
                tables_[static_cast<size_t>(from * table_stride_ + b)];
    }

    const std::vector<float>& q() const { return q_; }
    void use_queries_of(const World& other) { q_ = other.q_; }
    const std::vector<float>& v_mean() const { return v_mean_; }
    // [K, V][kv_heads]
    const std::vector<float>& head_scales() const { return head_scales_; }
    const std::vector<int32_t>& tables() const { return tables_; }
    const std::vector<std::byte>& pages() const { return pages_; }

 private:
    int32_t blocks_of(size_t request) const {
        return (c_.lengths[request] + c_.block_tokens - 1) / c_.block_tokens;
    }

    // Behind a request's blocks the table has numbers that are no block's.
    void make_tables() {
        for (size_t r = 0; r < c_.lengths.size(); ++r) n_blocks_ += blocks_of(r);
        std::vector<int32_t> ids(static_cast<size_t>(n_blocks_));
        std::iota(ids.begin(), ids.end(), 0);
        std::shuffle(ids.begin(), ids.end(), rng_);
        tables_.assign(c_.lengths.size() * static_cast<size_t>(table_stride_), 0x7fffffff);
        for (size_t r = 0; r < c_.lengths.size(); ++r)
            for (int32_t b = 0; b < blocks_of(r); ++b) {
                tables_[r * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)] =
                    ids.back();
                ids.pop_back();
            }
    }

    std::byte* page(int32_t block, int32_t kv_head) {
        return pages_.data() + (static_cast<size_t>(block) * static_cast<size_t>(c_.kv_heads) +
                                static_cast<size_t>(kv_head)) *
                                   page_bytes_;
    }

    void make_pages() {
        pages_.resize(page_bytes_ * static_cast<size_t>(n_blocks_ * c_.kv_heads));
        for (std::byte& b : pages_) b = static_cast<std::byte>(rng_());
        for (size_t r = 0; r < c_.lengths.size(); ++r)
            for (int32_t b = 0; b < blocks_of(r); ++b)
                for (int32_t h = 0; h < c_.kv_heads; ++h)
                    is_codes()        ? make_scales(r, b, h)
                    : is_fp8(c_.hold) ? make_floats(r, b, h)
                                      : make_numbers(r, b, h);
    }

    int32_t block_of(size_t request, int32_t b) const {
        return tables_[request * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)];
    }
    codec::Geometry geometry() const { return {shape_.head_dim, 1, shape_.tokens, element()}; }

    // As make_numbers(), by scales that are far apart where tokens have their own.
    void make_floats(size_t request, int32_t b, int32_t kv_head) {
        const codec::Geometry g = geometry();
        std::byte* to = page(block_of(request, b), kv_head);
        const auto kind = c_.hold == PagesHold::fp8_e5m2 ? __NV_E5M2 : __NV_E4M3;
        std::normal_distribution<float> normal;
        for (uint32_t t = 0; t < shape_.tokens; ++t) {
            const int32_t token = b * c_.block_tokens + static_cast<int32_t>(t);
            const bool used = token < c_.lengths[request];
            for (const bool keys : {true, false}) {
                const float scale = scale_of(keys, kv_head);
                const uint16_t stored = used ? f32_to_f16(scale) : uint16_t{0xffff};
                if (c_.scaling == Scaling::token)
                    std::memcpy(
                        to + (keys ? codec::fp8::k_scale_at(g, t) : codec::fp8::v_scale_at(g, t)),
                        &stored, sizeof stored);
                const float size = keys || rng_() % 16 != 0 ? 1.0f : 64.0f;
                for (uint32_t d = 0; d < shape_.head_dim; ++d) {
                    const float x = normal(rng_) * (keys ? 1.0f : 4.0f) * size / scale;
                    uint8_t code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind);
                    if (c_.spoiled && kv_head == 0) code = spoil(code, request, token, keys, d);
                    to[keys ? codec::fp8::k_at(g, t, d) : codec::fp8::v_at(g, t, d)] =
                        used ? std::byte{code} : std::byte{0xff};
                }
            }
        }
    }
    float scale_of(bool keys, int32_t kv_head) {
        if (c_.scaling == Scaling::one) return 1.0f;
        if (c_.scaling == Scaling::head)
            return head_scales_[static_cast<size_t>(keys ? kv_head : c_.kv_heads + kv_head)];
        const int odd = rng_() % 16 == 0 ? static_cast<int>(rng_() % 16) : 0;
        const float octaves = -static_cast<float>(rng_() % 128) / 16.0f - static_cast<float>(odd);
        return f16_to_f32(f32_to_f16(std::exp2(octaves)));
    }
    uint8_t spoil(uint8_t code, size_t request, int32_t token, bool keys, uint32_t dim) const {
        if (request == 1 && keys && token == 0 && dim == 3) return 0xff;
        if (request != 2 || keys || token != 5) return code;
        if (c_.hold == PagesHold::fp8_e5m2 && dim == 8) return 0xfc;  // -infinity
        return dim == 7 ? 0x7f : code;
    }

    bool is_codes() const { return c_.hold == PagesHold::codes; }
    Element element() const { return c_.hold == PagesHold::bf16 ? Element::bf16 : Element::f16; }

    // K about 1 in size, V about 4; NaNs where no token is.
    void make_numbers(size_t request, int32_t b, int32_t kv_head) {
        const codec::Geometry g = geometry();
        auto* numbers = reinterpret_cast<uint16_t*>(page(block_of(request, b), kv_head));
        std::normal_distribution<float> normal;
        for (uint32_t t = 0; t < shape_.tokens; ++t) {
            const bool used = b * c_.block_tokens + static_cast<int32_t>(t) < c_.lengths[request];
            for (uint32_t d = 0; d < shape_.head_dim; ++d) {
                numbers[codec::raw16::k_at(g, t, d)] =
                    used ? from_f32(g.element, normal(rng_)) : uint16_t{0xffff};
                numbers[codec::raw16::v_at(g, t, d)] =
                    used ? from_f32(g.element, 4 * normal(rng_)) : uint16_t{0xffff};
            }
        }
    }

    // Numbers of K about 1 and of V about 4 in size, some rows far from that, some zero.
    void make_scales(size_t request, int32_t b, int32_t kv_head) {
        std::byte* scales = page(block_of(request, b), kv_head);
        const auto unit = [&](int bits, double size) {
            const double step =
                std::log2(size / std::exp2(bits > 5 ? bits - 2 : 0)) + codec::hot::octaves(bits);
            const int odd = rng_() % 16 == 0 ? static_cast<int>(rng_() % 64) - 48 : 0;
            const int u = static_cast<int>(16 * step) + static_cast<int>(rng_() % 32) - 16 + odd;
            return static_cast<std::byte>(rng_() % 40 == 0 ? 0 : std::clamp(u, 1, 255));
        };
        for (int32_t t = 0; t < c_.block_tokens; ++t) {
            const bool used = b * c_.block_tokens + t < c_.lengths[request];
            const auto at = static_cast<size_t>(t);
            scales[codec::hot::k_scales_offset(shape_) + at] =
                used ? unit(c_.k_bits, 0.7) : std::byte{0xff};
            scales[codec::hot::v_scales_offset(shape_) + at] =
                used ? unit(c_.v_bits, 3.0) : std::byte{0xff};
        }
    }

    // [token][K, V][head_dim], without the mean.
    const std::vector<float>& decoded(size_t request, int32_t kv_head) const {
        auto& kv = decoded_[{request, kv_head}];
        if (!kv.empty()) return kv;
        const auto d = static_cast<size_t>(c_.head_dim);
        const auto tokens = static_cast<size_t>(blocks_of(request) * c_.block_tokens);
        kv.resize(tokens * 2 * d);
        for (int32_t b = 0; b < blocks_of(request); ++b) {
            codec::DecodePage job;
            job.spec = {3, static_cast<uint8_t>(c_.k_bits), static_cast<uint8_t>(c_.v_bits), 0, 1};
            job.geometry = geometry();
            job.sidecar.k_scale = head_scales_[static_cast<size_t>(kv_head)];
            job.sidecar.v_scale = head_scales_[static_cast<size_t>(c_.kv_heads + kv_head)];
            job.page = const_cast<World*>(this)->page(block_of(request, b), kv_head);
            job.k = kv.data() + static_cast<size_t>(b) * shape_.tokens * 2 * d;
            job.v = job.k + d;
            job.k_stride = job.v_stride = 2 * d;
            job.last = shape_.tokens;
            if (is_fp8(c_.hold))
                job.spec.option = static_cast<uint16_t>(
                    static_cast<int>(c_.scaling) |
                    (c_.hold == PagesHold::fp8_e5m2 ? codec::fp8::kOptionE5m2 : 0));
            is_codes()        ? codec::hot::ref_decode(job)
            : is_fp8(c_.hold) ? codec::fp8::ref_decode(job)
                              : codec::raw16::ref_decode(job);
        }
        return kv;
    }

    Case c_;
    std::vector<int32_t> first_;
    std::mt19937_64 rng_;
    codec::hot::Shape shape_{};
    size_t page_bytes_ = 0;
    int64_t table_stride_ = 0;
    int32_t n_blocks_ = 0;
    std::vector<int32_t> tables_;
    std::vector<std::byte> pages_;
    std::vector<float> q_, v_mean_, head_scales_;
    mutable std::map<std::pair<size_t, int32_t>, std::vector<float>> decoded_;
};

struct Got {
    std::vector<float> out, lse;
};

// Weights, levels and queries are f16: errors of a part in some thousand.
// How far a row and its lse may be from those in double.
struct Tolerance {
    double row = 3e-3, lse = 2e-3;
};

inline void check_row(const World& w, const Case& c, const Got& got, const Tolerance& tolerance,
                      size_t request, int32_t query, int32_t head) {
    const auto d = static_cast<size_t>(c.head_dim);
    const size_t row = w.row_of(request, query, head);
    const auto say = [&] {
        return describe(c) + " length " + std::to_string(c.lengths[request]) + " query " +
               std::to_string(query) + " head " + std::to_string(head) + ": ";
    };
    std::vector<double> expected;
    double lse = 0, energy = 0, error = 0;
    w.attend(request, query, head, expected, lse);
    for (size_t k = 0; k < d; ++k) {
        const float own = got.out[row * d + k];
        if (!std::isfinite(expected[k])) {
            CHECK(
                std::isnan(expected[k]) ? std::isnan(own) : own == static_cast<float>(expected[k]),
                say() << own << ", not " << expected[k]);
            continue;
        }
        energy += expected[k] * expected[k];
        error += (own - expected[k]) * (own - expected[k]);
    }
    CHECK(error <= tolerance.row * tolerance.row * energy,
          say() << "error " << std::sqrt(error / energy));
    CHECK((std::isnan(lse) && std::isnan(got.lse[row])) ||
              std::fabs(got.lse[row] - lse) <= tolerance.lse * std::max(1.0, std::fabs(lse)),
          say() << "lse " << got.lse[row] << ", not " << lse);
}
inline void check_rows(const World& w, const Case& c, const Got& got,
                       const Tolerance& tolerance = {}) {
    for (size_t r = 0; r < c.lengths.size(); ++r) {
        for (int32_t i = 0; i < c.queries_of(r); ++i) {
            for (int32_t h = 0; h < c.group * c.kv_heads; ++h) {
                if (c.lengths[r] == 0)
                    CHECK(got.lse[w.row_of(r, i, h)] == -INFINITY,
                          describe(c) << ": lse of a request left out");
                else
                    check_row(w, c, got, tolerance, r, i, h);
            }
        }
    }
}
inline void check_same_bits(const Case& c, const Got& got, const Got& again) {
    CHECK(std::memcmp(got.out.data(), again.out.data(), got.out.size() * sizeof(float)) == 0,
          describe(c) << ": the same input gave other bits");
}

}  // namespace quire::gpu_testing
