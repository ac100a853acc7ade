// TierStore: one interface for every place a slab can rest (G2 host pool, G3 disk; later more).
//
// Batches in, one Result per block out. A put is two-phase: the block is invisible to contains()
// and get() until all its bytes are stored and checksummed. A get verifies what it read before it
// says ok; damaged or missing bytes come back as Code::corrupt or Code::miss, never as data. A get
// may also tell how many layers of its batch have landed (TierLanding). A store never decides what
// to keep beyond its own size limit: it is told (put, erase), and inside its limit it drops what
// its policy values least.
//
// Threads: every verb may be called from any thread. Completions run on a thread of the store's,
// once per batch, must not block and must not call back into the store. Buffers must stay valid and
// unchanged until the completion ran. Destruction waits for work in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/hash128.h"
#include "core/tier.h"
#include "format/slab.h"

namespace quire {

struct TierCaps {
    bool durable = false;    // survives the process
    bool remote = false;     // another process or host may hold the bytes
    bool zero_copy = false;  // offers stable pointers to its bytes
    bool lists = false;      // list() enumerates what it holds
    bool copies = false;     // a get is the CPU's work, not a device's
};

struct TierInfo {
    Tier tier = Tier::g2;
    std::string name;  // "host", "disk"
    TierCaps caps;
    uint64_t capacity_bytes = 0;
    uint64_t at_once_bytes = 0;  // a get of up to this much lands at about one moment
};

struct TierStats {
    uint64_t blocks = 0;
    uint64_t used_bytes = 0;
    uint64_t capacity_bytes = 0;
    uint64_t gets = 0, get_hits = 0, get_bytes = 0, get_ns = 0;
    uint64_t puts = 0, puts_rejected = 0, put_bytes = 0, put_ns = 0;
    uint64_t evicted_blocks = 0, corrupt_blocks = 0, io_errors = 0;
    uint64_t pending = 0;
    // Of a store that packs slabs: how, their bytes before and after, and the time it took.
    std::string packing;
    uint64_t packed_blocks = 0, unpacked_blocks = 0, pack_failures = 0;
    uint64_t packed_from_bytes = 0, packed_to_bytes = 0;
    uint64_t pack_ns = 0, unpack_ns = 0;
    bool degraded = false;     // refusing puts (disk full, read-only, device errors)
    std::string degraded_why;  // for people; empty when healthy
};

struct TierPut {
    BlockKey key;
    std::span<const std::byte> slab;  // sealed (format/slab.h), 4 KiB aligned, multiple of 4 KiB
    uint32_t value = 1;               // relative worth when space runs out; higher stays longer
};

struct TierGet {
    BlockKey key;
    std::span<std::byte> into;  // 4 KiB aligned, exactly the slab's size
    bool or_less = false;       // a smaller slab is welcome too (without a landing)
    bool as_stored = false;  // packed as it lies there, if it is; of all blocks of a batch or none
};

struct TierEntry {
    BlockKey key;
    BlockKey parent_key;
    uint32_t bytes = 0;
};

// What the keys of some slabs have in common besides tenant and group.
struct SlabOrigin {
    ModelId model;
    Hash128 layout_digest;
    uint32_t codec = kCodecRaw16;
    uint32_t block_tokens = 0;
    friend bool operator==(const SlabOrigin&, const SlabOrigin&) = default;
};

using TierDone = std::function<void(std::span<const Status> results)>;
// One block that a store gave up to make room: its whole sealed slab, packed as it lay there, valid
// during the call only.
using TierEvicted = std::function<void(std::span<const std::byte> slab)>;

// Given to a get whose caller can use a slab's first layers before its last ones. All slabs of such
// a batch have the same number and size of layers. Both functions are called on threads of the
// store's, before done; they must not block. A store may also never call them and just complete.
struct TierLanding {
    uint32_t layers = 0;  // of each slab; 0: nobody wants to know
    uint32_t layer_bytes = 0;
    // Layers [0, n) of every slab of the batch are in place and verified, headers and keys too. n
    // grows from call to call; n == layers (padding verified as well) promises that done says ok
    // for every block.
    std::function<void(uint32_t n)> landed;
    // Some block of the batch failed: the last layers will never land. Others of the batch go on.
    std::function<void()> failed;
};

class TierStore {
 public:
    virtual ~TierStore() = default;

    virtual TierInfo info() const = 0;
    // One byte per key: 1 if a get would probably succeed. No I/O, no waiting for I/O.
    virtual void contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const = 0;
    // busy for the whole batch when the store's queue bound is reached (done is then not called).
    // Per block: ok, miss, corrupt, io; invalid: the slab is not of the buffer's size; unsupported:
    // it is packed in a way that this store does not read.
    virtual Status get(std::vector<TierGet> batch, TierDone done, TierLanding landing) = 0;
    // Per block: ok (stored, or already there), rejected, full, io. busy as for get. Slabs may come
    // as another store of the same cache had them (on_evicted, TierGet::as_stored).
    virtual Status put(std::vector<TierPut> batch, TierDone done) = 0;
    // Forgets blocks; unknown keys are ignored. A get in flight may still succeed.
    virtual void erase(std::span<const BlockKey> keys) = 0;
    // Everything held, in no order; `unsupported` without caps.lists.
    virtual Result<std::vector<TierEntry>> list() const = 0;
    virtual TierStats stats() const = 0;
    // From now on `evicted` hears of each block given up for room (not of what was erased or was
    // damaged), on a thread of the store's that is about to reuse the memory; it must not block and
    // must not call back into the store. Empty: nobody listens any more. REQUIRES: no put is in
    // flight. A store whose bytes are not at hand when it evicts ignores this.
    virtual void on_evicted(TierEvicted /*evicted*/) {}
    // Whose slabs were found when the store was opened, as far as a bounded look showed; only for
    // telling why something misses. Empty for what does not outlive the process.
    virtual std::vector<SlabOrigin> origins() const { return {}; }
    // While on, somebody waits for what was put: work that goes slowly behind everybody's back goes
    // as fast as it can.
    virtual void hurry(bool /*on*/) {}
    // Waits until everything accepted so far is stored (durably, where caps.durable) or failed.
    virtual Status flush(int64_t timeout_ns) = 0;
};

}  // namespace quire
