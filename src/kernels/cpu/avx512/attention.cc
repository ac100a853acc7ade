#include "kernels/cpu/avx512/attention.h"

#include "kernels/cpu/avx512/planes.h"
#include "kernels/cpu/generic/kernels.h"

namespace quire::kernels::avx512 {

void attend(const AttnItem& item) {
    generic::attend_item<Avx512>(item);
}

void fetch(const AttnItem& item) {
    generic::fetch_item<Avx512>(item);
}

void merge(const AttnItem& item) {
    generic::merge_item<Avx512>(item);
}

void store(const AttnShape& shape, const StoreSequence& sequence, int32_t kv_head,
           int32_t row_begin, int32_t row_end) {
    generic::store_rows<Avx512>(shape, sequence, kv_head, row_begin, row_end);
}

}  // namespace quire::kernels::avx512
