#include "codec/i2c/section.h"

#include <cmath>
#include <cstring>

namespace quire::codec::i2c {

void Matrices::store(Sidecar* sidecar) const {
    std::vector<std::byte> bytes;
    for (const std::vector<HeadMatrices>& layer : heads)
        for (const HeadMatrices& head : layer)
            for (const auto* matrix :
                 {&head.k_forward, &head.k_back, &head.v_forward, &head.v_back}) {
                const auto from = std::as_bytes(std::span(*matrix));
                bytes.insert(bytes.end(), from.begin(), from.end());
            }
    set_section(sidecar, {kTag, std::move(bytes)});
}

Result<Matrices> Matrices::of(const Sidecar& sidecar) {
    const SidecarSection* section = find_section(sidecar, kTag);
    if (section == nullptr)
        return make_error(Code::miss, "the sidecar has nothing for i2c; `quire calibrate` adds it");
    size_t wanted = 0;
    for (const SidecarLayer& layer : sidecar.layers)
        wanted += size_t{4} * layer.kv_heads * layer.head_dim * layer.head_dim * sizeof(float);
    if (section->bytes.size() != wanted)
        return make_error(Code::corrupt, "the sidecar's section for i2c has another size");
    Matrices out;
    const std::byte* at = section->bytes.data();
    for (const SidecarLayer& layer : sidecar.layers) {
        std::vector<HeadMatrices>& heads = out.heads.emplace_back(layer.kv_heads);
        for (HeadMatrices& head : heads)
            for (auto* matrix : {&head.k_forward, &head.k_back, &head.v_forward, &head.v_back}) {
                matrix->resize(size_t{layer.head_dim} * layer.head_dim);
                std::memcpy(matrix->data(), at, matrix->size() * sizeof(float));
                at += matrix->size() * sizeof(float);
                for (const float x : *matrix)
                    if (!std::isfinite(x))
                        return make_error(Code::corrupt,
                                          "the sidecar's section for i2c is not finite");
            }
    }
    return out;
}

}  // namespace quire::codec::i2c
