// For tests: small GGUF models of every family with random weights, and plain block tables for
// Forward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/kv_layout.h"
#include "engine/model/forward.h"

namespace quire::test {

struct TinySpec {
    std::string family = "llama";
    int32_t matrix_type = 0;  // ggml_type of matrices; 0 is F32
    int32_t n_layers = 3;
    int32_t n_embd = 64;
    int32_t n_heads = 4;
    int32_t n_kv_heads = 2;
    int32_t head_dim = 32;
    int32_t n_ff = 96;
    int32_t n_vocab = 80;
    int32_t context_tokens = 2048;
    int32_t window = 24;  // gemma3
    uint64_t seed = 1;
};

struct TinyModel {
    TinySpec spec;
    std::string path;
    std::map<std::string, std::vector<float>> tensors;  // by name, as they were before quantisation
};

// Writes the model to a file that stays until the program's end. Norms and matrices are scaled so
// that activations stay near 1.
TinyModel write_tiny_model(const TinySpec& spec);

// Pages for one sequence, all blocks allocated and zeroed.
class PlainPages {
 public:
    PlainPages(const KvLayout& layout, int32_t n_tokens);
    StepSequence sequence(TokenSpan tokens, int32_t first_pos, int32_t n_logit_rows);
    // Every byte of every slab, to be compared.
    std::vector<std::byte> bytes() const;
    // Values of K and V as the kernels stored them.
    float k(size_t group, size_t layer_in_group, int32_t head, int32_t pos, int32_t dim) const;
    float v(size_t group, size_t layer_in_group, int32_t head, int32_t pos, int32_t dim) const;
    std::byte* slab(size_t group, size_t block) { return tables_[group][block]; }

 private:
    uint16_t half_at(size_t group, size_t layer, int32_t head, int32_t pos, size_t index) const;

    struct Free {
        void operator()(std::byte* p) const;
    };
    KvLayout layout_;
    std::vector<std::unique_ptr<std::byte, Free>> owned_;
    std::vector<std::vector<std::byte*>> tables_;
};

// Paths of real models under $XDG_CACHE_HOME/quire/models; empty when they are not there.
std::vector<std::string> real_models();

}  // namespace quire::test
