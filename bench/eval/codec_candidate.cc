#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "bench/eval/candidate.h"
#include "codec/codec_table.h"
#include "codec/i2c/section.h"
#include "codec/split/section.h"

namespace quire::bench {
namespace {

enum class Mean : uint8_t { before, after, none };

struct MeanName {
    std::string_view suffix;
    Mean mean;
};
constexpr MeanName kMeanNames[] = {
    {":mean", Mean::before}, {":post", Mean::after}, {":plain", Mean::none}};

// Families that take means off by themselves; others have never heard of them.
bool takes_means(std::string_view family) {
    return family == "hot" || family == "i2c" || family == "split";
}

void add(const float* means, float sign, size_t n, float* to) {
    for (size_t i = 0; i < n; ++i) to[i] += sign * means[i];
}

// Brings the scales of blocks of 4-bit floats into the range of e4m3.
float scale_above_blocks(const float* x, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
    return largest > 0 ? largest / (6.0f * 448.0f) : 1.0f;
}

class CodecCandidate final : public Candidate {
 public:
    CodecCandidate(const codec::CodecSpec& spec, Mean mean, std::string_view suffix,
                   bool is_reference)
        : spec_(spec),
          mean_(mean),
          name_(codec::codec_name(spec) + std::string(suffix)),
          family_(codec::row_of(spec).folder),
          is_reference_(is_reference) {}

    std::string name() const override { return name_; }

    Status fits(uint32_t head_dim) const override {
        return codec::check_geometry(spec_, geometry(head_dim));
    }

    bool reference() const override { return is_reference_; }

    Status use(const codec::Sidecar& sidecar) override {
        const bool is_split = family_ == "split";
        if (is_split || family_ == "i2c")
            QUIRE_TRY(keep(codec::i2c::Matrices::of(sidecar), &matrices_));
        return is_split ? keep(codec::split::Orders::of(sidecar), &orders_) : Status{};
    }

    double bits(uint32_t head_dim) const override {
        const uint64_t numbers = numbers_.load();
        if (numbers > 0)
            return 8.0 * static_cast<double>(bytes_.load()) / static_cast<double>(numbers);
        return codec::bits_per_element(spec_, geometry(head_dim));
    }

    void apply(const KvSpan& span) const override {
        const codec::Geometry geometry = this->geometry(span.head_dim);
        const codec::PageCodecOps& ops = codec::best_ops(codec::row_of(spec_));
        codec::HeadSidecar sidecar;
        const bool has_means = mean_ != Mean::none && span.means != nullptr;
        const float* v_mean = has_means ? span.means->v.data() : nullptr;
        const float* k_mean =
            has_means && mean_ == Mean::after ? span.means->k.data() : nullptr;
        if (takes_means(family_)) {
            sidecar.v_mean = std::exchange(v_mean, nullptr);
            sidecar.k_mean = std::exchange(k_mean, nullptr);
        }
        set_maps(span, &sidecar);
        const size_t numbers = size_t{span.tokens} * span.head_dim;
        // What a kernel would add to scores and to the output is taken off and put back on here.
        const bool moved = mean_ == Mean::before && span.k_means != nullptr;
        const auto move = [&](float sign) {
            if (moved) add(span.k_means, sign, numbers, span.k);
            for (size_t i = 0; i < numbers; i += span.head_dim) {
                if (k_mean != nullptr) add(k_mean, sign, span.head_dim, span.k + i);
                if (v_mean != nullptr) add(v_mean, sign, span.head_dim, span.v + i);
            }
        };
        move(-1);
        if (is_reference_ || family_ == "fp4") {
            sidecar.k_scale = scale_above_blocks(span.k, numbers);
            sidecar.v_scale = scale_above_blocks(span.v, numbers);
        }
        const bool whole_tiles = codec::row_of(spec_).unit == codec::Unit::tile;
        const size_t bytes = codec::page_bytes(spec_, geometry);
        std::vector<std::byte> memory(bytes + codec::kPageAlign);
        std::byte* page = memory.data();
        page += (0 - reinterpret_cast<uintptr_t>(page)) % codec::kPageAlign;
        for (uint32_t t = 0; t < span.tokens; t += geometry.block_tokens) {
            const uint32_t n = std::min(geometry.block_tokens, span.tokens - t);
            if (whole_tiles && n < geometry.block_tokens) break;  // an open tile stays exact
            float* k = span.k + size_t{t} * span.head_dim;
            float* v = span.v + size_t{t} * span.head_dim;
            std::memset(page, 0, bytes);
            ops.encode({.spec = spec_,
                        .geometry = geometry,
                        .sidecar = sidecar,
                        .k = k,
                        .v = v,
                        .k_stride = span.head_dim,
                        .v_stride = span.head_dim,
                        .first = 0,
                        .last = n,
                        .page = page});
            count(geometry, page);
            ops.decode({.spec = spec_,
                        .geometry = geometry,
                        .sidecar = sidecar,
                        .page = page,
                        .original_space = true,
                        .k = k,
                        .v = v,
                        .k_stride = span.head_dim,
                        .v_stride = span.head_dim,
                        .first = 0,
                        .last = n});
        }
        move(1);
    }

