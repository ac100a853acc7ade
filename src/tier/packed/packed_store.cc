#include "tier/packed/packed_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "tier/packed/pack_counters.h"
#include "tier/packed/packer.h"
#include "tier/packed/unpacker.h"

namespace quire {
namespace {

class PackedStore final : public TierStore {
 public:
    PackedStore(TierStore& inner, const PackedOptions& options)
        : options_(options),
          inner_(inner),
          packer_(inner, options, counters_),
          unpacker_(options.packing ? std::make_unique<Unpacker>(inner, options, counters_)
                                    : nullptr) {}

    TierInfo info() const override {
        TierInfo info = inner_.info();
        if (!unpacker_) return info;
        info.caps.zero_copy = false;
        info.caps.copies = true;
        info.at_once_bytes = std::numeric_limits<uint64_t>::max();
        return info;
    }

    void contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const override {
        inner_.contains(keys, present);
    }

    Status get(std::vector<TierGet> batch, TierDone done, TierLanding landing) override {
        if (!unpacker_ || (!batch.empty() && batch.front().as_stored))
            return inner_.get(std::move(batch), std::move(done), std::move(landing));
        if (!enter(counters_.pending_gets))
            return make_error(Code::busy, "too many packed reads waiting");
        const Status accepted = unpacker_->get(std::move(batch), std::move(done));
        if (!accepted.ok()) counters_.pending_gets -= 1;
        return accepted;
    }

    Status put(std::vector<TierPut> batch, TierDone done) override {
        if (!enter(counters_.pending_puts))
            return make_error(Code::busy, "too many slabs waiting to be packed");
        packer_.post(std::move(batch), std::move(done));
        return {};
    }

    void erase(std::span<const BlockKey> keys) override { inner_.erase(keys); }
    Result<std::vector<TierEntry>> list() const override { return inner_.list(); }

    TierStats stats() const override {
        TierStats stats = inner_.stats();
        if (options_.packing) stats.packing = options_.packing->name();
        stats.packed_blocks = counters_.packed_blocks;
        stats.unpacked_blocks = counters_.unpacked_blocks;
        stats.pack_failures = counters_.failures;
        stats.packed_from_bytes = counters_.from_bytes;
        stats.packed_to_bytes = counters_.to_bytes;
        stats.pack_ns = counters_.pack_ns;
        stats.unpack_ns = counters_.unpack_ns;
        stats.pending += counters_.pending_gets + counters_.pending_puts;
        return stats;
    }

    void on_evicted(TierEvicted evicted) override { inner_.on_evicted(std::move(evicted)); }
    std::vector<SlabOrigin> origins() const override { return inner_.origins(); }

    void hurry(bool on) override { packer_.hurry(on); }

    Status flush(int64_t timeout_ns) override {
        const int64_t end_ns = options_.clock->monotonic_ns() + timeout_ns;
        QUIRE_TRY(packer_.flush(timeout_ns));
        return inner_.flush(std::max<int64_t>(0, end_ns - options_.clock->monotonic_ns()));
    }

 private:
    bool enter(std::atomic<uint64_t>& pending) const {
        uint64_t now = pending.load();
        do {
            if (now >= options_.max_pending_batches) return false;
        } while (!pending.compare_exchange_weak(now, now + 1));
        return true;
    }

    const PackedOptions options_;
    PackCounters counters_;
    TierStore& inner_;
    Packer packer_;
    const std::unique_ptr<Unpacker> unpacker_;  // null: what is stored is read as it is
};

}  // namespace

std::unique_ptr<TierStore> make_packed_store(TierStore& inner, const PackedOptions& options) {
    QUIRE_CHECK(
        (options.packing || options.above) && options.pack_share > 0 && options.pack_share <= 1,
        "a packed store needs a packing, its own or one above, and a share of a core");
    return std::make_unique<PackedStore>(inner, options);
}

}  // namespace quire
