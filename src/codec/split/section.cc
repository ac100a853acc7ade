#include "codec/split/section.h"

#include <cstring>

namespace quire::codec::split {
namespace {

bool is_order(const std::vector<uint16_t>& order) {
    std::vector<bool> seen(order.size());
    for (const uint16_t d : order) {
        if (d >= order.size() || seen[d]) return false;
        seen[d] = true;
    }
    return true;
}

}  // namespace

void Orders::store(Sidecar* sidecar) const {
    std::vector<std::byte> bytes;
    for (const std::vector<HeadOrders>& layer : heads)
        for (const HeadOrders& head : layer)
            for (const auto* order : {&head.k, &head.v}) {
                const auto from = std::as_bytes(std::span(*order));
                bytes.insert(bytes.end(), from.begin(), from.end());
            }
    set_section(sidecar, {kTag, std::move(bytes)});
}

Result<Orders> Orders::of(const Sidecar& sidecar) {
    const SidecarSection* section = find_section(sidecar, kTag);
    if (section == nullptr)
        return make_error(Code::miss,
                          "the sidecar has nothing for tq2.5; `quire calibrate` adds it");
    if (section->bytes.size() != 2 * vector_floats(sidecar.layers) * sizeof(uint16_t))
        return make_error(Code::corrupt, "the sidecar's section for tq2.5 has another size");
    Orders out;
    const std::byte* at = section->bytes.data();
    for (const SidecarLayer& layer : sidecar.layers) {
        std::vector<HeadOrders>& heads = out.heads.emplace_back(layer.kv_heads);
        for (HeadOrders& head : heads)
            for (auto* order : {&head.k, &head.v}) {
                order->resize(layer.head_dim);
                std::memcpy(order->data(), at, order->size() * sizeof(uint16_t));
                at += order->size() * sizeof(uint16_t);
                if (!is_order(*order))
                    return make_error(Code::corrupt,
                                      "the sidecar's section for tq2.5 names a dimension twice");
            }
    }
    return out;
}

}  // namespace quire::codec::split
