#include "bench/bx_speed.h"

#include <cmath>
#include <cstring>
#include <random>

#include <zstd.h>

#include "base/arena.h"
#include "base/isa.h"
#include "bench/stats.h"
#include "bench/thread_time.h"
#include "codec/bx/bx.h"
#include "core/half.h"

namespace quire::bench {
namespace {

constexpr size_t kRawBytes = size_t{16} << 20;
constexpr size_t kZstdPiece = size_t{1} << 20;
constexpr uint32_t kTokens = 16;
constexpr int kLevel = 1;

struct Buffers {
    Arena words, pages, back, compressed;
    std::vector<size_t> pieces;  // sizes of zstd's frames
};

Result<Buffers> make_buffers(size_t pages, size_t side) {
    Buffers b;
    const size_t raw = pages * 4 * side;
    const size_t frames = (raw + kZstdPiece - 1) / kZstdPiece;
    const std::pair<Arena*, size_t> wanted[] = {
        {&b.words, raw},
        {&b.pages, pages * codec::bx::page_bound(side)},
        {&b.back, raw},
        {&b.compressed, frames * ZSTD_compressBound(kZstdPiece)}};
    for (const auto& [arena, bytes] : wanted) {
        auto made = Arena::create({.bytes = bytes, .what = "codec buffers", .prefault = true});
        if (!made.ok()) return made.error();
        *arena = std::move(made).value();
    }
    return b;
}

void fill(size_t pages, size_t side, uint32_t head_dim, uint16_t* words) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    std::vector<float> deviations;
    for (uint32_t d = 0; d < 2 * head_dim; ++d) deviations.push_back(std::exp(0.6f * normal(rng)));
    for (size_t p = 0; p < pages; ++p)
        for (size_t i = 0; i < 2 * side; ++i) {
            // K is dim-major, V token-major.
            const size_t dim = i < side ? i / kTokens : head_dim + (i - side) % head_dim;
            *words++ = from_f32(Element::bf16, deviations[dim] * normal(rng));
        }
}

class Runner {
 public:
    Runner(size_t pages, size_t side, const codec::bx::Version& version, Buffers* b)
        : pages_(pages), side_(side), b_(*b), version_(version) {}

    size_t raw_bytes() const { return pages_ * 4 * side_; }
    void pack() const {
        for (size_t p = 0; p < pages_; ++p) version_.pack(words() + p * 2 * side_, side_, page(p));
    }
    void unpack() const {
        for (size_t p = 0; p < pages_; ++p) version_.unpack(page(p), side_, back() + p * 2 * side_);
    }
    void compress() {
        b_.pieces.clear();
        for (size_t at = 0, i = 0; at < raw_bytes(); at += kZstdPiece, ++i)
            b_.pieces.push_back(ZSTD_compress(frame(i), ZSTD_compressBound(kZstdPiece),
                                              b_.words.data() + at, piece(at), kLevel));
    }
    void decompress() const {
        for (size_t at = 0, i = 0; at < raw_bytes(); at += kZstdPiece, ++i)
            ZSTD_decompress(b_.back.data() + at, piece(at), frame(i), b_.pieces[i]);
    }
    // Bytes that both wrote, for the last of each; 0: something did not come back.
    double packed_bytes() const {
        double bytes = 0;
        for (size_t p = 0; p < pages_; ++p)
            bytes +=
                static_cast<double>(codec::bx::stored_bytes(page(p), codec::bx::page_bound(side_)));
        return same() ? bytes : 0;
    }
    double compressed_bytes() const {
        double bytes = 0;
        for (const size_t piece : b_.pieces) {
            if (ZSTD_isError(piece) != 0) return 0;
            bytes += static_cast<double>(piece);
        }
        return same() ? bytes : 0;
    }

 private:
    bool same() const { return std::memcmp(b_.words.data(), b_.back.data(), raw_bytes()) == 0; }
    const uint16_t* words() const { return reinterpret_cast<const uint16_t*>(b_.words.data()); }
    uint16_t* back() const { return reinterpret_cast<uint16_t*>(b_.back.data()); }
    std::byte* page(size_t p) const { return b_.pages.data() + p * codec::bx::page_bound(side_); }
    std::byte* frame(size_t i) const {
        return b_.compressed.data() + i * ZSTD_compressBound(kZstdPiece);
    }
    size_t piece(size_t at) const { return std::min(kZstdPiece, raw_bytes() - at); }

    size_t pages_, side_;
    Buffers& b_;
    const codec::bx::Version& version_;
};

}  // namespace

Result<BxSpeed> measure_bx(const BxSpeedOptions& options) {
    const size_t side = size_t{options.head_dim} * kTokens;
    const size_t pages = (options.quick ? kRawBytes / 8 : kRawBytes) / (4 * side);
    auto buffers = make_buffers(pages, side);
    if (!buffers.ok()) return buffers.error();
    fill(pages, side, options.head_dim, reinterpret_cast<uint16_t*>(buffers->words.data()));
    const codec::bx::Version& version = codec::bx::best_version(options.isa);
    Runner runner(pages, side, version, &*buffers);
    const auto raw = static_cast<double>(runner.raw_bytes());
    const double bits_of_all = 8 * 2 / raw;  // times bytes: bits a number
    BxSpeed speed{.isa = version.name};
    std::vector<double> pack, unpack, compress, decompress;
    for (uint32_t i = 0; i <= options.repeats; ++i) {
        const double packing = seconds_of([&] { runner.pack(); });
        const double unpacking = seconds_of([&] { runner.unpack(); });
        speed.bx.bits = runner.packed_bytes() * bits_of_all;
        std::memset(buffers->back.data(), 0, runner.raw_bytes());
        const double compressing = seconds_of([&] { runner.compress(); });
        const double decompressing = seconds_of([&] { runner.decompress(); });
        speed.zstd.bits = runner.compressed_bytes() * bits_of_all;
        if (speed.bx.bits == 0 || speed.zstd.bits == 0)
            return make_error(Code::bug, "a lossless codec did not bring its words back");
        if (i == 0) continue;  // first touches
        pack.push_back(raw / packing);
        unpack.push_back(raw / unpacking);
        compress.push_back(raw / compressing);
        decompress.push_back(raw / decompressing);
    }
    speed.bx.pack = median(pack);
    speed.bx.unpack = median(unpack);
    speed.zstd.pack = median(compress);
    speed.zstd.unpack = median(decompress);
    speed.pack_ratio = median_ratio(pack, compress);
    speed.unpack_ratio = median_ratio(unpack, decompress);
    return speed;
}

}  // namespace quire::bench
