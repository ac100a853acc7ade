// The functions behind the rows of product_table().
#pragma once

#include "engine/model/packed/product.h"

namespace quire::packed {

void ref_multiply(const Product& product);
void avx2_multiply(const Product& product);    // AVX2, FMA, F16C
void avx512_multiply(const Product& product);  // AVX-512 F, BW, VL, DQ, VNNI

}  // namespace quire::packed
