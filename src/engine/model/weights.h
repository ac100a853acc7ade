// The weights of a model, read once into memory of our own: packed for our own products where there
// is a layout for their type and shape (packed/layout.h), as ggml tensors otherwise.
//
// Matrices that read the same input are joined row-wise when their types agree (Q|K|V, gate|up):
// one product instead of three, each row's bits unchanged. Immutable after load(); any thread
// reads.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "core/hash128.h"
#include "engine/model/gguf_file.h"
#include "engine/model/hparams.h"
#include "engine/model/packed/layout.h"

struct ggml_context;
struct ggml_tensor;

namespace quire {

// Either packed or a ggml tensor.
struct Matrix {
    int64_t n_in = 0;
    int64_t n_out = 0;
    const std::byte* packed = nullptr;
    packed::Layout layout;  // of packed
    ggml_tensor* ggml = nullptr;
};

// One output's weights [n_in] of a matrix.
void dequantise_row(const Matrix& matrix, int64_t row, float* out);

// Up to three matrices [n_in -> n_out_i] over the same input, outputs side by side in one row.
struct Projection {
    std::vector<Matrix> parts;
    int64_t n_in = 0;
    int64_t n_out = 0;  // over all parts
};

struct LayerWeights {
    const float* attn_norm = nullptr;  // [n_embd]
    const float* q_norm = nullptr;     // [head_dim], families with qk_norm
    const float* k_norm = nullptr;
    const float* post_attn_norm = nullptr;  // [n_embd], families with post_norms
    const float* ffn_norm = nullptr;
    const float* post_ffn_norm = nullptr;
    const float* qkv_bias = nullptr;  // [(n_heads + 2 n_kv_heads) head_dim], or null
    Projection qkv, out, gate_up, down;
};

class Weights {
 public:
    // invalid: a tensor is missing, has another shape or is unknown; unsupported: a tensor type
    // that ggml cannot multiply here; corrupt, io, full: as they say.
    static Result<std::unique_ptr<Weights>> load(const GgufFile& file, const HParams& hparams);
    ~Weights();
    Weights(const Weights&) = delete;
    Weights& operator=(const Weights&) = delete;

    const LayerWeights& layer(size_t i) const { return layers_[i]; }
    // Looked up row by row; a tied head is the same bytes.
    const Matrix& embedding() const { return embedding_; }
    const Projection& head() const { return head_; }
    const float* output_norm() const { return output_norm_; }
    // Divisors of RoPE frequencies [rope_dim / 2], or null.
    const float* rope_factors() const { return rope_factors_; }
    // Digest of every tensor that takes part in computing K and V (not the output head or its
    // norm).
    const Hash128& kv_digest() const { return kv_digest_; }
    size_t bytes() const { return arena_.size(); }

 private:
    friend class WeightLoader;
    Weights() = default;

    Arena arena_;
    ggml_context* context_ = nullptr;
    std::vector<LayerWeights> layers_;
    Matrix embedding_;
    Projection head_;
    const float* output_norm_ = nullptr;
    const float* rope_factors_ = nullptr;
    Hash128 kv_digest_;
};

}  // namespace quire
