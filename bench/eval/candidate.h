// What an evaluation compares: ways to code K and V, applied to a finished span of tokens of one KV
// head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::bench {

// Means of K (after RoPE) and V per layer and KV head, learned from other text.
struct HeadMeans {
    std::vector<float> k, v;  // [head_dim]
};

// Rows of one KV head of one layer, float32, to be replaced by what a decoder would give.
struct KvSpan {
    float* k = nullptr;  // [tokens][head_dim]
    float* v = nullptr;
    uint32_t tokens = 0;
    uint32_t head_dim = 0;
    uint32_t layer = 0;
    const HeadMeans* means = nullptr;
};

class Candidate {
 public:
    virtual ~Candidate() = default;
    virtual std::string name() const = 0;
    // Per stored number, scales and padding included; sinks and the open span are counted by the
    // evaluation, alike for all.
    virtual double bits(uint32_t head_dim) const = 0;
    // A peer to be beaten, as others define it.
    virtual bool reference() const { return false; }
    // Any thread.
    virtual void apply(const KvSpan& span) const = 0;
};

// One of our codecs, by its name in codec_table(); "NAME:plain" leaves the means alone.
Result<std::unique_ptr<Candidate>> codec_candidate(const std::string& name);

// The peers of peers.cc by name; null: no such peer.
std::unique_ptr<Candidate> peer_candidate(const std::string& name);
std::vector<std::string> peer_names();

}  // namespace quire::bench
