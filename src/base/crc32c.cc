#include "base/crc32c.h"

#include <cstring>

#include "base/check.h"
#include "base/crc32c_poly.h"
#include "base/hash.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace quire {
namespace crc32c_detail {
namespace {

constexpr auto kSlicing = slicing_tables();

uint64_t load64(const std::byte* p) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

}  // namespace

uint32_t portable(std::span<const std::byte> bytes, uint32_t crc) {
    const std::byte* p = bytes.data();
    size_t n = bytes.size();
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        const uint64_t word = load64(p) ^ crc;
        crc = 0;
        for (int byte = 0; byte < 8; ++byte) crc ^= kSlicing[7 - byte][(word >> (8 * byte)) & 255];
    }
    for (; n > 0; ++p, --n)
        crc = (crc >> 8) ^ kSlicing[0][(crc ^ std::to_integer<uint32_t>(*p)) & 255];
    return ~crc;
}

#if defined(__x86_64__)

namespace {

// The instruction takes three cycles and starts one each cycle, so three streams keep it busy.
constexpr size_t kLongBytes = 4096;
constexpr size_t kShortBytes = 256;
constexpr ZerosTable kLongZeros(kLongBytes);
constexpr ZerosTable kShortZeros(kShortBytes);

// Consumes 3 * kStream bytes at a time from p; returns the register.
template <size_t kStream>
__attribute__((target("sse4.2"))) uint64_t three_streams(const std::byte*& p, size_t& n,
                                                         uint64_t crc, const ZerosTable& zeros) {
    for (; n >= 3 * kStream; n -= 3 * kStream) {
        uint64_t second = 0;
        uint64_t third = 0;
        for (const std::byte* end = p + kStream; p < end; p += 8) {
            crc = _mm_crc32_u64(crc, load64(p));
            second = _mm_crc32_u64(second, load64(p + kStream));
            third = _mm_crc32_u64(third, load64(p + 2 * kStream));
        }
        crc = zeros.apply(static_cast<uint32_t>(crc)) ^ second;
        crc = zeros.apply(static_cast<uint32_t>(crc)) ^ third;
        p += 2 * kStream;
    }
    return crc;
}

}  // namespace

bool hardware_supported() {
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) uint32_t hardware(std::span<const std::byte> bytes,
                                                    uint32_t crc32) {
    const std::byte* p = bytes.data();
    size_t n = bytes.size();
    uint64_t crc = static_cast<uint32_t>(~crc32);
    crc = three_streams<kLongBytes>(p, n, crc, kLongZeros);
    crc = three_streams<kShortBytes>(p, n, crc, kShortZeros);
    for (; n >= 8; p += 8, n -= 8) crc = _mm_crc32_u64(crc, load64(p));
    for (; n > 0; ++p, --n)
        crc = _mm_crc32_u8(static_cast<uint32_t>(crc), std::to_integer<uint8_t>(*p));
    return ~static_cast<uint32_t>(crc);
}

#else

bool hardware_supported() {
    return false;
}

uint32_t hardware(std::span<const std::byte>, uint32_t) {
    QUIRE_CHECK(false, "no CRC32 instruction on this machine");
}

#endif

}  // namespace crc32c_detail

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
    static const bool hardware = crc32c_detail::hardware_supported();
    return hardware ? crc32c_detail::hardware(bytes, crc) : crc32c_detail::portable(bytes, crc);
}

}  // namespace quire
