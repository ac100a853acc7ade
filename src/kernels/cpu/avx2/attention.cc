#include "kernels/cpu/avx2/attention.h"

#include "kernels/cpu/avx2/isa.h"
#include "kernels/cpu/generic/kernels.h"

namespace quire::kernels::avx2 {

void attend(const AttnItem& item) {
    generic::attend_item<Avx2>(item);
}

void fetch(const AttnItem& item) {
    generic::fetch_item<Avx2>(item);
}

void merge(const AttnItem& item) {
    generic::merge_item<Avx2>(item);
}

void store(const AttnShape& shape, const StoreSequence& sequence, int32_t kv_head,
           int32_t row_begin, int32_t row_end) {
    generic::store_rows<Avx2>(shape, sequence, kv_head, row_begin, row_end);
}

}  // namespace quire::kernels::avx2
