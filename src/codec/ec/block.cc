#include "codec/ec/block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <ranges>

#include "base/aligned_vector.h"
#include "base/check.h"
#include "codec/ec/chain.h"

namespace quire::codec::ec {
namespace {

struct Header {
    uint32_t step = 0;  // its bits as a float
    uint32_t words = 0;
};
static_assert(sizeof(Header) == 8);
constexpr size_t kWordBytes = 2;

constexpr int kVarintBytes = 4;

// Below 128 a byte; else seven bits a byte, the lowest first, the top bit says that more follow.
void put_varint(uint32_t value, std::vector<std::byte>* out) {
    for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
    out->push_back(static_cast<std::byte>(value));
}

class Varints {
 public:
    explicit Varints(std::span<const std::byte> bytes) : bytes_(bytes) {}
    // 0 past the end; below 2 kIntegerMax.
    int32_t next() {
        uint32_t value = 0;
        short_ |= at_ == bytes_.size();
        for (int i = 0; i < kVarintBytes && at_ < bytes_.size(); ++i) {
            const auto byte = static_cast<uint32_t>(bytes_[at_++]);
            value |= (byte & 0x7f) << (7 * i);
            if (byte < 0x80) break;
        }
        return static_cast<int32_t>(value & (2 * kIntegerMax - 1));
    }
    bool ended_well() const { return !short_ && at_ == bytes_.size(); }

 private:
    std::span<const std::byte> bytes_;
    size_t at_ = 0;
    bool short_ = false;
};

// Grows only.
template <typename Vector>
typename Vector::value_type* room(Vector* buffer, size_t n) {
    if (buffer->size() < n) buffer->resize(n);
    return buffer->data();
}

}  // namespace

struct BlockScratch::Buffers {
    AlignedVector<float> rows, columns, expected, components;
    AlignedVector<uint8_t> symbols, history;
    AlignedVector<float> history_scales;
    std::vector<uint8_t> seen;
    std::vector<uint16_t> used;
    std::vector<std::byte> words, escapes;
    // Of the last block that had another step than its coder's, and whose it was.
    Rate rate;
    std::shared_ptr<const void> chain;
};

BlockScratch::BlockScratch() : buffers_(std::make_unique<Buffers>()) {}
BlockScratch::~BlockScratch() = default;
BlockScratch::BlockScratch(BlockScratch&&) noexcept = default;
BlockScratch& BlockScratch::operator=(BlockScratch&&) noexcept = default;

namespace {

// What was decoded of the last heads.
class History {
 public:
    History(uint32_t heads, uint32_t dims_max, uint32_t stride, AlignedVector<uint8_t>* bytes,
            AlignedVector<float>* scales)
        : heads_(heads),
          stride_(stride),
          head_bytes_(size_t{dims_max} * stride),
          bytes_(room(bytes, heads * head_bytes_)),
          scales_(room(scales, size_t{heads} * stride)) {}

    HistoryView view(size_t head) const {
        return {bytes_ + head % heads_ * head_bytes_, scales_ + head % heads_ * stride_};
    }
    void keep(const Kernels& kernels, const HeadPlan& plan, size_t head, const float* columns) {
        kernels.remember({.columns = columns,
                          .inverse = plan.inverse.data(),
                          .dims = plan.dims,
                          .stride = stride_,
                          .bytes = bytes_ + head % heads_ * head_bytes_,
                          .scales = scales_ + head % heads_ * stride_});
    }

 private:
    size_t heads_;
    uint32_t stride_;
    size_t head_bytes_;
    uint8_t* bytes_;
    float* scales_;
};

template <typename T>
Upcoming upcoming(const std::vector<T>& numbers) {
    return {numbers.data(), numbers.size() * sizeof(T)};
}

// What encoding and decoding have in common.
struct Work {
    const Kernels& kernels;
    uint32_t tokens;
    uint32_t stride;
    History history;

