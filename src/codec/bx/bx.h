// bx: bf16 pages without loss, exponents as a prefix code in planes; README.md beside this file.
//
// Pages of 16-bit words are what is coded; numbers become words, and words numbers, as in raw16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/isa.h"
#include "codec/codec.h"

namespace quire::codec::bx {

inline constexpr uint32_t kMaxSideNumbers = 32768;
inline constexpr uint32_t kRanks = 9;    // exponents that have a code of their own
inline constexpr uint32_t kWindow = 16;  // they lie in a window of so many
inline constexpr size_t kPageHeaderBytes = 16;
inline constexpr size_t kSideHeaderAt = 4;
inline constexpr size_t kSideHeaderBytes = 6;

// Room for any page whose sides have `side` numbers.
constexpr size_t page_bound(size_t side) {
    return (kPageHeaderBytes + 4 * side + kPageAlign - 1) / kPageAlign * kPageAlign;
}

// One side's header, unpacked.
struct SideHeader {
    uint8_t base = 0;             // the window's lowest exponent
    uint8_t window[kRanks] = {};  // exponent of a rank, less base; below 16
    bool raw = false;             // words as they are
};

// How many bytes of a page say something: the rest is zero and need not be kept. At most the bound.
size_t stored_bytes(const std::byte* page, size_t bound);

// A raw16 page of bf16, K then V with `side` numbers each, into a bx page of page_bound(side)
// bytes. REQUIRES: side is a multiple of 256 up to kMaxSideNumbers.
using Pack = void (*)(const uint16_t* words, size_t side, std::byte* page);
// And back. Any bytes unpack to something; a side whose planes do not fit into the page is zero.
using Unpack = void (*)(const std::byte* page, size_t side, uint16_t* words);

void ref_pack(const uint16_t* words, size_t side, std::byte* page);
void ref_unpack(const std::byte* page, size_t side, uint16_t* words);
void avx2_pack(const uint16_t* words, size_t side, std::byte* page);
void avx2_unpack(const std::byte* page, size_t side, uint16_t* words);
bool has_avx512_vbmi2();
void avx512_pack(const uint16_t* words, size_t side, std::byte* page);
void avx512_unpack(const std::byte* page, size_t side, uint16_t* words);

// One instruction set's. Slowest first; the first is the oracle.
struct Version {
    const char* name;
    Isa isa;
    bool (*cpu_has_it)();
    Pack pack;
    Unpack unpack;
};
std::span<const Version> versions();
// The fastest that this CPU has and that needs no more than `most`.
const Version& best_version(Isa most = Isa::avx512);

}  // namespace quire::codec::bx
