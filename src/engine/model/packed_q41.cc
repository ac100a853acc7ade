// A packed group is, per 32 inputs: 16 float16 steps d, 16 float16 minima m, then 256 bytes of
// nibbles: four vectors of 64 bytes, vector c holding byte 4c..4c+3 of each of the 16 rows'
// nibbles. ggml's low nibbles are inputs 0..15 of the block, the high ones 16..31.
//
// Compiled for every CPU; the functions below say themselves what they need (packed_q41_supported).
#include "engine/model/packed_q41.h"

#include <cstring>

#include <immintrin.h>

namespace quire {
namespace {

#define QUIRE_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,f16c,fma")))

constexpr size_t kBlockBytes = 20;  // ggml's Q4_1: d, m, 16 bytes of nibbles
constexpr size_t kGroupBlockBytes = kPackedOutputs * kBlockBytes;
constexpr int kVectors = 4;

// Where the parts of an activation row lie.
struct ActivationRow {
    const int8_t* values;
    const float* steps;
    const float* sums;
};

ActivationRow activation_row(const std::byte* row, int64_t n_in) {
    const auto* steps = reinterpret_cast<const float*>(row + n_in);
    return {reinterpret_cast<const int8_t*>(row), steps, steps + n_in / kPackedInputs};
}

// R rows times one group.
template <int R>
QUIRE_VNNI void multiply_rows(const std::byte* group, int64_t n_in, const std::byte* rows,
                              float* out, int64_t out_stride) {
    ActivationRow row[R];
    __m512 acc[R];
    for (int r = 0; r < R; ++r) {
        row[r] = activation_row(rows + static_cast<size_t>(r) * packed_row_bytes(n_in), n_in);
        acc[r] = _mm512_setzero_ps();
    }
    const __m512i low = _mm512_set1_epi8(0x0f);
    for (int64_t b = 0; b < n_in / kPackedInputs; ++b, group += kGroupBlockBytes) {
        const auto* halves = reinterpret_cast<const __m256i*>(group);
        const __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256(halves));
        const __m512 m = _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1));
        __m512i w[2 * kVectors];
        for (int c = 0; c < kVectors; ++c) {
            const __m512i raw = _mm512_loadu_si512(group + 64 + 64 * c);
            w[c] = _mm512_and_si512(raw, low);
            w[kVectors + c] = _mm512_and_si512(_mm512_srli_epi16(raw, 4), low);
        }
        for (int r = 0; r < R; ++r) {
            const auto* a = reinterpret_cast<const int32_t*>(row[r].values + b * kPackedInputs);
            __m512i sum = _mm512_setzero_si512();
            for (int c = 0; c < 2 * kVectors; ++c)
                sum = _mm512_dpbusd_epi32(sum, w[c], _mm512_set1_epi32(a[c]));
            const __m512 step = _mm512_mul_ps(d, _mm512_set1_ps(row[r].steps[b]));
            acc[r] = _mm512_fmadd_ps(step, _mm512_cvtepi32_ps(sum), acc[r]);
            acc[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(row[r].sums[b]), acc[r]);
        }
    }
    for (int r = 0; r < R; ++r) _mm512_storeu_ps(out + r * out_stride, acc[r]);
}

}  // namespace

bool packed_q41_supported() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

size_t packed_q41_bytes(int64_t n_in, int64_t n_out) {
    return static_cast<size_t>(n_out / kPackedOutputs * (n_in / kPackedInputs)) * kGroupBlockBytes;
}

void pack_q41(const void* weights, size_t row_bytes, int64_t n_in, int64_t n_out,
              std::byte* packed) {
    const auto* from = static_cast<const std::byte*>(weights);
    for (int64_t first = 0; first < n_out; first += kPackedOutputs) {
        for (int64_t b = 0; b < n_in / kPackedInputs; ++b, packed += kGroupBlockBytes) {
            for (int64_t i = 0; i < kPackedOutputs; ++i) {
                const std::byte* block = from + static_cast<size_t>(first + i) * row_bytes +
                                         static_cast<size_t>(b) * kBlockBytes;
                std::memcpy(packed + 2 * i, block, 2);
                std::memcpy(packed + 32 + 2 * i, block + 2, 2);
                for (int c = 0; c < kVectors; ++c)
                    std::memcpy(packed + 64 + 64 * c + 4 * i, block + 4 + 4 * c, 4);
            }
        }
    }
}

size_t packed_row_bytes(int64_t n_in) {
    return static_cast<size_t>(n_in + n_in / kPackedInputs * 2 * int64_t{sizeof(float)});
}

QUIRE_VNNI void quantise_packed_row(const float* in, int64_t n_in, std::byte* row) {
    auto* steps = reinterpret_cast<float*>(row + n_in);
    float* sums = steps + n_in / kPackedInputs;
    for (int64_t b = 0; b < n_in / kPackedInputs; ++b) {
        const __m512 x0 = _mm512_loadu_ps(in + b * kPackedInputs);
        const __m512 x1 = _mm512_loadu_ps(in + b * kPackedInputs + 16);
        const float largest =
            _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(x0), _mm512_abs_ps(x1)));
        const float step = largest / 127.0f;
        const __m512 inverse = _mm512_set1_ps(step > 0 ? 1.0f / step : 0.0f);
        const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse));
        const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
        auto* to = reinterpret_cast<__m128i*>(row + b * kPackedInputs);
        _mm_storeu_si128(to, _mm512_cvtsepi32_epi8(q0));
        _mm_storeu_si128(to + 1, _mm512_cvtsepi32_epi8(q1));
        steps[b] = step;
        sums[b] = step * static_cast<float>(_mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1)));
    }
}

void multiply_packed_q41(const std::byte* packed, int64_t group, int64_t n_in,
                         const std::byte* rows, int32_t n_rows, float* out, int64_t out_stride) {
    const std::byte* from =
        packed + static_cast<size_t>(group * (n_in / kPackedInputs)) * kGroupBlockBytes;
    const size_t row_bytes = packed_row_bytes(n_in);
    const auto take = [&](int32_t n) {
        rows += static_cast<size_t>(n) * row_bytes;
        out += n * out_stride;
        n_rows -= n;
    };
    for (; n_rows >= 8; take(8)) multiply_rows<8>(from, n_in, rows, out, out_stride);
    if (n_rows >= 4) {
        multiply_rows<4>(from, n_in, rows, out, out_stride);
        take(4);
    }
    if (n_rows >= 2) {
        multiply_rows<2>(from, n_in, rows, out, out_stride);
        take(2);
    }
    if (n_rows >= 1) multiply_rows<1>(from, n_in, rows, out, out_stride);
}

}  // namespace quire
