// Files of K, V and queries of some layers of a model, as tests/engine/capture_kv.cc writes them:
// a CapturedHeader, then for each layer float32, little-endian:
//   k [tokens][kv_heads][head_dim], v likewise     after norms and RoPE
//   q [queries][n_heads][head_dim]                 of the last tokens
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

struct CapturedHeader {
    char magic[8] = {'q', 'u', 'i', 'r', 'e', 'k', 'v', '1'};
    int32_t layers = 0;
    int32_t tokens = 0;
    int32_t kv_heads = 0;
    int32_t n_heads = 0;
    int32_t head_dim = 0;
    int32_t queries = 0;
    float scale = 0;  // of the dot product
    int32_t reserved = 0;

    size_t side_numbers() const {
        return static_cast<size_t>(tokens) * static_cast<size_t>(kv_heads * head_dim);
    }
    size_t query_numbers() const {
        return static_cast<size_t>(queries) * static_cast<size_t>(n_heads * head_dim);
    }
};
static_assert(sizeof(CapturedHeader) == 40);

}  // namespace quire
