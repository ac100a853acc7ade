// The tables of kernels, each defined in the file of its instruction set.
#pragma once

#include "codec/ec/kernels.h"
#include "codec/isa_checks.h"

namespace quire::codec::ec {

// Bounds of the largest number of a token in history.
inline constexpr float kHistorySmallest = 0x1p-60f;
inline constexpr float kHistoryLargest = 0x1p60f;
inline constexpr float kHistorySteps = 127;

Kernels ref_kernels();
Kernels avx2_kernels();
Kernels avx512_kernels();
Kernels avx512_vnni_kernels();  // products of bytes in one instruction

void ref_read(SymbolReader* reader, const SymbolRows& rows, uint8_t* symbols);
void ref_write(SymbolWriter* writer, const SymbolRows& rows, const uint8_t* symbols);
// Of one component.
void ref_read_runs(SymbolReader* reader, const RansTable& table, uint32_t tokens, uint8_t* symbols);

}  // namespace quire::codec::ec
