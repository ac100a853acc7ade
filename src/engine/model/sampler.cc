#include "engine/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Tokens whose probability is below e^-30 of the best one's are as good as impossible: all of a
// vocabulary of 2^20 of them together weigh less than one part in ten million.
constexpr float kLogFloor = 30.0f;

float finite(float logit) {
    return std::min(logit, std::numeric_limits<float>::max());
}

// The largest of them that is a number (-infinity: none is). In lanes, so that it runs at load
// speed.
float max_logit(std::span<const float> logits) {
    constexpr size_t kLanes = 32;
    float lanes[kLanes];
    std::fill(lanes, lanes + kLanes, -kInfinity);
    size_t i = 0;
    for (; i + kLanes <= logits.size(); i += kLanes)
        for (size_t j = 0; j < kLanes; ++j)
            lanes[j] = logits[i + j] > lanes[j] ? logits[i + j] : lanes[j];  // false for NaN
    float best = *std::max_element(lanes, lanes + kLanes);
    for (; i < logits.size(); ++i) best = logits[i] > best ? logits[i] : best;
    return finite(best);
}

struct Best {
    float logit = -kInfinity;
    TokenId token = -1;  // the lowest of those that have it; -1: none is a number
};

// The largest in [from, end) if it is larger than `best`. One pass: a decoded token waits for it.
void better_in(std::span<const float> logits, size_t from, size_t end, Best* best) {
    constexpr size_t kRun = 1024;
    for (; from < end; from += kRun) {
        const auto run = logits.subspan(from, std::min(kRun, end - from));
        const float max = max_logit(run);
        if (!(max > best->logit)) continue;
        const auto first =
            std::ranges::find_if(run, [max](float logit) { return finite(logit) >= max; });
        *best = {max, static_cast<TokenId>(from + static_cast<size_t>(first - run.begin()))};
    }
}

// REQUIRES: `banned` ascend.
Best best_logit(std::span<const float> logits, std::span<const TokenId> banned) {
    Best best;
    size_t from = 0;
    for (const TokenId token : banned) {
        better_in(logits, from, static_cast<size_t>(token), &best);
        from = static_cast<size_t>(token) + 1;
    }
    better_in(logits, from, logits.size(), &best);
    return best;
}

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

Status out_of_range(const char* field, const char* range) {
    return make_error(Code::invalid, std::string(field) + " must be " + range);
}

bool in_range(float v, float low, float high) {
    return v >= low && v <= high;  // false for NaN
}

constexpr auto kBetter = [](const auto& a, const auto& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
};

}  // namespace

double uniform_at(uint64_t seed, uint64_t index) {
    return static_cast<double>(mix(mix(seed) ^ mix(~index)) >> 11) * 0x1p-53;
}

Logprobs logprobs_of(std::span<const float> logits, TokenId token, int32_t n) {
    struct Entry {
        float logit;
        TokenId token;
    };
    const float max = max_logit(logits);
    double sum = 0;
    std::vector<Entry> top;  // a heap with the worst entry in front
    const auto limit = static_cast<size_t>(std::max(n, 0));
    for (size_t i = 0; i < logits.size(); ++i) {
        const float l = logits[i];
        if (l >= max - kLogFloor) sum += std::exp(static_cast<double>(finite(l) - max));
        const Entry entry = {l, static_cast<TokenId>(i)};
        if (limit == 0 || std::isnan(l) || (top.size() == limit && !kBetter(entry, top.front())))
            continue;
        if (top.size() == limit) {
            std::pop_heap(top.begin(), top.end(), kBetter);
            top.pop_back();
        }
        top.push_back(entry);
        std::push_heap(top.begin(), top.end(), kBetter);
    }
    std::sort(top.begin(), top.end(), kBetter);
    const auto norm = static_cast<float>(static_cast<double>(max) + std::log(sum));
    const float chosen = logits[static_cast<size_t>(token)];
    Logprobs out;
    out.chosen = std::isnan(chosen) ? -kInfinity : finite(chosen) - norm;
    for (const Entry& e : top) out.top.emplace_back(e.token, finite(e.logit) - norm);
    return out;
}

Status Sampler::check(const Sampling& s, int32_t n_vocab) {
    if (!in_range(s.temperature, 0, 100)) return out_of_range("temperature", "from 0 to 100");
    if (s.top_k < 0) return out_of_range("top_k", "0 (off) or positive");
    if (!in_range(s.top_p, 0, 1) || s.top_p == 0) return out_of_range("top_p", "in (0, 1]");
    if (!in_range(s.min_p, 0, 1)) return out_of_range("min_p", "from 0 to 1");
    if (!in_range(s.repetition_penalty, 0.01f, 100))
        return out_of_range("repetition_penalty", "from 0.01 to 100");
    if (!in_range(s.presence_penalty, -100, 100))
        return out_of_range("presence_penalty", "from -100 to 100");
    if (!in_range(s.frequency_penalty, -100, 100))
        return out_of_range("frequency_penalty", "from -100 to 100");
    if (s.logprobs < -1) return out_of_range("logprobs", "a count of tokens");
    for (const auto& [token, bias] : s.logit_bias) {
        if (token < 0 || token >= n_vocab)
            return make_error(Code::invalid, "logit_bias names token " + std::to_string(token) +
                                                 ", which is not in the vocabulary of " +
                                                 std::to_string(n_vocab));
        if (!std::isfinite(bias)) return out_of_range("logit_bias", "finite numbers");
    }
    return {};
}

