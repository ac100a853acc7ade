#include "engine/model/ec_packing.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "codec/codec_table.h"
#include "codec/ec/block.h"
#include "engine/model/layer_ropes.h"
#include "format/slab.h"

namespace quire {
namespace {

using codec::ec::BlockCoder;
using codec::ec::LayerRows;

constexpr uint16_t kVersion = 3;
// Steps are searched for, so what is asked for is met nearly.
constexpr double kBitsSlack = 0.05;

// All that unpacking depends on besides the block itself.
Hash128 transform_of(const ColdModel& of, EcRate rate) {
    const std::string text = fmt::format("ec; {}; {}; {}{}", of.sidecar_hash.to_hex(), rate.bits,
                                         of.exact_tokens, rate.alone ? "; alone" : "");
    const Digest128 d = sha256_128(std::as_bytes(std::span(text)));
    return {d.hi, d.lo};
}

// Scratch memory of as many threads as pack at once.
class Scratches {
 public:
    codec::ec::BlockScratch take() {
        std::lock_guard lock(mutex_);
        if (free_.empty()) return {};
        codec::ec::BlockScratch one = std::move(free_.back());
        free_.pop_back();
        return one;
    }
    void give(codec::ec::BlockScratch one) {
        std::lock_guard lock(mutex_);
        free_.push_back(std::move(one));
    }

 private:
    std::mutex mutex_;
    std::vector<codec::ec::BlockScratch> free_;
};

// One group's pages as rows.
class GroupPages {
 public:
    // Of a slab whose first token is at `position`.
    GroupPages(const ColdModel& of, const LayerRopes& ropes, size_t group, uint32_t position)
        : of_(of),
          ropes_(ropes),
          tables_(ropes.tables(position, position + of.layout.block_tokens)),
          group_(group) {}

    void read(std::span<const std::byte> payload, uint32_t i, const LayerRows& rows) const {
        for_each_head(i, rows, [&](const Page& page, std::span<float> k, std::span<float> v) {
            codec::DecodePage job{.spec = page.spec,
                                  .geometry = page.geometry,
                                  .sidecar = page.sidecar,
                                  .page = payload.data() + page.offset};
            job.k = k.data(), job.v = v.data();
            job.k_stride = job.v_stride = page.geometry.head_dim;
            job.last = page.geometry.block_tokens;
            ops(page.spec).decode(job);
            turn_means(page, k, true);
            ropes_.turn(tables_, page.layer, Turn::back, k.data());
        });
    }
    void write(const LayerRows& rows, uint32_t i, std::span<std::byte> payload) const {
        for_each_head(i, rows, [&](const Page& page, std::span<float> k, std::span<float> v) {
            codec::EncodePage job{.spec = page.spec,
                                  .geometry = page.geometry,
                                  .sidecar = page.sidecar,
                                  .k = k.data(),
                                  .v = v.data()};
            job.k_stride = job.v_stride = page.geometry.head_dim;
            job.last = page.geometry.block_tokens;
            job.page = payload.data() + page.offset;
            ropes_.turn(tables_, page.layer, Turn::forward, k.data());
            turn_means(page, k, false);
            // A page that no token was written to is all zero bytes.
            std::memset(job.page, 0, of_.layout.page_bytes(group_));
            ops(page.spec).encode(job);
        });
    }

 private:
    struct Page {
        codec::CodecSpec spec;
        codec::Geometry geometry;
        codec::HeadSidecar sidecar;
        uint32_t layer = 0, head = 0;
        size_t offset = 0;  // in the payload
    };

    static const codec::PageCodecOps& ops(const codec::CodecSpec& spec) {
        return codec::best_ops(codec::row_of(spec));
    }

    template <typename Work>
    void for_each_head(uint32_t i, const LayerRows& rows, const Work& work) const {
        const KvGroup& group = of_.layout.groups[group_];
        Page page;
        page.layer = group.layers[i];
        page.spec = *codec::codec_of_id(group.pages.codec, group.pages.version);
        page.geometry = {group.head_dim, group.kv_heads, of_.layout.block_tokens,
                         of_.layout.element};
        const size_t numbers = size_t{page.geometry.block_tokens} * group.head_dim;
        for (page.head = 0; page.head < group.kv_heads; ++page.head) {
            if (of_.coding.codes(page.layer))
                page.sidecar = of_.coding.head(page.layer, page.head);
            page.offset =
                of_.layout.layer_offset(group_, i) + page.head * of_.layout.page_bytes(group_);
            page.offset -= kSlabHeaderBytes;
            work(page, rows.k.subspan(page.head * numbers, numbers),
                 rows.v.subspan(page.head * numbers, numbers));
        }
    }

