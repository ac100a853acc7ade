// What an evaluation compares: ways to code K and V, applied to a finished span of tokens of one KV
// head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/sidecar.h"
#include "engine/model/schedule_file.h"

namespace quire::bench {

// Means of K and V of one layer and KV head, learned from other text.
struct HeadMeans {
    std::vector<float> k;         // [head_dim] after RoPE: free, it cancels in the softmax
    std::vector<float> k_before;  // before RoPE: most of a key's energy; rotated to each position
    std::vector<float> v;
};

// Rows of one KV head of one layer, float32, to be replaced by what a decoder would give.
struct KvSpan {
    float* k = nullptr;  // [tokens][head_dim]
    float* v = nullptr;
    uint32_t tokens = 0;
    uint32_t head_dim = 0;
    uint32_t layer = 0;
    uint32_t head = 0;
    uint32_t first = 0;  // position of the first token
    const HeadMeans* means = nullptr;
    const float* k_means = nullptr;  // [tokens][head_dim] k_before at each token's position
};

class ServedCache;

class Candidate {
 public:
    virtual ~Candidate() = default;
    virtual std::string name() const = 0;
    // Per stored number, scales and padding included; sinks and the open span are counted by the
    // evaluation, alike for all. Of codecs whose pages differ in size: on what was applied so far.
    virtual double bits(uint32_t head_dim) const = 0;
    // unsupported: it has no form for such rows; the message says why.
    virtual Status fits(uint32_t /*head_dim*/) const { return {}; }
    // Told of the sidecar of the model, before anything is applied. corrupt: what it holds for this
    // candidate is damaged.
    virtual Status use(const codec::Sidecar& /*sidecar*/) { return {}; }
    // A peer to be beaten, as others define it.
    virtual bool reference() const { return false; }
    // Neither ours nor a peer: what another 16-bit format does to the model.
    virtual bool noise_floor() const { return false; }
    // Of those with widths per layer.
    virtual std::optional<LayerSchedule> schedule() const { return std::nullopt; }
    // Not null: the engine codes pages itself, by this; nothing is applied.
    virtual const ServedCache* served() const { return nullptr; }
    // Any thread.
    virtual void apply(const KvSpan& span) const = 0;
    // All heads of all layers of the same tokens, in the order of layers and heads. For codecs that
    // need other layers; others take them one by one.
    virtual void apply_all(std::span<const KvSpan> spans) const {
        for (const KvSpan& span : spans) apply(span);
    }
};

// One of our codecs, by its name in codec_table(). The keys' mean before RoPE is removed;
// "NAME:post" removes the one after RoPE instead, "NAME:plain" none, nor that of the values;
// "NAME:mean" is NAME, for codecs whose bare names are peers. Of formats that know no means they
// are taken off before and added again. Codecs that turn rows first do so with what use() found.
Result<std::unique_ptr<Candidate>> codec_candidate(const std::string& name);

// A codec of codec_table() that is another's format, as its owners use it: a peer, without means,
// with the scale above block scales that a span's largest number asks for.
// REQUIRES: the table has it.
std::unique_ptr<Candidate> format_candidate(const std::string& name);

// "bf16": what 16 bit leave open. The pages are f16; these are rounded to bf16.
std::unique_ptr<Candidate> noise_floor_candidate();

// The peers of peers.cc by name; null: no such peer.
std::unique_ptr<Candidate> peer_candidate(const std::string& name);
std::vector<std::string> peer_names();

}  // namespace quire::bench
