#include <array>

#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "kernels/ref/attention.h"
#if defined(__x86_64__)
#include "kernels/cpu/avx2/attention.h"
#include "kernels/cpu/avx512/attention.h"
#endif

namespace quire::kernels {
namespace {

// A row of the table for an ISA that brings ItemKernels.
template <const ItemKernels& kKernels>
constexpr AttentionOps make_ops(Isa isa, const char* name, bool (*cpu_has_it)()) {
    return {
        .isa = isa,
        .name = name,
        .cpu_has_it = cpu_has_it,
        .supports = check_shape,
        .workspace_bytes = plan_workspace_bytes,
        .run = [](const AttnBatch& b, int t, int n) { run_items(b, t, n, kKernels); },
        .fetch = [](const AttnBatch& b, int t, int n) { fetch_items(b, t, n, kKernels); },
        .store = [](const AttnShape& shape, std::span<const StoreSequence> s, int t,
                    int n) { store_blocks(shape, s, t, n, kKernels); },
    };
}

#if defined(__x86_64__)
constexpr ItemKernels kAvx2 = {avx2::attend, avx2::fetch, avx2::merge, avx2::store};
constexpr ItemKernels kAvx512 = {avx512::attend, avx512::fetch, avx512::merge,
                                   avx512::store};

bool has_avx2() {
    return cpu_has(Isa::avx2);
}
bool has_avx512() {
    return cpu_has(Isa::avx512);
}
#endif

}  // namespace

std::span<const AttentionOps> attention_table() {
    static const std::array table = {
        ref::attention(),
#if defined(__x86_64__)
        make_ops<kAvx2>(Isa::avx2, "avx2", has_avx2),
        make_ops<kAvx512>(Isa::avx512, "avx512", has_avx512),
#endif
    };
    return table;
}

const AttentionOps& best_attention() {
    const std::span<const AttentionOps> table = attention_table();
    for (size_t i = table.size() - 1; i > 0; --i)
        if (table[i].cpu_has_it()) return table[i];
    return table[0];
}

const AttentionOps* find_attention(Isa isa) {
    for (const AttentionOps& ops : attention_table())
        if (ops.isa == isa && ops.cpu_has_it()) return &ops;
    return nullptr;
}

}  // namespace quire::kernels