    // What is expected of a head's components, in `out`; null: zeros. `then` is read after that.
    const float* expect(const HeadPlan& plan, size_t head, float* out, Upcoming then) const {
        if (plan.foretold_by.empty()) return nullptr;
        std::memset(out, 0, size_t{plan.dims} * stride * sizeof(float));
        for (size_t i = 0; i < plan.foretold_by.size(); ++i) {
            const Foretelling& one = plan.foretold_by[i];
            const bool last = i + 1 == plan.foretold_by.size();
            kernels.predict({.weights = one.weights.data(),
                             .offsets = one.offsets.data(),
                             .weight_scales = one.scales.data(),
                             .history = history.view(head - one.back),
                             .dims = one.dims,
                             .outputs = plan.dims,
                             .out = out,
                             .stride = stride,
                             .upcoming = last ? then : upcoming(plan.foretold_by[i + 1].weights)});
        }
        return out;
    }
    void multiply(const std::vector<float>& matrix, uint32_t dims, std::span<const uint16_t> used,
                  const float* x, float* out, Upcoming then) const {
        kernels.multiply({.matrix = matrix.data(),
                          .inputs = dims,
                          .outputs = dims,
                          .used = used.data(),
                          .used_count = static_cast<uint32_t>(used.size()),
                          .x = x,
                          .out = out,
                          .stride = stride,
                          .upcoming = then});
    }
};

Upcoming first_weights(const HeadPlan& head) {
    if (head.foretold_by.empty()) return {};
    return upcoming(head.foretold_by[0].weights);
}

}  // namespace

struct BlockCoder::Encoding {
    const Chain& chain;
    BlockScratch::Buffers& buffers;
    Work work;
    uint32_t not_finite = 0;

    // One head's rows become symbols, and what the decoder will have of it.
    void head(size_t index, const float* rows) {
        const HeadPlan& plan = chain.heads[index];
        const size_t numbers = size_t{plan.dims} * work.stride;
        float* columns = room(&buffers.columns, numbers);
        float* components = room(&buffers.components, numbers);
        work.kernels.to_columns(rows, work.tokens, plan.dims, work.stride, columns);
        not_finite +=
            work.kernels.subtract(columns, plan.mean.data(), plan.dims, work.stride);
        std::memset(components, 0, numbers * sizeof(float));
        work.multiply(plan.components, plan.dims, chain.all(plan), columns, components,
                      first_weights(plan));
        const bool more = index + 1 < chain.heads.size();
        const float* expected =
            work.expect(plan, index, room(&buffers.expected, numbers),
                        more ? upcoming(chain.heads[index + 1].components) : Upcoming{});
        float* decoded = columns;  // those were used up
        quantise(plan, expected, components, decoded);
        if (plan.foretells) work.history.keep(work.kernels, plan, index, decoded);
    }

    // x become symbols and what the decoder will have of them.
    void quantise(const HeadPlan& plan, const float* expected, const float* x, float* numbers) {
        const Components head = chain.components_of(plan, chain.rate, work.stride);
        work.kernels.quantise(head, expected, x,
                              buffers.symbols.data() + plan.first_component * work.stride, numbers,
                              room(&buffers.seen, plan.dims));
        for (uint32_t c = 0; c < plan.dims; ++c) {
            if ((buffers.seen[c] & kSeenEscape) == 0) continue;
            const size_t at = size_t{c} * work.stride;
            escape(head, expected == nullptr ? nullptr : expected + at, x + at);
        }
    }

    void escape(const Components& head, const float* expected, const float* x) {
        for (uint32_t t = 0; t < work.tokens; ++t) {
            const float left = expected == nullptr ? x[t] : x[t] - expected[t];
            const int32_t size = std::abs(integer_of(head.inverse, left));
            if (size >= kLargest)
                put_varint(static_cast<uint32_t>(size - kLargest), &buffers.escapes);
        }
    }

