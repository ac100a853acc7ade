// The AVX-512 instance of the generic kernels. Call only on a CPU that has it.
#pragma once

#include "kernels/attention_plan.h"

namespace quire::kernels::avx512 {

void attend(const AttnItem& item);
void fetch(const AttnItem& item);
void merge(const AttnItem& item);
void store(const AttnShape& shape, const StoreSequence& sequence, int32_t kv_head,
           int32_t row_begin, int32_t row_end);

}  // namespace quire::kernels::avx512
