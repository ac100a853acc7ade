// How far a model's next-token distributions move when its cache is coded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/types.h"

namespace quire::bench {

struct Divergence {
    uint64_t positions = 0;
    // KL(reference || candidate) in nats, over positions.
    double mean = 0, median = 0, p99 = 0, p999 = 0, max = 0;
    double top1 = 0;              // share of positions where the most likely token is the same
    double perplexity_ratio = 0;  // candidate over reference, on the text itself
    uint64_t first_difference =
        0;  // first position whose most likely token differs; positions: none
};

// A row of logits with what every comparison needs of it.
class LogitRow {
 public:
    explicit LogitRow(std::span<const float> logits);
    std::span<const float> logits() const { return logits_; }
    double log_sum() const { return log_sum_; }
    size_t best() const { return best_; }
    double log_probability(size_t token) const { return double{logits_[token]} - log_sum_; }

 private:
    std::span<const float> logits_;
    size_t best_ = 0;
    double log_sum_ = 0;
};

// KL(reference || candidate) in nats, never below 0.
double divergence(const LogitRow& reference, const LogitRow& candidate);

class DivergenceTally {
 public:
    // `next`: the text's own token after this position.
    void add(const LogitRow& reference, const LogitRow& candidate, TokenId next);
    Divergence result() const;

 private:
    std::vector<double> kl_;
    uint64_t same_best_ = 0;
    uint64_t first_difference_ = 0;
    bool differed_ = false;
    double log_ratio_ = 0;  // of the text's probability, reference over candidate
};

}  // namespace quire::bench