 private:
    // A sidecar without them is as none.
    template <typename T>
    static Status keep(Result<T> found, std::optional<T>* to) {
        if (found.ok()) *to = std::move(found).value();
        return found.ok() || found.error().code == Code::miss ? Status{} : Status{found.error()};
    }
    void set_maps(const KvSpan& span, codec::HeadSidecar* sidecar) const {
        if (matrices_) {
            sidecar->k_map = matrices_->heads[span.layer][span.head].k_map();
            sidecar->v_map = matrices_->heads[span.layer][span.head].v_map();
        }
        if (orders_) {
            sidecar->k_map.order = orders_->heads[span.layer][span.head].k.data();
            sidecar->v_map.order = orders_->heads[span.layer][span.head].v.data();
        }
    }
    codec::Geometry geometry(uint32_t head_dim) const {
        return codec::with_fitting_element(spec_, {.head_dim = head_dim});
    }
    void count(const codec::Geometry& geometry, const std::byte* page) const {
        if (codec::row_of(spec_).stored_bytes == nullptr) return;
        bytes_ += codec::stored_bytes(spec_, geometry, page);
        numbers_ += size_t{2} * geometry.head_dim * geometry.block_tokens;
    }

    codec::CodecSpec spec_;
    Mean mean_;
    std::string name_;
    std::string_view family_;
    bool is_reference_;
    std::optional<codec::i2c::Matrices> matrices_;
    std::optional<codec::split::Orders> orders_;
    // Where pages differ in size.
    mutable std::atomic<uint64_t> bytes_ = 0;
    mutable std::atomic<uint64_t> numbers_ = 0;
};

}  // namespace

Result<std::unique_ptr<Candidate>> codec_candidate(const std::string& name) {
    Mean mean = Mean::before;
    std::string_view stem = name;
    std::string_view suffix;
    for (const MeanName& row : kMeanNames) {
        if (!stem.ends_with(row.suffix)) continue;
        stem.remove_suffix(row.suffix.size());
        suffix = row.suffix;
        mean = row.mean;
        break;
    }
    auto spec = codec::find_codec(stem);
    if (!spec.ok()) return spec.error();
    return std::unique_ptr<Candidate>(new CodecCandidate(*spec, mean, suffix, false));
}

std::unique_ptr<Candidate> format_candidate(const std::string& name) {
    auto spec = codec::find_codec(name);
    QUIRE_CHECK(spec.ok(), "a format that the codecs have not");
    return std::unique_ptr<Candidate>(new CodecCandidate(*spec, Mean::none, "", true));
}

}  // namespace quire::bench
