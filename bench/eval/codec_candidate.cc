#include <cstring>

#include "base/arena.h"
#include "bench/eval/candidate.h"
#include "codec/codec_table.h"

namespace quire::bench {
namespace {

constexpr std::string_view kPlain = ":plain";

class CodecCandidate final : public Candidate {
 public:
    CodecCandidate(const codec::CodecSpec& spec, bool plain) : spec_(spec), plain_(plain) {}

    std::string name() const override {
        return codec::codec_name(spec_) + (plain_ ? std::string(kPlain) : "");
    }

    double bits(uint32_t head_dim) const override {
        return codec::bits_per_element(spec_, {.head_dim = head_dim});
    }

    void apply(const KvSpan& span) const override {
        const codec::Geometry geometry{.head_dim = span.head_dim};
        const codec::PageCodecOps& ops = codec::best_ops(codec::row_of(spec_));
        codec::HeadSidecar sidecar;
        if (!plain_ && span.means != nullptr) {
            sidecar.k_mean = span.means->k.data();
            sidecar.v_mean = span.means->v.data();
        }
        const size_t bytes = codec::page_bytes(spec_, geometry);
        std::vector<std::byte> memory(bytes + codec::kPageAlign);
        std::byte* page = memory.data();
        page += (0 - reinterpret_cast<uintptr_t>(page)) % codec::kPageAlign;
        for (uint32_t t = 0; t < span.tokens; t += geometry.block_tokens) {
            const uint32_t n = std::min(geometry.block_tokens, span.tokens - t);
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
    }

 private:
    codec::CodecSpec spec_;
    bool plain_;
};

}  // namespace

Result<std::unique_ptr<Candidate>> codec_candidate(const std::string& name) {
    const bool plain = name.ends_with(kPlain);
    auto spec = codec::find_codec(name.substr(0, name.size() - (plain ? kPlain.size() : 0)));
    if (!spec.ok()) return spec.error();
    return std::unique_ptr<Candidate>(new CodecCandidate(*spec, plain));
}

}  // namespace quire::bench
