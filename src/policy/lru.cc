// Least recently used, with the order inside a chain given by the callers' last-to-first touches.
#include <vector>

#include "base/check.h"
#include "policy/id_list.h"
#include "policy/policies.h"

namespace quire {
namespace {

class Lru final : public EvictionPolicy {
 public:
    explicit Lru(uint32_t capacity) : lists_(capacity, 1), present_(capacity) {}

    void insert(uint32_t id, const EvictBlock&) override {
        QUIRE_CHECK(id < present_.size() && !present_[id], "insert of an unknown or known id");
        present_[id] = true;
        lists_.push_newest(0, id);
    }

    void touch(uint32_t id) override {
        QUIRE_CHECK(id < present_.size() && present_[id], "touch of an absent id");
        lists_.remove(0, id);
        lists_.push_newest(0, id);
    }

    void erase(uint32_t id) override {
        QUIRE_CHECK(id < present_.size() && present_[id], "erase of an absent id");
        present_[id] = false;
        lists_.remove(0, id);
    }

    size_t take_victims(std::span<uint32_t> out, Evictable evictable) override {
        return scan_until_dry(out, [&](std::span<uint32_t> rest) { return scan(rest, evictable); });
    }

    size_t size() const override { return lists_.size(0); }

 private:
    size_t scan(std::span<uint32_t> out, Evictable evictable) {
        size_t taken = 0;
        for (uint32_t id = lists_.oldest(0); id != kNoId && taken < out.size();) {
            const uint32_t next = lists_.newer(id);
            if (evictable(id)) {
                erase(id);
                out[taken++] = id;
            }
            id = next;
        }
        return taken;
    }

    IdLists lists_;
    std::vector<bool> present_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru(uint32_t capacity) {
    return std::make_unique<Lru>(capacity);
}

}  // namespace quire
