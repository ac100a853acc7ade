#include <array>

#include "engine/model/packed/product.h"
#include "engine/model/packed/product_isas.h"

namespace quire::packed {
namespace {

bool always() {
    return true;
}
#if defined(__x86_64__)
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}
bool has_avx512_vnni() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

}  // namespace

std::span<const ProductOps> product_table() {
    using kernels::Isa;
    static constexpr std::array kTable = {
        ProductOps{Isa::ref, "ref", always, ref_quantise_row, ref_multiply, ref_gate},
#if defined(__x86_64__)
        ProductOps{Isa::avx2, "avx2", has_avx2, avx2_quantise_row, avx2_multiply,
                   avx2_gate},
        ProductOps{Isa::avx512, "avx512-vnni", has_avx512_vnni, avx512_quantise_row,
                   avx512_multiply, avx512_gate},
#endif
    };
    return kTable;
}

const ProductOps& best_product(kernels::Isa isa) {
    const std::span<const ProductOps> table = product_table();
    for (size_t i = table.size() - 1; i > 0; --i)
        if (table[i].isa <= isa && table[i].cpu_has_it()) return table[i];
    return table[0];
}

}  // namespace quire::packed
