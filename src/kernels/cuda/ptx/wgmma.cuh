// Matrix products of a warpgroup: four warps, the first of which has a number divisible by 4.
// A has 64 rows, of which warp w has 16 from 16w on; there its registers are those of mma.cuh's
// m16n8k16. c[4j..4j + 3] are C of the columns 8j to 8j + 7, as there.
//
// Operands in shared memory are tiles of 64 x 64 16-bit numbers: rows of 128 bytes, their 16-byte
// chunks swapped as the copies' 128-byte swizzle does (chunk ^ row % 8), aligned to 1024 bytes. Or
// narrow tiles of some eights of rows of 64 bytes (chunk ^ row / 2 % 4), aligned to 512 bytes.
//
// Products are queued: between wgmma_fence() and wgmma_wait<0>() nobody touches c, and registers
// that are operands stay as they are. All 128 threads call.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/bulk.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kTileBytes = 64 * 128;

// After ordinary writes of registers that products will use.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// What was queued since the last one is a group.
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kGroups groups are unfinished.
template <int kGroups>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kGroups) : "memory");
}
// Keeps the compiler from moving ordinary uses of c across the call.
template <int kNumbers>
__device__ __forceinline__ void pin(float (&c)[kNumbers]) {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) asm volatile("" : "+f"(c[i])::"memory");
}

// A tile whose rows are rows of A, or columns of B; k runs along a row. The next 16 k: + kNextK.
__device__ __forceinline__ uint64_t tile_by_rows(const void* tile) {
    return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 16 |
           (shared_address(tile) >> 4 & 0x3fff);
}
inline constexpr uint64_t kNextK = 32 >> 4;
// B of tiles that follow each other: columns run along a row and go on in the next tile, k from
// row to row. The next 16 k: + kNextRows.
__device__ __forceinline__ uint64_t tiles_by_columns(uint32_t address) {
    return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | uint64_t{kTileBytes >> 4} << 16 |
           (address >> 4 & 0x3fff);
}
__device__ __forceinline__ uint64_t tiles_by_columns(const void* tile) {
    return tiles_by_columns(shared_address(tile));
}
inline constexpr uint64_t kNextRows = 2048 >> 4;
// A narrow tile by rows, whose k are 32; + kNextK too. By its address.
__device__ __forceinline__ uint64_t narrow_tile_by_rows(uint32_t address) {
    return uint64_t{2} << 62 | uint64_t{512 >> 4} << 32 | uint64_t{1} << 16 |
           (address >> 4 & 0x3fff);
}

#define QUIRE_C8(c, i)                                                                          \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
        "+f"(c[i + 6]), "+f"(c[i + 7])
#define QUIRE_C32(c, i) QUIRE_C8(c, i), QUIRE_C8(c, i + 8), QUIRE_C8(c, i + 16), QUIRE_C8(c, i + 24)
#define QUIRE_C128(c) QUIRE_C32(c, 0), QUIRE_C32(c, 32), QUIRE_C32(c, 64), QUIRE_C32(c, 96)
#define QUIRE_TEXT16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define QUIRE_TEXT32                                                                             \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24," \
    "%25,%26,%27,%28,%29,%30,%31"
#define QUIRE_TEXT128                                                                          \
    QUIRE_TEXT32                                                                               \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,"                \
    "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71," \
    "%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93," \
    "%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%"    \
    "112,"                                                                                     \
    "%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// Of which numbers products are, and how the second operand lies.
template <bool kBf16_, bool kColumns_>
struct WgmmaKind {
    static constexpr bool kBf16 = kBf16_, kColumns = kColumns_;
};

