// Encoding into pages: what it reads and writes over what a copy in device memory does.
#include <numeric>

#include <cuda_bf16.h>

#include "codec/hot/layout.h"
#include "device_data.h"
#include "kernels/cuda/encode.h"
#include "kernels/cuda/encode_floats.h"
#include "kernels/cuda/encode_to_host.h"

namespace quire::gpu_bench {
namespace {

using kernels::cuda::EncodeParams;
using kernels::cuda::Numbers;

// Noise becomes normal numbers in bf16.
__global__ void normal_kernel(uint32_t* words, size_t n) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n;
         i += size_t{gridDim.x} * blockDim.x) {
        const auto word =
            static_cast<uint32_t>((i * 2 + 1) * 0x9e3779b97f4a7c15ull >> 29) ^ words[i];
        const float radius = sqrtf(-2.0f * logf((static_cast<float>(word >> 16) + 1) * 0x1p-16f));
        const float angle = static_cast<float>(word & 0xffff) * (6.2831853f / 65536.0f);
        const __nv_bfloat162 pair =
            __floats2bfloat162_rn(radius * sinf(angle), radius * cosf(angle));
        words[i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
}

void make_normal(const DeviceBuffer& buffer) {
    normal_kernel<<<1024, 256>>>(buffer.as<uint32_t>(), buffer.bytes() / 4);
    check(cudaGetLastError(), "normal numbers");
}

constexpr int32_t kTokens = 1 << 17, kHeads = 8, kHeadDim = 128, kBlockTokens = 64;

// K and V of some tokens, and a place for their pages.
struct Work {
    Work(int32_t tokens, int k_bits, int v_bits)
        : numbers(size_t{2} * tokens * kHeads * kHeadDim),
          k(numbers),
          v(numbers),
          slots(in_order(tokens)),
          page(codec::hot::page_bytes({k_bits, v_bits, kHeadDim, kBlockTokens})),
          pages(page * kHeads * (tokens / kBlockTokens)) {
        make_normal(k), make_normal(v);
        p.k = {.rows = k.as(),
               .token_stride = kHeads * kHeadDim,
               .head_stride = kHeadDim,
               .bits = k_bits};
        p.v = p.k;
        p.v.rows = v.as();
        p.v.bits = v_bits;
        p.element = Numbers::bf16;
        p.n_tokens = tokens;
        p.kv_heads = kHeads;
        p.head_dim = kHeadDim;
        p.block_tokens = kBlockTokens;
        p.slots = slots.as<int64_t>();
        p.pages = pages.as();
        p.n_blocks = tokens / kBlockTokens;
        p.head_stride = static_cast<int64_t>(page);
        p.block_stride = p.head_stride * kHeads;
    }
    static std::vector<int64_t> in_order(int32_t tokens) {
        std::vector<int64_t> slots(static_cast<size_t>(tokens));
        std::iota(slots.begin(), slots.end(), 0);
        return slots;
    }
    size_t numbers;  // of K and V
    DeviceBuffer k, v, slots;
    size_t page;
    DeviceBuffer pages;
    EncodeParams p;
};

std::string name_of(int k_bits, int v_bits) {
    return "k" + std::to_string(k_bits) + "v" + std::to_string(v_bits);
}

Row measure(const Machine& machine, int k_bits, int v_bits, double bar) {
    const Work work(kTokens, k_bits, v_bits);
    const double s = seconds([&] { check(kernels::cuda::encode(work.p, nullptr), "encode"); });
    const double bytes =
        2.0 * static_cast<double>(work.numbers) + static_cast<double>(work.pages.bytes());
    return {.what = "encode 128k tokens of 8 heads of 128 as " + name_of(k_bits, v_bits),
            .unit = "TB/s",
            .measured = bytes / s * 1e-12,
            .reference = machine.copy_bytes_per_s * 1e-12,
            .bar = bar};
}

class PinnedBuffer {
 public:
    explicit PinnedBuffer(size_t bytes) { check(cudaMallocHost(&data_, bytes), "pinned memory"); }
    ~PinnedBuffer() { cudaFreeHost(data_); }
    PinnedBuffer(const PinnedBuffer&) = delete;
    PinnedBuffer& operator=(const PinnedBuffer&) = delete;
    std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
    void* data_ = nullptr;
};

// To pinned memory, in raw bytes a second: by chunks behind which a copy engine follows, or by
// kernels that write there themselves.
Row measure_to_host(int k_bits, int v_bits, bool by_chunks, double bar) {
    const Work work(1 << 15, k_bits, v_bits);
    const double raw_bytes = 2.0 * static_cast<double>(work.numbers);
    const PinnedBuffer raw(2 * work.numbers);
    const double plain = seconds([&] {
        for (const DeviceBuffer* side : {&work.k, &work.v})
            check(cudaMemcpyAsync(raw.data(), side->as(), side->bytes(), cudaMemcpyDeviceToHost,
                                  nullptr),
                  "copy");
    });
    kernels::cuda::EncodeToHostParams p;
    p.encode = work.p;
    p.chunk_blocks = 32;
    p.host_pages = raw.data();
    kernels::cuda::CopyQueue copies;
    check(cudaStreamCreateWithFlags(&copies.stream, cudaStreamNonBlocking), "stream");
    check(cudaEventCreate(&copies.encoded), "event");
    check(cudaEventCreate(&copies.copied), "event");
    EncodeParams direct = work.p;
    direct.pages = raw.data();
    const double s = seconds([&] {
        check(by_chunks ? kernels::cuda::encode_to_host(p, nullptr, copies)
                        : kernels::cuda::encode(direct, nullptr),
              "encode to host");
    });
    check(cudaEventDestroy(copies.encoded), "event");
    check(cudaEventDestroy(copies.copied), "event");
    check(cudaStreamDestroy(copies.stream), "stream");
    return {.what = std::string("encode to pinned memory ") +
                    (by_chunks ? "by chunks, " : "directly, ") + name_of(k_bits, v_bits),
            .unit = "GB/s",
            .measured = raw_bytes / s * 1e-9,
            .reference = raw_bytes / plain * 1e-9,
            .bar = bar};
}

Row measure_floats(const Machine& machine, const char* name, kernels::cuda::PageFloats pages_hold,
                   codec::fp8::Scaling scaling, double bar) {
    kernels::cuda::EncodeFloatsParams p;
    const size_t numbers = size_t{kTokens} * kHeads * kHeadDim;
    const DeviceBuffer k(numbers * 2), v(numbers * 2);
    make_normal(k), make_normal(v);
    std::vector<int64_t> in_order(kTokens);
    std::iota(in_order.begin(), in_order.end(), 0);
    const DeviceBuffer slots(in_order);
    const DeviceBuffer scales(std::vector<float>(kHeads, 0.01f));
    const bool is_fp8 = pages_hold <= kernels::cuda::PageFloats::e5m2;
    const bool own_scales = scaling == codec::fp8::Scaling::token;
    const size_t page = size_t{2} * kHeadDim * kBlockTokens * (is_fp8 ? 1 : 2) +
                        (own_scales ? 4 * kBlockTokens : 0);
    const DeviceBuffer pages(page * kHeads * (kTokens / kBlockTokens));
    p.k = {.rows = k.as(),
           .token_stride = kHeads * kHeadDim,
           .head_stride = kHeadDim,
           .scales = scales.as<float>()};
    p.v = p.k;
    p.v.rows = v.as();
    p.pages_hold = pages_hold;
    p.scaling = scaling;
    p.n_tokens = kTokens;
    p.kv_heads = kHeads;
    p.head_dim = kHeadDim;
    p.block_tokens = kBlockTokens;
    p.slots = slots.as<int64_t>();
    p.pages = pages.as();
    p.n_blocks = kTokens / kBlockTokens;
    p.head_stride = static_cast<int64_t>(page);
    p.block_stride = p.head_stride * kHeads;
    const double s = seconds([&] { check(kernels::cuda::encode_floats(p, nullptr), name); });
    const double bytes = 4.0 * static_cast<double>(numbers) + static_cast<double>(pages.bytes());
    return {.what = std::string("encode 128k tokens of 8 heads of 128 as ") + name,
            .unit = "TB/s",
            .measured = bytes / s * 1e-12,
            .reference = machine.copy_bytes_per_s * 1e-12,
            .bar = bar};
}

}  // namespace

std::vector<Row> encode_rows(const Machine& machine) {
    using codec::fp8::Scaling;
    using kernels::cuda::PageFloats;
    return {measure(machine, 8, 8, 0.8),
            measure(machine, 6, 4, 0.7),
            measure(machine, 4, 4, 0.7),
            measure(machine, 4, 3, 0.7),
            measure(machine, 3, 2, 0.7),
            measure_floats(machine, "fp8_e4m3_head", PageFloats::e4m3, Scaling::head, 0.8),
            measure_floats(machine, "fp8_e4m3_token", PageFloats::e4m3, Scaling::token, 0.8),
            measure_floats(machine, "raw16", PageFloats::bf16, Scaling::one, 0),
            measure_to_host(8, 8, true, 1.9),
            measure_to_host(4, 4, true, 3.4),
            measure_to_host(8, 8, false, 0),
            measure_to_host(4, 4, false, 0)};
}

}  // namespace quire::gpu_bench
