#include "bench/eval/served.h"

#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "bench/eval/skipping.h"
#include "engine/model/cold_packing.h"
#include "format/slab.h"
#include "tier/packed/packed_slab.h"

namespace quire::bench {
namespace {

constexpr std::string_view kServed = ":served";
constexpr std::string_view kThenEc = "+ec:";

class Served final : public Candidate {
 public:
    Served(std::string name, std::unique_ptr<ServedCache> cache)
        : name_(std::move(name)), cache_(std::move(cache)) {}
    std::string name() const override { return name_; }
    double bits(uint32_t) const override { return cache_->bits(); }
    std::optional<LayerSchedule> schedule() const override {
        const KvCoding& coding = cache_->coding();
        if (!coding.scheduled) return std::nullopt;
        LayerSchedule out{{}, {coding.exact_layers.begin(), coding.exact_layers.end()}};
        for (const codec::CodecSpec& spec : coding.layer_specs)
            out.bits.push_back({spec.k_bits, spec.v_bits});
        return out;
    }
    const ServedCache* served() const override { return cache_.get(); }
    void apply(const KvSpan&) const override { QUIRE_CHECK(false, "the engine codes its pages"); }

 private:
    std::string name_;
    std::unique_ptr<ServedCache> cache_;
};

// Numbers of a block that the group stores.
uint64_t numbers_of(const KvLayout& layout, const KvGroup& group) {
    return uint64_t{2} * group.layers.size() * group.kv_heads * group.head_dim *
           layout.block_tokens;
}

// As the cache makes it; its key is nobody's.
void write_header(const KvLayout& layout, size_t group, uint32_t block,
                  std::span<std::byte> slab) {
    SlabHeader& header = *new (slab.data()) SlabHeader();
    header.group = static_cast<uint16_t>(group);
    header.layout_digest = layout.digest();
    header.codec = layout.groups[group].pages.codec;
    header.codec_version = layout.groups[group].pages.version;
    header.layer_count = static_cast<uint16_t>(layout.groups[group].layers.size());
    header.layer_bytes = static_cast<uint32_t>(layout.layer_bytes(group));
    header.payload_bytes = static_cast<uint32_t>(layout.payload_bytes(group));
    header.token_count = layout.block_tokens;
    header.first_position = block * layout.block_tokens;
    header.page = page_description(layout, group);
    seal_slab(slab);
}

Result<KvCoding> served_coding(const GgufModel& model, const std::string& codec,
                               uint32_t sink_tokens, const ServedOptions& options) {
    const KvLayout plain = model.kv_layout(kCodedBlockTokens);
    auto coding = find_kv_coding(codec, sink_tokens, plain);
    if (!coding.ok()) return coding;
    QUIRE_TRY(keep_exact(&*coding, options.skip_layers, plain));
    if (options.sidecar == nullptr) {
        if (coding->scheduled)
            return make_error(Code::invalid, "a schedule takes its widths from --sidecar FILE, of "
                                             "`quire calibrate MODEL`");
        return coding;
    }
    QUIRE_TRY(codec::match_sidecar(*options.sidecar, model.id(), plain));
    QUIRE_TRY(take_sidecar(
        &*coding, {*options.sidecar, codec::sidecar_file(*options.sidecar).hash}, plain));
    add_turns(&*coding, model.hparams().family->rope, model.hparams().rope_dim);
    return coding;
}

}  // namespace

std::optional<ServedName> served_name(const std::string& name) {
    ServedName found{.codec = name, .packing = {}};
    if (const size_t at = name.find(kThenEc); at != name.npos) {
        found.packing = name.substr(at + 1);
        found.codec = name.substr(0, at);
    }
    const bool served = found.codec.ends_with(kServed);
    if (served) found.codec.resize(found.codec.size() - kServed.size());
    if (!served && found.packing.empty()) return std::nullopt;
    return found;
}

Result<std::unique_ptr<ServedCache>> ServedCache::create(const GgufModel& model,
                                                         const ServedName& name,
                                                         const ServedOptions& options) {
    std::unique_ptr<ServedCache> cache(new ServedCache);
    cache->model_ = &model;
    cache->exact_tokens_ = options.sink_tokens.value_or(quire::kSinkTokens);
    auto coding = served_coding(model, name.codec, cache->exact_tokens_, options);
    if (!coding.ok()) return coding.error();
    cache->coding_ = std::move(coding).value();
    const KvLayout plain = model.kv_layout(kCodedBlockTokens);
    cache->layout_ = cache->coding_.any() ? cache->coding_.split(plain) : plain;
    if (name.packing.empty()) return cache;
    ColdModel cold;
    cold.model = &model;
    cold.layout = cache->layout_;
    cold.coding = cache->coding_;
    cold.exact_tokens = cache->exact_tokens_;
    if (options.sidecar == nullptr)
        return make_error(Code::invalid,
                          name.packing + " needs --sidecar FILE, from `quire calibrate MODEL`");
    cold.sidecar = std::make_shared<const codec::Sidecar>(*options.sidecar);
    cold.sidecar_hash = codec::sidecar_file(*options.sidecar).hash;
    auto packing = find_cold_packing(name.packing, cold);
    if (!packing.ok()) return packing.error();
    cache->packing_ = std::move(packing).value();
    return cache;
}

Result<std::unique_ptr<Forward>> ServedCache::forward(const Forward& plain) const {
    ForwardConfig config = plain.config();
    config.block_tokens = kCodedBlockTokens;
    config.coding = coding_;
    config.queries = nullptr;
    config.scratch = plain.scratch();
    return Forward::create(*model_, config);
}

Status ServedCache::settle(KvPages* pages, uint32_t block) const {
    if (packing_ == nullptr) return {};
    for (size_t group = 0; group < layout_.groups.size(); ++group)
        if (layout_.kept_blocks(group, block + 1).has(block))
            QUIRE_TRY(settle_slab(pages->slab(group, block), group, block));
    return {};
}

Status ServedCache::settle_slab(std::span<std::byte> slab, size_t group, uint32_t block) const {
    write_header(layout_, group, block, slab);
    std::vector<std::byte> scratch;
    const SlabBuffer packed = pack_slab(*packing_, slab, &scratch);
    if (block * layout_.block_tokens >= exact_tokens_) {
        bytes_ += slab_header(packed ? packed.bytes() : slab).payload_bytes;
        numbers_ += numbers_of(layout_, layout_.groups[group]);
    }
    if (!packed) return {};
    std::memcpy(slab.data(), packed.bytes().data(), packed.bytes().size());
    return unpack_slab(*packing_, slab, &scratch);
}

double ServedCache::bits() const {
    double bytes = static_cast<double>(bytes_.load());
    double numbers = static_cast<double>(numbers_.load());
    for (size_t group = 0; numbers_.load() == 0 && group < layout_.groups.size(); ++group) {
        if (layout_.groups[group].keep == KvKeep::sinks) continue;
        bytes += static_cast<double>(layout_.layer_bytes(group) *
                                     layout_.groups[group].layers.size());
        numbers += static_cast<double>(numbers_of(layout_, layout_.groups[group]));
    }
    return 8 * bytes / numbers;
}

Result<std::unique_ptr<Candidate>> served_candidate(const GgufModel& model,
                                                    const std::string& name,
                                                    const ServedOptions& options) {
    const ServedName wanted = served_name(name).value_or(ServedName{});
    auto cache = ServedCache::create(model, wanted, options);
    if (!cache.ok()) return make_error(cache.code(), name + ": " + cache.error().message);
    std::string shown = (*cache)->coding().name();
    shown += wanted.packing.empty() ? std::string(kServed) : "+" + wanted.packing;
    return std::unique_ptr<Candidate>(std::make_unique<Served>(
        shown + skipped_suffix(options.skip_layers), std::move(cache).value()));
}

}  // namespace quire::bench
