#include "bench/eval/query_covariance.h"

namespace quire::bench {
namespace {

constexpr int32_t kEveryRow = 4;

}  // namespace

QueryCovariance::QueryCovariance(const GgufModel& model, QueryObserver* next)
    : next_(next),
      sharing_(static_cast<size_t>(model.hparams().n_heads / model.hparams().n_kv_heads)),
      head_dim_(static_cast<size_t>(model.hparams().head_dim)),
      heads_(static_cast<size_t>(model.hparams().n_heads)),
      sums_(static_cast<size_t>(model.hparams().n_layers),
            std::vector<double>(static_cast<size_t>(model.hparams().n_kv_heads) * head_dim_ *
                                head_dim_)) {}

void QueryCovariance::add(const float* query, double* sums) const {
    for (size_t a = 0; a < head_dim_; ++a) {
        const double x = double{query[a]};
        double* row = sums + a * head_dim_;
        for (size_t b = 0; b <= a; ++b) row[b] += x * double{query[b]};
    }
}

void QueryCovariance::see(uint32_t layer, const kernels::AttnShape& shape,
                          std::span<const kernels::AttnSequence> sequences) {
    if (next_ != nullptr) next_->see(layer, shape, sequences);
    for (const kernels::AttnSequence& s : sequences)
        for (int32_t r = 0; r < s.n_rows; r += kEveryRow)
            for (size_t head = 0; head < heads_; ++head)
                add(s.q + r * s.q_row_stride + head * head_dim_,
                    sums_[layer].data() + head / sharing_ * head_dim_ * head_dim_);
}

std::vector<double> QueryCovariance::of(uint32_t layer, uint32_t kv_head) const {
    const size_t n = head_dim_;
    const double* sums = sums_[layer].data() + kv_head * n * n;
    std::vector<double> out(n * n);
    for (size_t a = 0; a < n; ++a)
        for (size_t b = 0; b <= a; ++b) out[a * n + b] = out[b * n + a] = sums[a * n + b];
    return out;
}

}  // namespace quire::bench
