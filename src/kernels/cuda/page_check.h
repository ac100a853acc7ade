// What every kernel over pages asks of them. Host code.
#pragma once

#include <cstdint>

namespace quire::kernels::cuda {

constexpr const char* check_block_tokens(int32_t n) {
    return n == 16 || n == 32 || n == 64 || n == 128 ? nullptr
                                                     : "block_tokens must be 16, 32, 64 or 128";
}

inline bool is_aligned(const void* p, uintptr_t to) {
    return reinterpret_cast<uintptr_t>(p) % to == 0;
}

inline const char* check_page_alignment(const void* pages, int64_t block_stride,
                                        int64_t head_stride) {
    return is_aligned(pages, 32) && block_stride % 32 == 0 && head_stride % 32 == 0
               ? nullptr
               : "pages must be aligned to 32 bytes";
}

}  // namespace quire::kernels::cuda
