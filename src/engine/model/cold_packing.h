// How a model's slabs are packed in cold tiers: `--kv-codec-cold`.
//
// "zstd" and "bx" lose nothing. "ec:BITS" (ec_packing.h) codes keys before RoPE and values as
// entropy-coded components (codec/ec/README.md) with what the sidecar learned, at about so many
// bits a number.
// Exact pages, of sinks, are never coded with loss.
#pragma once

#include <memory>
#include <string>

#include "codec/sidecar.h"
#include "engine/model/gguf_model.h"
#include "engine/model/kv_coding.h"
#include "tier/packed/slab_packing.h"

namespace quire {

// What a packing of a model's slabs needs to know. `model` outlives the packing.
struct ColdModel {
    const GgufModel* model = nullptr;
    KvLayout layout;                                // of the slabs
    KvCoding coding;                                // of their pages
    std::shared_ptr<const codec::Sidecar> sidecar;  // null: none
    Hash128 sidecar_hash;
    uint32_t exact_tokens = 0;  // the first ones, which ec leaves alone
};

// Whether that packing takes a sidecar.
bool packing_needs_sidecar(const std::string& name);

// null for "" and "none". invalid: no such packing, or bits out of range; unsupported: it cannot
// pack this model's pages. The message says what would do.
Result<std::shared_ptr<const SlabPacking>> find_cold_packing(const std::string& name,
                                                             const ColdModel& of);

}  // namespace quire
