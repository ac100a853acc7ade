// From ggml's quantised blocks to the layout of layout.h. Exact: no code or scale changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/model/packed/layout.h"

namespace quire::packed {

// nullopt: no layout for this ggml type or shape; multiply as ggml does.
std::optional<Layout> layout_for(int32_t ggml_type, int64_t n_in, int64_t n_out);

// Bytes of [n_out] x [n_in], a multiple of 64.
size_t packed_bytes(const Layout& layout, int64_t n_in, int64_t n_out);

// Writes packed_bytes(); `weights` is n_out rows of ggml blocks, `row_bytes` apart.
void pack(int32_t ggml_type, const void* weights, size_t row_bytes, int64_t n_in, int64_t n_out,
          std::byte* out);

// The n_in weights of one of the matrix's rows.
void unpack_row(const Layout& layout, const std::byte* packed, int64_t n_in, int64_t row,
                float* out);

}  // namespace quire::packed
