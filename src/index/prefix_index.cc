#include "index/prefix_index.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "index/prefix_state.h"

namespace quire {
namespace {

int tier_bit(Tier tier) {
    return 1 << static_cast<int>(tier);
}
bool has_slots(Tier tier) {
    return static_cast<size_t>(tier) < kSlotTiers;
}

}  // namespace

Result<std::unique_ptr<PrefixIndex>> PrefixIndex::create(const IndexOptions& options) {
    auto state = State::create(options);
    if (!state.ok()) return state.error();
    return std::unique_ptr<PrefixIndex>(new PrefixIndex(std::move(*state)));
}

PrefixIndex::PrefixIndex(std::unique_ptr<State> state) : state_(std::move(state)) {}
PrefixIndex::~PrefixIndex() = default;

uint32_t PrefixIndex::find(std::span<const PrefixHash> chain, std::span<BlockIndex> out) const {
    QUIRE_CHECK(out.size() >= chain.size(), "find() needs room for the whole chain");
    return state_->walk(chain, out);
}

Status PrefixIndex::insert(std::span<const PrefixHash> chain, uint16_t tenant, bool pin_new,
                           std::span<BlockIndex> out) {
    QUIRE_CHECK(out.size() >= chain.size(), "insert() needs room for the whole chain");
    State& s = *state_;
    if (s.tenant_blocks.size() <= tenant) s.tenant_blocks.resize(size_t{tenant} + 1);
    size_t done = s.walk(chain, out);
    BlockIndex last = done == 0 ? kNoBlock : out[done - 1];
    if (done < chain.size() && last != kNoBlock) {
        s.split_after(last);
        const RunId id = s.run_of[last];
        if (s.runs[id].first_child == kNoRun && s.runs[id].tenant == tenant) {
            const uint32_t added = s.extend(id, chain.subspan(done), pin_new);
            for (uint32_t i = 0; i < added; ++i) out[done++] = ++last;
        }
    }
    while (done < chain.size()) {
        const BlockIndex start = s.add_run(last, chain.subspan(done), tenant, pin_new);
        if (start == kNoBlock) break;
        const uint32_t length = s.runs[s.run_of[start]].length;
        for (uint32_t i = 0; i < length; ++i) out[done++] = start + i;
        last = start + length - 1;
    }
    if (done == chain.size()) return {};
    // A split made for a branch that found no room is undone.
    if (last != kNoBlock) s.try_join(s.run_of[last]);
    std::fill(out.begin() + done, out.begin() + chain.size(), kNoBlock);
    return make_error(Code::full,
                      "index: all " + std::to_string(s.options.max_blocks) +
                          " blocks are in use; evict some or raise max_blocks",
                      static_cast<int64_t>(done));
}

void PrefixIndex::set_location(BlockIndex block, uint32_t group, Tier tier, uint32_t slot) {
    State& s = *state_;
    QUIRE_CHECK(s.live(block) && group < s.group_count, "no such block or group");
    if (has_slots(tier)) {
        QUIRE_CHECK(slot != kNoSlot, "a location needs a slot number");
        s.groups[group].slots[static_cast<size_t>(tier)][block] = slot;
    }
    uint8_t& present = s.groups[group].present[block];
    if ((present & tier_bit(tier)) != 0) return;
    present = static_cast<uint8_t>(present | tier_bit(tier));
    s.count_child(block, group, tier, 1);
}

void PrefixIndex::clear_location(BlockIndex block, uint32_t group, Tier tier) {
    State& s = *state_;
    QUIRE_CHECK(s.live(block) && group < s.group_count, "no such block or group");
    uint8_t& present = s.groups[group].present[block];
    if ((present & tier_bit(tier)) != 0) {
        present = static_cast<uint8_t>(present & ~tier_bit(tier));
        s.count_child(block, group, tier, -1);
    }
    s.forget_unused(block);
}

uint32_t PrefixIndex::slot(BlockIndex block, uint32_t group, Tier tier) const {
    const State& s = *state_;
    QUIRE_CHECK(s.live(block) && group < s.group_count, "no such block or group");
    const GroupArrays& arrays = s.groups[group];
    if ((arrays.present[block] & tier_bit(tier)) == 0) return kNoSlot;
    return has_slots(tier) ? arrays.slots[static_cast<size_t>(tier)][block] : 0;
}

TierSet PrefixIndex::tiers(BlockIndex block, uint32_t group) const {
    const State& s = *state_;
    QUIRE_CHECK(s.live(block) && group < s.group_count, "no such block or group");
    const uint8_t present = s.groups[group].present[block];
    TierSet set;
    for (int t = 0; t < kTierCount; ++t) {
        if ((present >> t & 1) != 0) set.add(static_cast<Tier>(t));
    }
    return set;
}

uint32_t PrefixIndex::resident_children(BlockIndex block, uint32_t group, Tier tier) const {
    const State& s = *state_;
    QUIRE_CHECK(s.live(block) && group < s.group_count, "no such block or group");
    const RunId run = s.run_of[block];
    if (block != s.runs[run].last()) {
        return (s.groups[group].present[block + 1] & tier_bit(tier)) != 0 ? 1 : 0;
    }
    return s.counts(run)[group * kTierCount + static_cast<int>(tier)];
}

void PrefixIndex::pin(BlockIndex block) {
    QUIRE_CHECK(state_->live(block), "pin of an unknown block");
    QUIRE_CHECK(state_->pins(block) < State::kPinMask, "too many pins");
    if (state_->pins(block) == 0) ++state_->pinned_blocks;
    ++state_->pin_word[block];
}

void PrefixIndex::unpin(BlockIndex block) {
    QUIRE_CHECK(state_->live(block) && state_->pins(block) > 0, "unpin of a block without pins");
    --state_->pin_word[block];
    if (state_->pins(block) > 0) return;
    --state_->pinned_blocks;
    state_->forget_unused(block);
}

uint32_t PrefixIndex::pins(BlockIndex block) const {
    QUIRE_CHECK(state_->live(block), "no such block");
    return state_->pins(block);
}

PrefixHash PrefixIndex::hash(BlockIndex block) const {
    QUIRE_CHECK(state_->live(block), "no such block");
    return state_->hash_of(block);
}

BlockIndex PrefixIndex::parent(BlockIndex block) const {
    QUIRE_CHECK(state_->live(block), "no such block");
    return state_->parent_of(block);
}

uint32_t PrefixIndex::depth(BlockIndex block) const {
    QUIRE_CHECK(state_->live(block), "no such block");
    const Run& run = state_->runs[state_->run_of[block]];
    return run.depth + (block - run.start);
}

uint16_t PrefixIndex::tenant(BlockIndex block) const {
    QUIRE_CHECK(state_->live(block), "no such block");
    return state_->runs[state_->run_of[block]].tenant;
}

uint64_t PrefixIndex::tenant_blocks(uint16_t tenant) const {
    return tenant < state_->tenant_blocks.size() ? state_->tenant_blocks[tenant] : 0;
}

size_t PrefixIndex::children(BlockIndex parent, std::span<BlockIndex> out) const {
    const State& s = *state_;
    if (out.empty()) return 0;
    RunId child = s.first_root;
    if (parent != kNoBlock) {
        QUIRE_CHECK(s.live(parent), "no such block");
        const Run& run = s.runs[s.run_of[parent]];
        if (parent != run.last()) {
            out[0] = parent + 1;
            return 1;
        }
        child = run.first_child;
    }
    size_t written = 0;
    for (; child != kNoRun && written < out.size(); child = s.runs[child].next) {
        out[written++] = s.runs[child].start;
    }
    return written;
}

IndexStats PrefixIndex::stats() const {
    return {state_->blocks, state_->memory_bytes(), state_->pinned_blocks};
}

}  // namespace quire