    // All symbols, last to first, then everything in its place.
    void finish(std::vector<std::byte>* out) {
        const size_t room_bytes = chain.components * work.stride * kWordBytes;
        std::byte* words = room(&buffers.words, room_bytes);
        SymbolWriter writer{.states = {}, .end = words + room_bytes};
        std::ranges::fill(writer.states, kStateLow);
        const uint64_t runs = chain.components * uint64_t{work.stride / kLanes};
        writer.turn = static_cast<uint32_t>(runs % kGroups);
        for (const Chain::Layer& layer : std::views::reverse(chain.layers))
            work.kernels.write(&writer,
                               chain.symbols_of(layer, chain.rate, work.tokens, work.stride),
                               buffers.symbols.data() + layer.first_component * work.stride);
        const size_t word_bytes = static_cast<size_t>(words + room_bytes - writer.end);
        const Header header{std::bit_cast<uint32_t>(chain.rate.step),
                            static_cast<uint32_t>(word_bytes / kWordBytes)};
        const auto append = [&](const void* from, size_t bytes) {
            const auto* first = static_cast<const std::byte*>(from);
            out->insert(out->end(), first, first + bytes);
        };
        append(&header, sizeof(header));
        append(writer.states, sizeof(uint32_t[kStates]));
        append(writer.end, word_bytes);
        append(buffers.escapes.data(), buffers.escapes.size());
    }
};

uint32_t BlockCoder::encode(uint32_t tokens, const Rows& read, BlockScratch* scratch,
                            std::vector<std::byte>* out) const {
    QUIRE_CHECK(tokens > 0 && tokens <= kBlockTokensMax, "ec: a block of too many tokens");
    BlockScratch::Buffers& buffers = *scratch->buffers_;
    const uint32_t stride = (tokens + kLanes - 1) / kLanes * kLanes;
    Encoding job{*chain_,
                 buffers,
                 {*kernels_, tokens, stride,
                  History(chain_->reach + 1, chain_->dims_max, stride, &buffers.history,
                          &buffers.history_scales)}};
    room(&buffers.symbols, chain_->components * stride);
    buffers.escapes.clear();
    for (uint32_t i = 0; i < layers(); ++i) {
        const Chain::Layer& layer = chain_->layers[i];
        const size_t head_numbers = size_t{tokens} * layer.head_dim;
        const size_t side = layer.kv_heads * head_numbers;
        float* rows = room(&buffers.rows, 2 * side);
        read(i, {{rows, side}, {rows + side, side}});
        for (size_t h = 0; h < size_t{2} * layer.kv_heads; ++h)
            job.head(layer.first_head + h, rows + h * head_numbers);
    }
    job.finish(out);
    return job.not_finite;
}

struct BlockCoder::Decoding {
    const Chain& chain;
    const Rate& rate;
    BlockScratch::Buffers& buffers;
    Work work;
    SymbolReader reader;
    Varints escapes;

    void symbols(const Chain::Layer& layer) {
        work.kernels.read(&reader, chain.symbols_of(layer, rate, work.tokens, work.stride),
                          room(&buffers.symbols, size_t{layer.components} * work.stride));
    }

    // `symbols`: the head's.
    void head(size_t index, const uint8_t* symbols, float* rows) {
        const HeadPlan& plan = chain.heads[index];
        const size_t numbers = size_t{plan.dims} * work.stride;
        float* columns = room(&buffers.columns, numbers);
        float* components = room(&buffers.components, numbers);
        const float* expected = work.expect(plan, index, room(&buffers.expected, numbers),
                                            upcoming(plan.restore));
        dequantise(plan, expected, symbols, components);
        if (plan.foretells) work.history.keep(work.kernels, plan, index, components);
        work.kernels.repeat(plan.mean.data(), plan.dims, work.stride, columns);
        work.multiply(
            plan.restore, plan.dims,
            expected == nullptr ? std::span<const uint16_t>(buffers.used) : chain.all(plan),
            components, columns,
            index + 1 < chain.heads.size() ? first_weights(chain.heads[index + 1]) : Upcoming{});
        work.kernels.to_rows(columns, work.tokens, plan.dims, work.stride, rows);
    }

