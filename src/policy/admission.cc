#include <algorithm>
#include <bit>
#include <vector>

#include "policy/plan.h"

namespace quire {
namespace {

class AdmitAll final : public AdmissionPolicy {
 public:
    void record(const Hash128&) override {}
    bool admit(const Hash128&) override { return true; }
};

class AdmitNone final : public AdmissionPolicy {
 public:
    void record(const Hash128&) override {}
    bool admit(const Hash128&) override { return false; }
};

// Seen at least twice lately. Two Bloom filters take turns: the young one learns until it has seen
// `capacity` different blocks, then it becomes the old one and an empty one starts; so a block is
// remembered for one to two capacities, in 4 bytes a block, and false yeses stay below 1 %.
class SecondUse final : public AdmissionPolicy {
 public:
    explicit SecondUse(uint32_t capacity)
        : capacity_(std::max(capacity, 64u)),
          bits_(std::bit_ceil(uint64_t{capacity_} * kBitsPerBlock)) {
        for (Generation& generation : generations_) generation.clear(bits_);
    }

    void record(const Hash128& hash) override {
        const bool before = young().first.has(hash) || old().first.has(hash);
        if (before) {
            young().second.set(hash);
        }
        if (young().first.set(hash) && ++learnt_ >= capacity_) {
            learnt_ = 0;
            turn_ ^= 1;
            young().clear(bits_);
        }
    }

    bool admit(const Hash128& hash) override {
        return young().second.has(hash) || old().second.has(hash);
    }

 private:
    static constexpr uint64_t kBitsPerBlock = 16;
    static constexpr int kProbes = 4;

    struct Filter {
        std::vector<uint64_t> words;

        template <typename Visit>
        static void probe(const Hash128& hash, uint64_t mask, Visit visit) {
            const uint64_t step = hash.hi | 1;
            for (int i = 0; i < kProbes; ++i) visit((hash.lo + i * step) & mask);
        }
        uint64_t mask() const { return words.size() * 64 - 1; }
        bool has(const Hash128& hash) const {
            bool all = true;
            probe(hash, mask(),
                  [&](uint64_t bit) { all &= (words[bit / 64] >> bit % 64 & 1) != 0; });
            return all;
        }
        // True if that changed anything.
        bool set(const Hash128& hash) {
            bool changed = false;
            probe(hash, mask(), [&](uint64_t bit) {
                const uint64_t one = uint64_t{1} << bit % 64;
                changed |= (words[bit / 64] & one) == 0;
                words[bit / 64] |= one;
            });
            return changed;
        }
    };
    struct Generation {
        Filter first;   // seen
        Filter second;  // seen again
        void clear(uint64_t bits) {
            first.words.assign(bits / 64, 0);
            second.words.assign(bits / 64, 0);
        }
    };

    Generation& young() { return generations_[turn_]; }
    Generation& old() { return generations_[turn_ ^ 1]; }

    uint32_t capacity_;
    uint64_t bits_;
    uint32_t learnt_ = 0;
    int turn_ = 0;
    Generation generations_[2];
};

constexpr AdmissionRow kRows[] = {
    {"all", "every block that is computed or demoted",
     [](uint32_t) -> std::unique_ptr<AdmissionPolicy> { return std::make_unique<AdmitAll>(); }},
    {"second-use", "blocks used at least twice lately (ageing Bloom filters)",
     [](uint32_t capacity) -> std::unique_ptr<AdmissionPolicy> {
         return std::make_unique<SecondUse>(capacity);
     }},
    {"none", "nothing: the tier only serves what it already holds",
     [](uint32_t) -> std::unique_ptr<AdmissionPolicy> { return std::make_unique<AdmitNone>(); }},
};

}  // namespace

std::span<const AdmissionRow> admission_table() {
    return kRows;
}

const AdmissionRow* find_admission(std::string_view name) {
    for (const AdmissionRow& row : kRows) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

}  // namespace quire
