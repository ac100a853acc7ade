// A model opened from a GGUF file: what it computes, its weights, how to multiply by them, its
// identity.
//
// Immutable after open(); shared by every thread that computes with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/hash128.h"
#include "core/kv_layout.h"
#include "engine/model/gguf_file.h"
#include "engine/model/hparams.h"
#include "engine/model/matmul_traits.h"
#include "engine/model/weights.h"

namespace quire {

// Raised whenever the same weights would give other K and V bits (RoPE, norms, rounding): a cache
// of an older number is another model.
inline constexpr uint32_t kNumericsVersion = 3;

class GgufModel {
 public:
    // See GgufFile::open, HParams::from_gguf, Weights::load and probe_matmul for what is refused.
    static Result<std::unique_ptr<GgufModel>> open(const std::string& path);

    const std::string& path() const { return path_; }
    uint64_t file_bytes() const { return file_bytes_; }
    const HParams& hparams() const { return hparams_; }
    const Weights& weights() const { return *weights_; }
    // A digest of the weights and hyper-parameters that change K and V, and of kNumericsVersion.
    const ModelId& id() const { return id_; }
    KvLayout kv_layout(uint32_t block_tokens, Element element = Element::f16) const {
        KvLayout layout = hparams_.kv_layout(block_tokens);
        layout.element = element;
        return layout;
    }
    // The plan for one of weights()'s matrices that are not packed.
    const MatmulTraits& traits(const ggml_tensor* matrix) const;
    // The most padding any matrix needs: every step computes at least this many rows.
    int32_t min_rows() const { return min_rows_; }

 private:
    GgufModel() = default;
    std::vector<const ggml_tensor*> matrices() const;
    Status probe_all();

    struct Shape {
        int32_t type;
        int64_t n_in, n_out;
        MatmulTraits traits;
    };

    std::string path_;
    uint64_t file_bytes_ = 0;
    HParams hparams_;
    std::unique_ptr<Weights> weights_;
    ModelId id_;
    std::vector<Shape> shapes_;
    int32_t min_rows_ = 1;
};

}  // namespace quire
