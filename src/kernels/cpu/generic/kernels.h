// The functions that an ISA exports, made from the generic algorithm.
//
// Included by one source file per ISA, which is compiled with that ISA's flags. Everything here is
// a template over the ISA's own type, so no instruction of it can end up in a function that others
// share.
#pragma once

#include "kernels/cpu/generic/attend.h"
#include "kernels/cpu/generic/attend_codes.h"

namespace quire::kernels::generic {

template <class V, Element E>
void attend_item_of(const AttnItem& item) {
    if (item.shape->codes.any())
        CodesRunner<V, Raw16Reader<V, E>>(item).attend();
    else
        ItemRunner<V, Raw16Reader<V, E>>(item).attend();
}

template <class V>
void attend_item(const AttnItem& item) {
    if (item.shape->element == Element::f16)
        attend_item_of<V, Element::f16>(item);
    else
        attend_item_of<V, Element::bf16>(item);
}

template <class V>
void fetch_item(const AttnItem& item) {
    if (item.shape->codes.any())
        CodesRunner<V, Raw16Reader<V, Element::f16>>(item).fetch();
    else
        ItemRunner<V, Raw16Reader<V, Element::f16>>(item).fetch();
}

template <class V>
void merge_item(const AttnItem& item) {
    if (item.shape->codes.any())
        CodesRunner<V, Raw16Reader<V, Element::f16>>(item).merge();
    else
        ItemRunner<V, Raw16Reader<V, Element::f16>>(item).merge();
}

template <class V>
void convert_row(Element element, const float* from, uint16_t* to, int n) {
    for (int i = 0; i < n; i += V::kLanes) {
        if (element == Element::f16)
            V::store_f16(to + i, V::load(from + i));
        else
            V::store_bf16(to + i, V::load(from + i));
    }
}

// Rows of one block into one page: K is transposed on the way.
template <class V>
void store_rows(const AttnShape& shape, const StoreSequence& s, int32_t kv_head, int32_t row_begin,
                int32_t row_end) {
    const int64_t d = shape.head_dim, bt = shape.block_tokens;
    const int64_t token = (s.first_pos + row_begin) % bt;
    std::byte* slab = s.slabs[(s.first_pos + row_begin) / bt];
    uint16_t* page =
        reinterpret_cast<uint16_t*>(slab + shape.layer_offset + kv_head * shape.page_bytes);
    const float* k = s.k + row_begin * s.k_row_stride + kv_head * d;
    const float* v = s.v + row_begin * s.v_row_stride + kv_head * d;
    for (int64_t r = 0; r < row_end - row_begin; ++r) {
        uint16_t row[256];
        convert_row<V>(shape.element, k + r * s.k_row_stride, row, shape.head_dim);
        for (int64_t i = 0; i < d; ++i) page[i * bt + token + r] = row[i];
        convert_row<V>(shape.element, v + r * s.v_row_stride, page + (bt + token + r) * d,
                       shape.head_dim);
    }
}

}  // namespace quire::kernels::generic