Sampler::Sampler(Sampling sampling, TokenSpan prompt) : sampling_(std::move(sampling)) {
    if (sampling_.repetition_penalty == 1.0f) return;
    for (const TokenId t : prompt) seen_[t].in_prompt = true;
}

void Sampler::accept(TokenId token) {
    ++seen_[token].in_answer;
    ++accepted_;
}

std::span<const float> Sampler::adjust(std::span<const float> logits) {
    const bool penalise = sampling_.repetition_penalty != 1.0f ||
                          sampling_.presence_penalty != 0.0f || sampling_.frequency_penalty != 0.0f;
    if (sampling_.logit_bias.empty() && !penalise) return logits;
    adjusted_.assign(logits.begin(), logits.end());
    for (const auto& [token, bias] : sampling_.logit_bias)
        adjusted_[static_cast<size_t>(token)] += bias;
    if (penalise) {
        for (const auto& [token, seen] : seen_) {
            float& l = adjusted_[static_cast<size_t>(token)];
            l = l > 0 ? l / sampling_.repetition_penalty : l * sampling_.repetition_penalty;
            if (seen.in_answer > 0)
                l -= sampling_.presence_penalty +
                     sampling_.frequency_penalty * static_cast<float>(seen.in_answer);
        }
    }
    return adjusted_;
}

Result<TokenId> Sampler::sample(std::span<const float> raw, std::span<const TokenId> banned) {
    const std::span<const float> logits = adjust(raw);
    const auto [max, best] = best_logit(logits, banned);
    if (best < 0)
        return make_error(Code::bug, "the model gave no usable logit (all are NaN or banned)");
    if (sampling_.temperature == 0.0f) return best;
    const float floor =
        sampling_.min_p > 0 ? std::min(kLogFloor, -std::log(sampling_.min_p)) : kLogFloor;
    const float cut = max - floor * sampling_.temperature;
    candidates_.clear();
    for (size_t i = 0; i < logits.size(); ++i) {
        const auto token = static_cast<TokenId>(i);
        if (logits[i] >= cut && !std::ranges::binary_search(banned, token))
            candidates_.push_back({finite(logits[i]), token});
    }
    keep_top_k();
    keep_top_p(max);
    return draw(max);
}

void Sampler::keep_top_k() {
    const auto k = static_cast<size_t>(sampling_.top_k);
    if (k == 0 || candidates_.size() <= k) return;
    const auto middle = candidates_.begin() + static_cast<ptrdiff_t>(k);
    std::nth_element(candidates_.begin(), middle, candidates_.end(), kBetter);
    candidates_.resize(k);
    // nth_element's order within the kept is up to the library: restore one of our own.
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

void Sampler::keep_top_p(float max) {
    if (sampling_.top_p >= 1.0f) return;
    auto weight = [&](const Candidate& c) {
        return std::exp(static_cast<double>((c.logit - max) / sampling_.temperature));
    };
    double total = 0;
    for (const Candidate& c : candidates_) total += weight(c);
    const double goal = total * static_cast<double>(sampling_.top_p);
    double sum = 0;
    size_t sorted = 0;
    // Sort ever larger heads: usually a few tokens hold the mass.
    for (size_t head = 64; sorted < candidates_.size(); head *= 8) {
        const size_t end = std::min(head, candidates_.size());
        std::partial_sort(candidates_.begin() + static_cast<ptrdiff_t>(sorted),
                          candidates_.begin() + static_cast<ptrdiff_t>(end), candidates_.end(),
                          kBetter);
        for (; sorted < end; ++sorted) {
            sum += weight(candidates_[sorted]);
            if (sum >= goal) {
                candidates_.resize(sorted + 1);
                return;
            }
        }
    }
}

TokenId Sampler::draw(float max) const {
    double total = 0;
    auto weight = [&](const Candidate& c) {
        return std::exp(static_cast<double>((c.logit - max) / sampling_.temperature));
    };
    for (const Candidate& c : candidates_) total += weight(c);
    double rest = uniform_at(sampling_.seed, accepted_) * total;
    for (const Candidate& c : candidates_) {
        rest -= weight(c);
        if (rest < 0) return c.token;
    }
    return candidates_.back().token;
}

}  // namespace quire
