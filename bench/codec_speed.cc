#include "bench/codec_speed.h"

#include <cstring>
#include <random>

#include "base/arena.h"
#include "bench/stats.h"
#include "bench/thread_time.h"

namespace quire::bench {
namespace {

using codec::CodecSpec;
using codec::Geometry;
using codec::PageCodecOps;

constexpr size_t kRawBytes = size_t{16} << 20;  // several times a core's own caches
constexpr size_t kOracleShare = 64;             // the oracle is that much slower

// Pages side by side, and the numbers that go in and come out.
struct Buffers {
    Arena numbers, out, pages, raw, copy;
};

Result<Buffers> make_buffers(size_t float_bytes, size_t page_bytes, size_t raw_bytes) {
    Buffers b;
    const std::pair<Arena*, size_t> wanted[] = {{&b.numbers, float_bytes},
                                                {&b.out, float_bytes},
                                                {&b.pages, page_bytes},
                                                {&b.raw, raw_bytes},
                                                {&b.copy, raw_bytes}};
    for (const auto& [arena, bytes] : wanted) {
        auto made = Arena::create({.bytes = bytes, .what = "codec buffers", .prefault = true});
        if (!made.ok()) return made.error();
        *arena = std::move(made).value();
    }
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    auto* numbers = reinterpret_cast<float*>(b.numbers.data());
    for (size_t i = 0; i < float_bytes / sizeof(float); ++i) numbers[i] = normal(rng);
    std::memset(b.raw.data(), 1, raw_bytes);
    return b;
}

class Runner {
 public:
    Runner(const CodecSpec& spec, const Geometry& geometry, const PageCodecOps& ops, size_t pages,
           const Buffers& buffers)
        : spec_(spec), geometry_(geometry), ops_(ops), pages_(pages), buffers_(buffers) {}

    void encode() const {
        const auto* numbers = reinterpret_cast<const float*>(buffers_.numbers.data());
        for (size_t i = 0; i < pages_; ++i)
            ops_.encode({.spec = spec_,
                         .geometry = geometry_,
                         .k = numbers + 2 * i * side(),
                         .v = numbers + (2 * i + 1) * side(),
                         .k_stride = geometry_.head_dim,
                         .v_stride = geometry_.head_dim,
                         .last = geometry_.block_tokens,
                         .page = page(i)});
    }
    void decode() const {
        auto* out = reinterpret_cast<float*>(buffers_.out.data());
        for (size_t i = 0; i < pages_; ++i)
            ops_.decode({.spec = spec_,
                         .geometry = geometry_,
                         .page = page(i),
                         .original_space = false,
                         .k = out + 2 * i * side(),
                         .v = out + (2 * i + 1) * side(),
                         .k_stride = geometry_.head_dim,
                         .v_stride = geometry_.head_dim,
                         .last = geometry_.block_tokens});
    }
    void copy() const { std::memcpy(buffers_.copy.data(), buffers_.raw.data(), raw_bytes()); }
    size_t raw_bytes() const { return pages_ * side() * 2 * sizeof(uint16_t); }
    // A number, as encoded.
    double bits() const {
        double bytes = 0;
        for (size_t i = 0; i < pages_; ++i)
            bytes += static_cast<double>(codec::stored_bytes(spec_, geometry_, page(i)));
        return 8 * bytes / static_cast<double>(pages_ * 2 * side());
    }

 private:
    size_t side() const { return size_t{geometry_.head_dim} * geometry_.block_tokens; }
    std::byte* page(size_t i) const {
        return buffers_.pages.data() + i * codec::page_bytes(spec_, geometry_);
    }

    CodecSpec spec_;
    Geometry geometry_;
    const PageCodecOps& ops_;
    size_t pages_;
    const Buffers& buffers_;
};

}  // namespace

Result<CodecSpeed> measure_codec(const CodecSpec& spec, const PageCodecOps& ops,
                                 const CodecSpeedOptions& options) {
    const Geometry& g = options.geometry;
    QUIRE_TRY(codec::check_geometry(spec, g));
    const size_t numbers_of_page = size_t{2} * g.head_dim * g.block_tokens;
    size_t raw_bytes = options.quick ? kRawBytes / 8 : kRawBytes;
    const size_t copied = raw_bytes;  // always: a copy inside a cache would be another ceiling
    if (ops.isa == Isa::ref) raw_bytes /= kOracleShare;
    const size_t pages = std::max<size_t>(1, raw_bytes / (2 * numbers_of_page));
    const size_t copied_pages = std::max<size_t>(1, copied / (2 * numbers_of_page));
    auto buffers =
        make_buffers(pages * numbers_of_page * sizeof(float), pages * codec::page_bytes(spec, g),
                     copied_pages * numbers_of_page * 2);
    if (!buffers.ok()) return buffers.error();
    const Runner runner(spec, g, ops, pages, *buffers);
    const Runner copier(spec, g, ops, copied_pages, *buffers);
    runner.encode();  // first touches
    runner.decode();
    copier.copy();

    std::vector<double> copy, encode, decode;
    for (uint32_t i = 0; i < options.repeats; ++i) {
        const auto rate = [](size_t bytes, double seconds) {
            return static_cast<double>(bytes) / seconds;
        };
        copy.push_back(rate(copier.raw_bytes(), seconds_of([&] { copier.copy(); })));
        encode.push_back(rate(runner.raw_bytes(), seconds_of([&] { runner.encode(); })));
        decode.push_back(rate(runner.raw_bytes(), seconds_of([&] { runner.decode(); })));
    }
    return CodecSpeed{.codec = codec::codec_name(spec),
                      .isa = ops.name,
                      .bits_per_element = runner.bits(),
                      .copy = median(copy),
                      .encode = median(encode),
                      .decode = median(decode),
                      .encode_share = median_ratio(encode, copy),
                      .decode_share = median_ratio(decode, copy)};
}

Result<std::vector<CodecSpeed>> measure_codec_isas(const CodecSpec& spec,
                                                   const CodecSpeedOptions& options) {
    std::vector<CodecSpeed> all;
    for (const PageCodecOps& ops : codec::row_of(spec).ops()) {
        if (!ops.cpu_has_it()) continue;
        auto one = measure_codec(spec, ops, options);
        if (!one.ok()) return one.error();
        all.push_back(std::move(one).value());
    }
    return all;
}

}  // namespace quire::bench
