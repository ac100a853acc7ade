// The constants of attention's arithmetic, shared by the oracle and every ISA.
//
// Scores live in the base-2 domain: the query is multiplied once by scale * log2(e), so that a
// probability is exp2(score - max). With a soft cap the query is multiplied by scale / softcap, and
// the score becomes tanh(score) * (softcap * log2(e)).
#pragma once

#include <cstdint>

namespace quire::kernels {

inline constexpr float kLog2e = 1.44269504088896340736f;

// exp2(x) for x <= 0: n = round-to-even(x), f = x - n in [-1/2, 1/2], polynomial in f (minimax of
// the relative error with exp2(0) == 1 exactly; 1.6e-7), then n is added to the exponent. Below the
// floor the result is exactly 0, so a masked key (score -inf) weighs nothing and nothing is ever
// subnormal.
inline constexpr float kExp2C1 = 0x1.62e42ap-1f;
inline constexpr float kExp2C2 = 0x1.ebf9c0p-3f;
inline constexpr float kExp2C3 = 0x1.c6b750p-5f;
inline constexpr float kExp2C4 = 0x1.3cea88p-7f;
inline constexpr float kExp2C5 = 0x1.5bba12p-10f;
inline constexpr float kExp2Floor = -100.0f;

// tanh(x) = sign(x) * (1 - t) / (1 + t) with t = exp2(|x| * kTanhScale).
inline constexpr float kTanhScale = -2.0f * kLog2e;

}  // namespace quire::kernels