    // Codes come without the turned part of keys' means.
    void turn_means(const Page& page, std::span<float> k, bool add) const {
        if (!of_.coding.turns || !of_.coding.codes(page.layer)) return;
        const KeyTurns& turns = *of_.coding.turns;
        const auto head = turns.of(page.layer, page.head);
        float saved[2 * kKeyTurnPairs];
        for (uint32_t t = 0; t < tables_.tokens(); ++t) {
            const float* table = ropes_.table(tables_, page.layer, t);
            float* key = k.data() + size_t{t} * page.geometry.head_dim;
            if (add)
                add_on(turns, head, table, ropes_.pairs(), key);
            else
                take_off(turns, head, table, ropes_.pairs(), key, saved);
        }
    }

    const ColdModel& of_;
    const LayerRopes& ropes_;
    const LayerRopes::Tables tables_;
    size_t group_;
};

class EcPacking final : public SlabPacking {
 public:
    EcPacking(const ColdModel& of, EcRate rate, std::vector<std::optional<BlockCoder>> coders)
        : of_(of), rate_(rate), ropes_(*of.model), coders_(std::move(coders)) {}

    PackingTag tag() const override { return {PackingId::ec, kVersion, transform_of(of_, rate_)}; }
    std::string name() const override {
        return fmt::format("{}{}{}", kEcPrefix, rate_.bits, rate_.alone ? kEcAlone : "");
    }
    bool lossless() const override { return false; }
    bool stands_on_exact(const SlabHeader& header) const override {
        // The block behind the sinks was computed from exact numbers, but a copy of it may have
        // been coded since. Slabs of other layouts were never here.
        return header.first_position < of_.exact_tokens ||
               header.layout_digest != of_.layout.digest();
    }

    bool pack(std::span<const std::byte> slab, std::vector<std::byte>* out) const override {
        const SlabHeader& header = slab_header(slab);
        const BlockCoder* coder = coder_of(header);
        if (coder == nullptr || header.first_position < of_.exact_tokens) return false;
        const GroupPages pages(of_, ropes_, header.group, header.first_position);
        const auto payload = slab.subspan(kSlabHeaderBytes, header.payload_bytes);
        codec::ec::BlockScratch scratch = scratches_.take();
        coder->encode(
            header.token_count,
            [&](uint32_t i, const LayerRows& rows) { pages.read(payload, i, rows); }, &scratch,
            out);
        scratches_.give(std::move(scratch));
        return true;
    }

    Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const override {
        const SlabHeader& header = slab_header(std::span<const std::byte>(slab));
        const BlockCoder* coder = coder_of(header);
        if (coder == nullptr)
            return make_error(Code::corrupt, "ec does not pack slabs of this shape");
        const GroupPages pages(of_, ropes_, header.group, header.first_position);
        const auto payload = slab.subspan(kSlabHeaderBytes, header.payload_bytes);
        codec::ec::BlockScratch scratch = scratches_.take();
        const Status done = coder->decode(
            packed, header.token_count,
            [&](uint32_t i, const LayerRows& rows) { pages.write(rows, i, payload); }, &scratch);
        scratches_.give(std::move(scratch));
        return done;
    }

 private:
    // Null for what is not a whole block of a group that ec packs.
    const BlockCoder* coder_of(const SlabHeader& header) const {
        const bool ours = header.group < coders_.size() && coders_[header.group] &&
                          header.layout_digest == of_.layout.digest() &&
                          header.token_count == of_.layout.block_tokens &&
                          header.payload_bytes == of_.layout.payload_bytes(header.group);
        return ours ? &*coders_[header.group] : nullptr;
    }

    const ColdModel of_;
    const EcRate rate_;
    const LayerRopes ropes_;
    const std::vector<std::optional<BlockCoder>> coders_;  // [groups]
    mutable Scratches scratches_;
};

}  // namespace

Result<std::shared_ptr<const SlabPacking>> make_ec_packing(const ColdModel& of, EcRate rate) {
    auto learned = codec::ec::Model::of(*of.sidecar);
    if (!learned.ok()) return learned.error();
    // A slab is decoded by itself: layers are foretold from those of their own group.
    std::vector<std::vector<uint16_t>> chains;
    for (const KvGroup& group : of.layout.groups)
        if (group.keep != KvKeep::sinks && !rate.alone) chains.push_back(group.layers);
    const codec::ec::Model model = learned->within(chains);
    const codec::ec::Coder rates(model);
    const double most = rates.bits(rates.steps().low);
    if (rate.bits > most + kBitsSlack)
        return make_error(
            Code::invalid,
            fmt::format("ec:{}: with this sidecar ec has {:.1f} bits a number at most", rate.bits,
                        most));
    std::vector<std::optional<BlockCoder>> coders;
    for (const KvGroup& group : of.layout.groups) {
        std::optional<BlockCoder>& coder = coders.emplace_back();
        if (group.keep == KvKeep::sinks) continue;
        auto made = BlockCoder::create(model, group.layers, rate.bits);
        if (!made.ok()) return made.error();
        coder = std::move(made).value();
    }
    return std::shared_ptr<const SlabPacking>(
        std::make_shared<EcPacking>(of, rate, std::move(coders)));
}

}  // namespace quire