// c (64 x 64, or 64 x 32) = a x b, or c += a x b: a by rows.
template <class Kind>
__device__ __forceinline__ void wgmma_64(float (&c)[32], uint64_t a, uint64_t b, bool adds) {
    if constexpr (Kind::kBf16)
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %34, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" QUIRE_TEXT32
            "}, %32, %33, "
            "adds, 1, 1, 0, %35;\n"
            "}"
            : QUIRE_C32(c, 0)
            : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(static_cast<int>(Kind::kColumns)));
    else
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %34, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" QUIRE_TEXT32
            "}, %32, %33, "
            "adds, 1, 1, 0, %35;\n"
            "}"
            : QUIRE_C32(c, 0)
            : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(static_cast<int>(Kind::kColumns)));
}
template <class Kind>
__device__ __forceinline__ void wgmma_32(float (&c)[16], uint64_t a, uint64_t b, bool adds) {
    if constexpr (Kind::kBf16)
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %18, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" QUIRE_TEXT16
            "}, %16, %17, "
            "adds, 1, 1, 0, %19;\n"
            "}"
            : QUIRE_C8(c, 0), QUIRE_C8(c, 8)
            : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(static_cast<int>(Kind::kColumns)));
    else
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %18, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" QUIRE_TEXT16
            "}, %16, %17, "
            "adds, 1, 1, 0, %19;\n"
            "}"
            : QUIRE_C8(c, 0), QUIRE_C8(c, 8)
            : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(static_cast<int>(Kind::kColumns)));
}
// The same: a from registers.
template <class Kind>
__device__ __forceinline__ void wgmma_64(float (&c)[32], const uint32_t (&a)[4], uint64_t b,
                                         bool adds = true) {
    if constexpr (Kind::kBf16)
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %37, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" QUIRE_TEXT32
            "}, {%32,%33,%34,%35}, %36, adds, 1, 1, %38;\n"
            "}"
            : QUIRE_C32(c, 0)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)),
              "n"(static_cast<int>(Kind::kColumns)));
    else
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %37, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" QUIRE_TEXT32
            "}, {%32,%33,%34,%35}, %36, adds, 1, 1, %38;\n"
            "}"
            : QUIRE_C32(c, 0)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)),
              "n"(static_cast<int>(Kind::kColumns)));
}
template <class Kind>
__device__ __forceinline__ void wgmma_32(float (&c)[16], const uint32_t (&a)[4], uint64_t b,
                                         bool adds = true) {
    if constexpr (Kind::kBf16)
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %21, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" QUIRE_TEXT16
            "}, {%16,%17,%18,%19}, %20, adds, 1, 1, %22;\n"
            "}"
            : QUIRE_C8(c, 0), QUIRE_C8(c, 8)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)),
              "n"(static_cast<int>(Kind::kColumns)));
    else
        asm volatile(
            "{\n"
            ".reg .pred adds;\n"
            "setp.ne.b32 adds, %21, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" QUIRE_TEXT16
            "}, {%16,%17,%18,%19}, %20, adds, 1, 1, %22;\n"
            "}"
            : QUIRE_C8(c, 0), QUIRE_C8(c, 8)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)),
              "n"(static_cast<int>(Kind::kColumns)));
}

// c (64 x 64) = a x b, or c += a x b: bf16, both tiles by rows.
__device__ __forceinline__ void wgmma_64(float (&c)[32], uint64_t a, uint64_t b, bool adds) {
    wgmma_64<WgmmaKind<true, false>>(c, a, b, adds);
}

// c (64 x 256) += a x b: bf16, a from registers or a tile by rows, b four tiles by columns.
__device__ __forceinline__ void wgmma_256(float (&c)[128], const uint32_t* a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" QUIRE_TEXT128
                 "}, {%128,%129,%130,%131}, %132, 1, 1, 1, 1;\n"
                 : QUIRE_C128(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void wgmma_256(float (&c)[128], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" QUIRE_TEXT128
                 "}, %128, %129, 1, 1, 1, 0, 1;\n"
                 : QUIRE_C128(c)
                 : "l"(a), "l"(b));
}

#undef QUIRE_TEXT128
#undef QUIRE_TEXT32
#undef QUIRE_TEXT16
#undef QUIRE_C128
#undef QUIRE_C32
#undef QUIRE_C8

}  // namespace quire::kernels::cuda
