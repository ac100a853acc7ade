// A cache as `quire serve` has it, so that what is served can be judged: pages are coded by the
// engine's own steps (engine/model/kv_coding.h), with its sinks, its open block, its means. With a
// cold packing every block is packed and unpacked as soon as it is whole, as if it had gone to disk
// and come back.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/exact_tokens.h"
#include "bench/eval/kv_pages.h"
#include "engine/model/forward.h"
#include "engine/model/gguf_model.h"
#include "engine/model/kv_coding.h"
#include "tier/packed/slab_packing.h"

namespace quire::bench {

// What `--kv-codec` and `--kv-codec-cold` would be.
struct ServedName {
    std::string codec;
    std::string packing;  // empty: none
};
// Of "k6v4:served" and "k6v4+ec:2.7"; nothing: another candidate's name.
std::optional<ServedName> served_name(const std::string& name);

struct ServedOptions {
    const codec::Sidecar* sidecar = nullptr;  // null: none, and no means are taken off
    std::optional<uint32_t> sink_tokens;      // nothing: the server's default
    std::vector<uint32_t> skip_layers;
};

class ServedCache {
 public:
    // `model` must outlive it. Errors are the engine's own.
    static Result<std::unique_ptr<ServedCache>> create(const GgufModel& model,
                                                       const ServedName& name,
                                                       const ServedOptions& options);

    // A pass that codes its pages, over the buffers of one that does not, and seen by its probe.
    Result<std::unique_ptr<Forward>> forward(const Forward& plain) const;
    // Told of each block of `pages` when it is whole.
    Status settle(KvPages* pages, uint32_t block) const;

    const KvCoding& coding() const { return coding_; }
    ExactTokens exact() const { return {exact_tokens_, kCodedBlockTokens}; }
    // Per number behind the sinks; with a packing as stored, of the blocks that were settled.
    double bits() const;

 private:
    ServedCache() = default;
    Status settle_slab(std::span<std::byte> slab, size_t group, uint32_t block) const;

    const GgufModel* model_ = nullptr;
    KvCoding coding_;
    KvLayout layout_;
    uint32_t exact_tokens_ = 0;
    std::shared_ptr<const SlabPacking> packing_;  // null: none
    mutable std::atomic<uint64_t> bytes_ = 0;
    mutable std::atomic<uint64_t> numbers_ = 0;
};

// REQUIRES: served_name() knows the name. As ServedCache::create, the message begins with the name.
Result<std::unique_ptr<Candidate>> served_candidate(const GgufModel& model,
                                                    const std::string& name,
                                                    const ServedOptions& options);

}  // namespace quire::bench
