// What a model of a supported family computes, read from GGUF metadata and checked. Values only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/kv_layout.h"
#include "engine/model/gguf_file.h"

namespace quire {

enum class RopeStyle : uint8_t {
    pairs,   // rotates dimensions 2i and 2i + 1 (llama)
    halves,  // rotates dimensions i and i + rope_dim / 2 (qwen, gemma)
};
enum class Activation : uint8_t { silu, gelu };

// One row per supported architecture: the parts in which the families differ.
struct Family {
    const char* name;  // general.architecture
    RopeStyle rope;
    Activation activation;
    bool qkv_bias;    // Q, K and V have biases
    bool qk_norm;     // RMS norm over each head of Q and K before RoPE
    bool post_norms;  // norms on the outputs of attention and feed-forward, before the residual
    bool scale_embedding;    // embeddings are multiplied by sqrt(n_embd)
    int32_t window_period;   // > 0: every window_period-th layer sees all keys, the others a window
    float window_rope_base;  // rope base of window layers
};

std::span<const Family> families();

struct HParams {
    const Family* family = nullptr;
    std::string name;  // general.name, for people
    int32_t n_layers = 0;
    int32_t n_embd = 0;
    int32_t n_heads = 0;
    int32_t n_kv_heads = 0;
    int32_t head_dim = 0;
    int32_t rope_dim = 0;
    int32_t n_ff = 0;
    int32_t n_vocab = 0;
    int32_t context_tokens = 0;
    int32_t window_tokens = 0;  // 0: no window layers
    float norm_eps = 0;
    float attention_scale = 0;
    float final_softcap = 0;
    double rope_base = 0;
    double rope_scale = 1;  // positions are multiplied by this (linear scaling)
    double window_rope_base = 0;
    std::vector<bool> layer_is_window;

    // Reads and checks everything; the error names the key. unsupported: another architecture, or a
    // feature of this one that is not implemented (experts, YaRN, per-layer head counts).
    static Result<HParams> from_gguf(const GgufFile& file);

    // The full group first when there is one, then the window group.
    KvLayout kv_layout(uint32_t block_tokens) const;
    // Canonical text of every field that changes K or V: a part of the model's identity.
    std::string identity() const;
};

}  // namespace quire
