#include "bench/eval/key_form.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/eval/means.h"
#include "codec/sidecar.h"
#include "engine/model/key_turns.h"

namespace quire::bench {
namespace {

// Of one head's keys, by dimension: less the mean after RoPE, and less the one before it, turned.
struct LeftOver {
    std::vector<double> constant, turned;
};

LeftOver left_over(const std::vector<float>& keys, const std::vector<float>& mean,
                   const std::vector<float>& turned_means) {
    const size_t dims = mean.size();
    LeftOver left{std::vector<double>(dims), std::vector<double>(dims)};
    for (size_t i = 0; i < keys.size(); ++i) {
        const double constant = double{keys[i]} - double{mean[i % dims]};
        const double turned = double{keys[i]} - double{turned_means[i]};
        left.constant[i % dims] += constant * constant;
        left.turned[i % dims] += turned * turned;
    }
    return left;
}

double sum_of(const std::vector<double>& numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

}  // namespace

uint32_t key_pairs_max(const GgufModel& model) {
    return std::min(codec::kMaxKeyPairs, static_cast<uint32_t>(model.hparams().rope_dim) / 2);
}

std::vector<KeyForm> judge_key_forms(const GgufModel& model, const KvPages& pages, uint32_t tokens,
                                     const QueryEnergy& queries) {
    const uint32_t first = tokens - tokens / 4;
    const ModelMeans means = ModelMeans::learn(model, pages, first);
    codec::Sidecar sidecar{.model = model.id(),
                           .layers = codec::sidecar_layers(model.kv_layout(16))};
    means.store(&sidecar);
    std::vector<KeyForm> forms;
    std::vector<KeyTurns> turns;
    for (const uint32_t pairs : kKeyForms) {
        if (pairs > key_pairs_max(model)) break;
        forms.push_back({.pairs = pairs});
        sidecar.key_pairs = pairs;
        turns.push_back(
            find_key_turns(sidecar, model.hparams().family->rope, model.hparams().rope_dim));
    }
    for_each_head(pages.layout(), first, tokens,
                  [&](const KvPages::Rows& rows, const KvGroup& group, std::vector<float>& k,
                      std::vector<float>& v) {
                      const uint32_t layer = group.layers[rows.layer_in_group];
                      pages.read(rows, k.data(), v.data());
                      std::vector<float> turned_means;
                      means.rotate(layer, rows.head, first, tokens, &turned_means);
                      const LeftOver left =
                          left_over(k, means.of(layer, rows.head).k, turned_means);
                      const double weight = sum_of(queries.of(layer, rows.head));
                      for (size_t f = 0; f < forms.size(); ++f) {
                          double energy = sum_of(left.constant);
                          for (const kernels::AttnPairMean& m : turns[f].of(layer, rows.head))
                              for (const int16_t d : {m.x, m.y})
                                  energy += left.turned[static_cast<size_t>(d)] -
                                            left.constant[static_cast<size_t>(d)];
                          forms[f].energy += (weight > 0 ? weight : 1) * energy;
                      }
                  });
    const double none = forms.front().energy;
    for (KeyForm& form : forms) form.energy = none > 0 ? form.energy / none : 1;
    return forms;
}

uint32_t choose_key_pairs(const std::vector<KeyForm>& forms) {
    const double best = std::ranges::min(forms, {}, &KeyForm::energy).energy;
    const auto near = std::ranges::find_if(forms, [&](const KeyForm& form) {
        return form.energy <= std::pow(4, kKeyFormBits) * best;
    });
    return near->pairs;
}

}  // namespace quire::bench
