#include "engine/model/mean_sums.h"

#include <algorithm>

#include "engine/model/rope.h"

namespace quire {

MeanSums::MeanSums(const GgufModel& model, int32_t n_threads)
    : model_(model),
      kv_heads_(static_cast<size_t>(model.hparams().n_kv_heads)),
      head_dim_(static_cast<size_t>(model.hparams().head_dim)) {
    const std::vector<double> none(head_dim_);
    const Head head{.k = none, .k_before = none, .v = none};
    const auto layers = static_cast<size_t>(model.hparams().n_layers);
    threads_.assign(static_cast<size_t>(n_threads), {.heads = std::vector(layers * kv_heads_, head),
                                                     .turned = std::vector<float>(head_dim_)});
}

uint32_t MeanSums::arm(std::span<const StepSequence> sequences, uint32_t tokens_max) {
    ends_.clear();
    uint32_t left = tokens_max;
    for (const StepSequence& s : sequences) {
        const int32_t first = std::max(s.first_pos, kMeanSkipsTokens);
        const int32_t end = s.first_pos + static_cast<int32_t>(s.tokens.size());
        const uint32_t take = std::min(left, static_cast<uint32_t>(std::max(end - first, 0)));
        ends_.push_back(first + static_cast<int32_t>(take));
        left -= take;
    }
    return tokens_max - left;
}

void MeanSums::see(const KvRows& rows, int thread) {
    if (ends_.empty()) return;
    const int32_t end = std::min(rows.position + rows.n_rows, ends_[rows.sequence]);
    const int32_t first = std::max(rows.position, kMeanSkipsTokens);
    if (first >= end) return;
    Thread& own = threads_[static_cast<size_t>(thread)];
    Head& head = own.heads[rows.layer * kv_heads_ + rows.kv_head];
    head.rows += static_cast<uint64_t>(end - first);
    const HParams& h = model_.hparams();
    for (int32_t r = first - rows.position; r < end - rows.position; ++r) {
        const float* k = rows.k + r * rows.stride;
        const float* v = rows.v + r * rows.stride;
        std::copy_n(k, head_dim_, own.turned.data());
        rope_rotate_back(h.family->rope, h.rope_dim / 2, rows.rope + r * rows.rope_stride,
                         own.turned.data());
        for (size_t d = 0; d < head_dim_; ++d) {
            head.k[d] += double{k[d]};
            head.k_before[d] += double{own.turned[d]};
            head.v[d] += double{v[d]};
        }
    }
}

void MeanSums::store(codec::Sidecar* sidecar) const {
    const auto mean_of = [this](std::vector<double> Head::* side) {
        std::vector<float> mean;
        for (size_t i = 0; i < threads_.front().heads.size(); ++i) {
            uint64_t rows = 0;
            std::vector<double> sum(head_dim_);
            for (const Thread& thread : threads_) {
                rows += thread.heads[i].rows;
                for (size_t d = 0; d < head_dim_; ++d) sum[d] += (thread.heads[i].*side)[d];
            }
            for (const double x : sum)
                mean.push_back(static_cast<float>(x / static_cast<double>(rows)));
        }
        return mean;
    };
    sidecar->k_mean = mean_of(&Head::k);
    sidecar->k_mean_before = mean_of(&Head::k_before);
    sidecar->v_mean = mean_of(&Head::v);
}

void MeanSums::clear() {
    ends_.clear();
    ends_.shrink_to_fit();
    threads_.clear();
    threads_.shrink_to_fit();
}

}  // namespace quire
