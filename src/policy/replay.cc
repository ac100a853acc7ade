#include "policy/replay.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

namespace quire {
namespace {

constexpr uint32_t kNowhere = ~uint32_t{0};

Hash128 block_hash(uint32_t id) {
    // Any bijection that spreads will do: ids stand for digests.
    const uint64_t x = (uint64_t{id} + 1) * 0x9E3779B97F4A7C15ull;
    return {x ^ x >> 31, (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull};
}

// The resident set as the policy's caller keeps it.
class Cache {
 public:
    Cache(const Trace& trace, const EvictionRow& row, uint32_t capacity)
        : blocks_(trace.distinct_blocks),
          in_slot_(capacity, kNowhere),
          policy_(row.make(capacity)) {
        for (uint32_t s = capacity; s > 0; --s) free_.push_back(s - 1);
    }

    void serve(const TraceRequest& request, uint32_t stamp, ReplayResult& result) {
        const auto& ids = request.blocks;
        size_t have = 0;
        while (have < ids.size() && blocks_[ids[have]].slot != kNowhere) ++have;
        result.hits += have;
        result.references += ids.size();
        for (size_t i = 0; i < have; ++i) blocks_[ids[i]].stamp = stamp;
        stamp_ = stamp;
        if (ids.size() - have > free_.size()) make_room(ids.size() - have - free_.size(), result);
        while (have < ids.size() && !free_.empty()) {
            insert(ids, have);
            ++have;
        }
        for (size_t i = have; i > 0; --i) policy_->touch(blocks_[ids[i - 1]].slot);
    }

 private:
    struct Block {
        uint32_t slot = kNowhere;
        uint32_t parent = kNowhere;
        uint32_t children = 0;  // resident ones
        uint32_t stamp = kNowhere;
    };

    void insert(const std::vector<uint32_t>& ids, size_t i) {
        Block& block = blocks_[ids[i]];
        block.slot = free_.back();
        free_.pop_back();
        in_slot_[block.slot] = ids[i];
        block.parent = i == 0 ? kNowhere : ids[i - 1];
        block.stamp = stamp_;
        if (i > 0) ++blocks_[ids[i - 1]].children;
        const auto depth = static_cast<uint32_t>(i);
        policy_->insert(block.slot, {block_hash(ids[i]), depth, i + 1 == ids.size(), 0});
    }

    bool may_go(uint32_t slot) {
        Block& block = blocks_[in_slot_[slot]];
        if (block.children > 0 || block.stamp == stamp_) {
            ++skips_;
            return false;
        }
        // A yes is a take.
        if (block.parent != kNowhere) --blocks_[block.parent].children;
        block.slot = kNowhere;
        return true;
    }

    void make_room(size_t wanted, ReplayResult& result) {
        victims_.resize(std::min(wanted, in_slot_.size()));
        const Evictable ask{
            [](void* self, uint32_t slot) { return static_cast<Cache*>(self)->may_go(slot); },
            this};
        // A parent may become free only after the policy has passed it by: ask again until nothing
        // goes.
        while (wanted > 0) {
            const std::span<uint32_t> out(victims_.data(), std::min(wanted, victims_.size()));
            const size_t got = policy_->take_victims(out, ask);
            if (got == 0) break;
            free_.insert(free_.end(), out.begin(), out.begin() + static_cast<ptrdiff_t>(got));
            result.evictions += got;
            wanted -= got;
        }
        result.skips = skips_;
    }

    std::vector<Block> blocks_;
    std::vector<uint32_t> in_slot_;
    std::vector<uint32_t> free_;
    std::vector<uint32_t> victims_;
    std::unique_ptr<EvictionPolicy> policy_;
    uint32_t stamp_ = 0;
    uint64_t skips_ = 0;
};

// The numbers of the JSON array that follows "hash_ids"; false if the line has none.
bool read_ids(std::string_view line, std::vector<uint64_t>& ids) {
    const size_t key = line.find("\"hash_ids\"");
    if (key == line.npos) return false;
    const size_t open = line.find('[', key);
    const size_t close = line.find(']', key);
    if (open == line.npos || close == line.npos || close < open) return false;
    const char* at = line.data() + open + 1;
    const char* end = line.data() + close;
    while (at != end) {
        if (*at == ' ' || *at == ',') {
            ++at;
            continue;
        }
        uint64_t id = 0;
        const auto [next, error] = std::from_chars(at, end, id);
        if (error != std::errc()) return false;
        ids.push_back(id);
        at = next;
    }
    return true;
}

}  // namespace

Result<Trace> parse_mooncake(std::string_view jsonl) {
    Trace trace;
    std::unordered_map<uint64_t, uint32_t> dense;
    std::vector<uint64_t> ids;
    for (size_t line_number = 1; !jsonl.empty(); ++line_number) {
        const size_t end = std::min(jsonl.find('\n'), jsonl.size());
        const std::string_view line = jsonl.substr(0, end);
        jsonl.remove_prefix(std::min(end + 1, jsonl.size()));
        if (line.find_first_not_of(" \r\t") == line.npos) continue;
        ids.clear();
        if (!read_ids(line, ids)) {
            return make_error(Code::invalid,
                              "trace line " + std::to_string(line_number) +
                                  " has no array \"hash_ids\" of block numbers; expected "
                                  "Mooncake's JSONL format",
                              static_cast<int64_t>(line_number));
        }
        TraceRequest request;
        for (const uint64_t id : ids) {
            const auto next = static_cast<uint32_t>(dense.size());
            request.blocks.push_back(dense.try_emplace(id, next).first->second);
        }
        trace.references += request.blocks.size();
        trace.requests.push_back(std::move(request));
    }
    trace.distinct_blocks = static_cast<uint32_t>(dense.size());
    return trace;
}

Trace synthetic_trace(uint32_t requests, uint64_t seed) {
    std::mt19937_64 rng(seed);
    Trace trace;
    std::vector<std::vector<uint32_t>> prompts;  // shared beginnings
    for (int p = 0; p < 4; ++p) {
        prompts.emplace_back();
        for (uint64_t n = 1 + rng() % 8; n > 0; --n)
            prompts.back().push_back(trace.distinct_blocks++);
    }
    std::vector<std::vector<uint32_t>> sessions;
    for (uint32_t r = 0; r < requests; ++r) {
        const bool returns = !sessions.empty() && rng() % 100 < 60;
        std::vector<uint32_t> blocks = prompts[rng() % prompts.size()];
        size_t session = sessions.size();
        if (returns) {  // lately started ones more often: most are abandoned
            const size_t back = std::min<size_t>(rng() % 40 * (rng() % 40), sessions.size() - 1);
            session = sessions.size() - 1 - back;
            blocks = sessions[session];
        }
        for (uint64_t n = 2 + rng() % 16; n > 0; --n) blocks.push_back(trace.distinct_blocks++);
        if (!returns && rng() % 3 != 0) sessions.push_back(blocks);
        if (returns) sessions[session] = blocks;
        // The ragged end is never asked for again.
        blocks.push_back(trace.distinct_blocks++);
        trace.references += blocks.size();
        trace.requests.push_back({std::move(blocks)});
    }
    return trace;
}

ReplayResult replay(const Trace& trace, const EvictionRow& row, uint32_t capacity) {
    ReplayResult result;
    if (capacity == 0) {
        result.references = trace.references;
        return result;
    }
    Cache cache(trace, row, capacity);
    for (uint32_t r = 0; r < trace.requests.size(); ++r) {
        cache.serve(trace.requests[r], r, result);
    }
    return result;
}

}  // namespace quire
