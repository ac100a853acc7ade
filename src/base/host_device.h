// For what CUDA kernels are compiled from too; where no CUDA compiler reads the file, nothing.
//
// QUIRE_HOST_DEVICE: a function that kernels call. QUIRE_TABLE: a constant at namespace scope that
// kernels read by an index; host code in the same .cu file may use it in constant expressions only.
// QUIRE_UNROLL(n): before a loop of at most n rounds.
#pragma once

#if defined(__CUDACC__)
#define QUIRE_HOST_DEVICE __host__ __device__
#define QUIRE_TABLE static __device__ constexpr
#define QUIRE_UNROLL(n) _Pragma("unroll")
#else
#define QUIRE_HOST_DEVICE
#define QUIRE_TABLE inline constexpr
#define QUIRE_UNROLL_TEXT(text) _Pragma(#text)
#define QUIRE_UNROLL(n) QUIRE_UNROLL_TEXT(GCC unroll n)
#endif