    // buffers.used: components that are not zero throughout, where nothing was expected.
    void dequantise(const HeadPlan& plan, const float* expected, const uint8_t* symbols, float* x) {
        const Components head = chain.components_of(plan, rate, work.stride);
        work.kernels.dequantise(head, expected, symbols, x, room(&buffers.seen, plan.dims));
        buffers.used.clear();
        for (uint32_t c = 0; c < plan.dims; ++c) {
            if (buffers.seen[c] != kSeenNone) buffers.used.push_back(static_cast<uint16_t>(c));
            if ((buffers.seen[c] & kSeenEscape) == 0) continue;
            const size_t at = size_t{c} * work.stride;
            escape(head, head.shrinks[head.classes[c]],
                   expected == nullptr ? nullptr : expected + at, symbols + at, x + at);
        }
    }

    void escape(const Components& head, const Shrink& shrink, const float* expected,
                const uint8_t* symbols, float* x) {
        for (uint32_t t = 0; t < work.tokens; ++t) {
            const int32_t integer = symbols[t] - kLargest;
            if (std::abs(integer) < kLargest) continue;
            const int32_t more = escapes.next();
            x[t] = number_of(head.step, shrink, integer > 0 ? integer + more : integer - more);
            if (expected != nullptr) x[t] += expected[t];
        }
    }

    bool ended_well() const {
        return !reader.short_ && reader.left_words == 0 && escapes.ended_well() &&
               std::ranges::all_of(reader.states, [](uint32_t s) { return s == kStateLow; });
    }
};

namespace {

bool is_state(uint32_t s) {
    return s >= kStateLow && s >> kStateBits == 0;
}

Error damaged() {
    return make_error(Code::corrupt, "ec: the block is damaged, or was written for other layers");
}

}  // namespace

Status BlockCoder::decode(std::span<const std::byte> bytes, uint32_t tokens, const Rows& landed,
                          BlockScratch* scratch) const {
    QUIRE_CHECK(tokens > 0 && tokens <= kBlockTokensMax, "ec: a block of too many tokens");
    BlockScratch::Buffers& buffers = *scratch->buffers_;
    Header header;
    constexpr size_t kBeforeWords = sizeof(header) + sizeof(uint32_t[kStates]);
    if (bytes.size() < kBeforeWords) return damaged();
    std::memcpy(&header, bytes.data(), sizeof(header));
    SymbolReader reader{
        .states = {}, .words = bytes.data() + kBeforeWords, .left_words = header.words};
    std::memcpy(reader.states, bytes.data() + sizeof(header), sizeof(uint32_t[kStates]));
    const auto step = std::bit_cast<float>(header.step);
    if (!(double{step} >= chain_->step_low && double{step} <= chain_->step_high) ||
        header.words > (bytes.size() - kBeforeWords) / kWordBytes ||
        !std::ranges::all_of(reader.states, is_state))
        return damaged();
    const bool own = step == chain_->rate.step;
    if (!own && (step != buffers.rate.step || buffers.chain != chain_)) {
        buffers.rate = chain_->rate_of(step);
        buffers.chain = chain_;
    }
    const uint32_t stride = (tokens + kLanes - 1) / kLanes * kLanes;
    Decoding job{*chain_,
                 own ? chain_->rate : buffers.rate,
                 buffers,
                 {*kernels_, tokens, stride,
                  History(chain_->reach + 1, chain_->dims_max, stride, &buffers.history,
                          &buffers.history_scales)},
                 reader,
                 Varints(bytes.subspan(kBeforeWords + header.words * kWordBytes))};
    for (uint32_t i = 0; i < layers(); ++i) {
        const Chain::Layer& layer = chain_->layers[i];
        const size_t head_numbers = size_t{tokens} * layer.head_dim;
        const size_t side = layer.kv_heads * head_numbers;
        float* rows = room(&buffers.rows, 2 * side);
        job.symbols(layer);
        for (size_t h = 0; h < size_t{2} * layer.kv_heads; ++h)
            job.head(layer.first_head + h,
                     buffers.symbols.data() + h * layer.head_dim * stride,
                     rows + h * head_numbers);
        landed(i, {{rows, side}, {rows + side, side}});
    }
    if (!job.ended_well()) return damaged();
    return {};
}

}  // namespace quire::codec::ec
