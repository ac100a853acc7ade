// Any bytes as a page of any codec, and any numbers into one: every instruction set does what the
// oracle does, and nothing outside the page or the rows is touched. Descriptions of any bytes are
// codecs of this build or misses.
//
// The first eight bytes: member (two), head_dim, tokens of the block, first and last token, flags,
// nothing; what follows fills the page, and is the numbers, as often as it takes.
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "codec/codec_table.h"
#include "codec/description.h"

namespace {

using namespace quire::codec;

constexpr uint32_t kHeadDims[] = {64, 80, 96, 128, 16, 32, 48, 256};
constexpr float kUntouched = -12345.5f;

struct alignas(kPageAlign) Piece {
    std::byte bytes[kPageAlign];
};

// As many bytes as asked for and not one more, so that an overrun is found.
class Exact {
 public:
    explicit Exact(size_t bytes) : pieces_(bytes / kPageAlign) {
        QUIRE_CHECK(bytes % kPageAlign == 0, "a page that is no multiple of its alignment");
    }
    std::byte* data() { return pieces_.data()->bytes; }
    bool operator==(const Exact& other) const {
        return std::memcmp(pieces_.data(), other.pieces_.data(), pieces_.size() * sizeof(Piece)) ==
               0;
    }

 private:
    std::vector<Piece> pieces_;
};

void fill(std::span<const std::byte> from, void* to, size_t bytes) {
    auto* out = static_cast<std::byte*>(to);
    for (size_t i = 0; i < bytes; ++i) out[i] = from.empty() ? std::byte{0} : from[i % from.size()];
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i)
        if (!(std::isnan(a[i]) && std::isnan(b[i])) && std::memcmp(&a[i], &b[i], 4) != 0)
            return false;
    return true;
}

struct Job {
    CodecSpec spec;
    Geometry geometry;
    HeadSidecar sidecar;
    uint32_t first = 0, last = 0;
    bool original_space = false, no_k = false, no_v = false;
};

std::vector<float> decoded(const Job& job, const PageCodecOps& ops, std::byte* page) {
    const size_t numbers = size_t{job.geometry.block_tokens} * job.geometry.head_dim;
    std::vector<float> out(2 * numbers, kUntouched);
    ops.decode({.spec = job.spec,
                .geometry = job.geometry,
                .sidecar = job.sidecar,
                .page = page,
                .original_space = job.original_space,
                .k = job.no_k ? nullptr : out.data(),
                .v = job.no_v ? nullptr : out.data() + numbers,
                .k_stride = job.geometry.head_dim,
                .v_stride = job.geometry.head_dim,
                .first = job.first,
                .last = job.last});
    return out;
}

uint32_t encoded(const Job& job, const PageCodecOps& ops, const std::vector<float>& rows,
                 std::byte* page) {
    return ops.encode({.spec = job.spec,
                       .geometry = job.geometry,
                       .sidecar = job.sidecar,
                       .k = job.no_k ? nullptr : rows.data(),
                       .v = job.no_v ? nullptr : rows.data() + rows.size() / 2,
                       .k_stride = job.geometry.head_dim,
                       .v_stride = job.geometry.head_dim,
                       .first = job.first,
                       .last = job.last,
                       .page = page});
}

void run(const Job& job, std::span<const std::byte> rest) {
    const CodecRow& row = row_of(job.spec);
    const size_t bytes = page_bytes(job.spec, job.geometry);
    Exact page(bytes), expected(bytes);
    fill(rest, page.data(), bytes);
    fill(rest, expected.data(), bytes);
    const std::vector<float> numbers = decoded(job, row.ops()[0], page.data());
    QUIRE_CHECK(page == expected, "decoding changed the page");
    std::vector<float> rows(numbers.size());
    fill(rest, rows.data(), rows.size() * sizeof(float));
    const uint32_t not_finite = encoded(job, row.ops()[0], rows, expected.data());
    for (const PageCodecOps& ops : row.ops()) {
        if (!ops.cpu_has_it()) continue;
        Exact again(bytes);
        fill(rest, again.data(), bytes);
        QUIRE_CHECK(same(decoded(job, ops, again.data()), numbers), "decodes differ");
        QUIRE_CHECK(encoded(job, ops, rows, again.data()) == not_finite, "counts differ");
        QUIRE_CHECK(again == expected, "pages differ");
    }
}

// Any matrix, and an order of dimensions.
class Map {
 public:
    Map(uint32_t n, std::span<const std::byte> rest) : matrix_(size_t{n} * n), order_(n) {
        fill(rest, matrix_.data(), matrix_.size() * sizeof(float));
        for (uint32_t d = 0; d < n; ++d) order_[d] = static_cast<uint16_t>(n - 1 - d);
    }
    RowMap get() const { return {matrix_.data(), matrix_.data(), order_.data()}; }

 private:
    std::vector<float> matrix_;
    std::vector<uint16_t> order_;
};

void describe_any(std::span<const std::byte> rest) {
    PageDescription found;
    fill(rest, &found, sizeof(found));
    const auto spec = codec_of(found);
    if (!spec.ok()) return;
    QUIRE_CHECK(describe(*spec, geometry_of(found), found.sidecar) == found,
                "a description that is not its codec's");
}

std::vector<CodecSpec> all_members() {
    std::vector<CodecSpec> all;
    for (const CodecRow& row : codec_table())
        all.insert(all.end(), row.specs().begin(), row.specs().end());
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::vector<CodecSpec> kMembers = all_members();
    if (size < 8) return 0;
    const std::span rest = std::as_bytes(std::span(data, size)).subspan(8);
    describe_any(rest);
    Job job{.spec = kMembers[(data[0] | data[1] << 8) % kMembers.size()]};
    job.geometry = {.head_dim = kHeadDims[data[2] % std::size(kHeadDims)],
                    .block_tokens = data[3] % 4 == 0 ? 32u : 16u,
                    .element = (data[6] & 8) != 0 ? quire::Element::bf16 : quire::Element::f16};
    if (!check_geometry(job.spec, job.geometry).ok()) return 0;
    if (row_of(job.spec).unit == Unit::tile) {
        job.last = job.geometry.block_tokens;
    } else {
        job.first = data[4] % (job.geometry.block_tokens + 1);
        job.last = data[5] % (job.geometry.block_tokens + 1);
        if (job.first > job.last) std::swap(job.first, job.last);
    }
    job.original_space = (data[6] & 1) != 0;
    job.no_k = (data[6] & 2) != 0;
    job.no_v = (data[6] & 4) != 0;
    std::vector<float> means(2 * size_t{job.geometry.head_dim}, 0.375f);
    if ((data[6] & 16) != 0) job.sidecar = {means.data(), means.data() + job.geometry.head_dim};
    const Map map(job.geometry.head_dim, rest);
    if ((data[6] & 64) != 0) job.sidecar.k_map = job.sidecar.v_map = map.get();
    if ((data[6] & 32) != 0) job.sidecar.k_scale = job.sidecar.v_scale = 0.0234375f;
    run(job, rest);
    return 0;
}
