#include "bench/eval/means.h"

#include <algorithm>

#include "bench/eval/kv_pages.h"

namespace quire::bench {
namespace {

std::vector<float> mean_of(const std::vector<float>& rows, uint32_t dims) {
    std::vector<double> sums(dims);
    for (size_t i = 0; i < rows.size(); ++i) sums[i % dims] += double{rows[i]};
    std::vector<float> mean;
    for (const double sum : sums)
        mean.push_back(static_cast<float>(sum * dims / static_cast<double>(rows.size())));
    return mean;
}

}  // namespace

ModelMeans::ModelMeans(const GgufModel& model)
    : ropes_(model), heads_(static_cast<size_t>(model.hparams().n_layers)) {}

void ModelMeans::rotate(uint32_t layer, uint32_t head, uint32_t first, uint32_t last,
                        std::vector<float>* out) const {
    const std::vector<float>& mean = of(layer, head).k_before;
    out->clear();
    for (uint32_t t = first; t < last; ++t) out->insert(out->end(), mean.begin(), mean.end());
    turn(layer, first, last, Turn::forward, out->data());
}

Result<ModelMeans> ModelMeans::learn(const GgufModel& model, const std::vector<TokenId>& text,
                                     uint32_t threads,
                                     const std::function<void(uint64_t)>& computed) {
    auto pages = pages_of(model, text, threads, computed);
    if (!pages.ok()) return pages.error();
    return learn(model, *pages, static_cast<uint32_t>(text.size()));
}

ModelMeans ModelMeans::learn(const GgufModel& model, const KvPages& pages, uint32_t tokens) {
    ModelMeans means(model);
    for_each_head(pages.layout(), kSinkTokens, tokens,
                  [&](const KvPages::Rows& rows, const KvGroup& group, std::vector<float>& k,
                      std::vector<float>& v) {
                      const uint32_t layer = group.layers[rows.layer_in_group];
                      const uint32_t dims = group.head_dim;
                      pages.read(rows, k.data(), v.data());
                      HeadMeans mean{.k = mean_of(k, dims), .k_before = {}, .v = mean_of(v, dims)};
                      means.turn(layer, rows.first, rows.last, Turn::back, k.data());
                      mean.k_before = mean_of(k, dims);
                      means.heads_[layer].push_back(std::move(mean));
                  });
    return means;
}

Result<ModelMeans> ModelMeans::from(const GgufModel& model, const codec::Sidecar& sidecar) {
    if (sidecar.k_mean.empty() || sidecar.v_mean.empty() || sidecar.k_mean_before.empty())
        return make_error(Code::invalid, "the sidecar has no means of keys and values");
    ModelMeans means(model);
    for (uint32_t layer = 0; layer < sidecar.layers.size(); ++layer) {
        const codec::SidecarLayer& shape = sidecar.layers[layer];
        for (uint32_t head = 0; head < shape.kv_heads; ++head) {
            const auto at = static_cast<std::ptrdiff_t>(codec::vector_offset(sidecar, layer, head));
            const auto vector = [&](const std::vector<float>& all) {
                return std::vector<float>(all.begin() + at, all.begin() + at + shape.head_dim);
            };
            means.heads_[layer].push_back({.k = vector(sidecar.k_mean),
                                           .k_before = vector(sidecar.k_mean_before),
                                           .v = vector(sidecar.v_mean)});
        }
    }
    return means;
}

void ModelMeans::store(codec::Sidecar* sidecar) const {
    const auto all = [&](std::vector<float> HeadMeans::* side) {
        std::vector<float> out;
        for (const std::vector<HeadMeans>& layer : heads_)
            for (const HeadMeans& head : layer)
                out.insert(out.end(), (head.*side).begin(), (head.*side).end());
        return out;
    };
    sidecar->k_mean = all(&HeadMeans::k);
    sidecar->k_mean_before = all(&HeadMeans::k_before);
    sidecar->v_mean = all(&HeadMeans::v);
}

}  // namespace quire::bench
