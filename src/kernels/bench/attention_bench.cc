#include "kernels/bench/attention_bench.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "kernels/bench/probes.h"
#include "kernels/bench/team.h"

namespace quire::kernels::bench {
namespace {

// Distinct slabs of the run "in cache": 4 blocks x 3 heads x 4 KiB, well inside any L2.
constexpr int32_t kCachedBlocks = 4;
constexpr size_t kLine = 64;

double median(std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
    return v[v.size() / 2];
}

AttnShape shape_of(const AttentionCase& c) {
    AttnShape s;
    s.n_heads = c.n_heads;
    s.n_kv_heads = c.n_kv_heads;
    s.head_dim = c.head_dim;
    s.block_tokens = c.block_tokens;
    s.element = c.element;
    s.window = c.window;
    s.scale = 0.125f;
    s.page_bytes = int64_t{4} * c.head_dim * c.block_tokens;
    return s;
}

int64_t visible_pairs(const AttentionCase& c, int32_t n_rows) {
    int64_t pairs = 0;
    for (int32_t p = c.n_keys - n_rows; p < c.n_keys; ++p)
        pairs += c.window > 0 ? std::min(p + 1, c.window) : p + 1;
    return pairs * c.n_heads;
}

// One sequence's pages of all layers in shuffled slabs, and the batch of its last n_rows rows a
// layer.
class Stage {
 public:
    static Result<std::unique_ptr<Stage>> create(const AttentionOps& ops, const AttentionCase& c,
                                                 int32_t n_rows, int n_threads) {
        auto stage = std::unique_ptr<Stage>(new Stage(ops, c, n_rows, n_threads));
        const size_t slab = stage->slab_bytes();
        const size_t blocks = (c.n_keys + c.block_tokens - 1) / c.block_tokens;
        auto arena = Arena::create({.bytes = blocks * slab, .prefault = true});
        if (!arena.ok()) return arena.error();
        stage->arena_ = std::move(arena).value();
        stage->fill(blocks);
        stage->size_workspace();
        return stage;
    }

    // One step through all layers by the whole team. `cached`: every layer and block in a few
    // pages.
    double step_s(bool cached) {
        for (auto& cursor : cursors_) cursor.store(0);
        const int64_t begin = system_clock().monotonic_ns();
        team_.run([&](int t) {
            for (int32_t layer = 0; layer < case_.layers; ++layer) {
                AttnSequence s = sequence_;
                AttnBatch batch{shape_, {&s, 1}, workspace_, &cursors_[layer]};
                if (cached)
                    s.slabs = cached_slabs_.data();
                else
                    batch.shape.layer_offset = layer * case_.n_kv_heads * shape_.page_bytes;
                ops_.run(batch, t, team_.size());
                team_.meet();
            }
        });
        return seconds_since(begin);
    }

    // A plain read of the pages that a step reads, each thread its share, in the step's order.
    double read_s(const Probes& p) {
        const int64_t begin = system_clock().monotonic_ns();
        std::atomic<uint64_t> sink = 0;
        const int32_t first =
            case_.window > 0 ? (case_.n_keys - case_.window) / case_.block_tokens : 0;
        const int32_t n = static_cast<int32_t>(slabs_.size()) - first;
        team_.run([&](int t) {
            uint64_t sum = 0;
            const int32_t from = first + n * t / team_.size(),
                          to = first + n * (t + 1) / team_.size();
            for (int32_t page = 0; page < case_.layers * case_.n_kv_heads; ++page)
                for (int32_t b = from; b < to; ++b)
                    sum += p.read(slabs_[b] + page * shape_.page_bytes, shape_.page_bytes);
            sink += sum;
        });
        return seconds_since(begin);
    }

    double bytes() const {
        const int32_t keys = case_.window > 0 ? std::min(case_.window, case_.n_keys) : case_.n_keys;
        return 4.0 * keys * case_.head_dim * case_.n_kv_heads * case_.layers;
    }
    Team& team() { return team_; }

 private:
    Stage(const AttentionOps& ops, const AttentionCase& c, int32_t n_rows, int n_threads)
        : ops_(ops),
          case_(c),
          shape_(shape_of(c)),
          n_rows_(n_rows),
          team_(n_threads),
          cursors_(c.layers) {}

    static double seconds_since(int64_t begin_ns) {
        return static_cast<double>(system_clock().monotonic_ns() - begin_ns) * 1e-9;
    }
    size_t slab_bytes() const {
        const size_t bytes = case_.layers * case_.n_kv_heads * shape_.page_bytes;
        return (bytes + kSlabAlign - 1) / kSlabAlign * kSlabAlign;
    }

    void fill(size_t blocks) {
        std::mt19937_64 rng(1);
        std::vector<uint16_t> noise(size_t{1} << 16);  // of size 1/4 to 1/2, either sign
        for (uint16_t& x : noise)
            x = case_.element == Element::f16 ? 0x3400 | (rng() & 0x83ff)
                                              : 0x3e80 | (rng() & 0x807f);
        auto* words = reinterpret_cast<uint16_t*>(arena_.data());
        for (size_t i = 0; i < arena_.size() / 2; ++i) words[i] = noise[i % (noise.size() - 1)];
        std::vector<size_t> order(blocks);
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), rng);
        for (size_t i : order) slabs_.push_back(arena_.data() + i * slab_bytes());
        for (size_t i = 0; i < blocks; ++i) cached_slabs_.push_back(slabs_[i % kCachedBlocks]);
        const int64_t width = int64_t{case_.n_heads} * case_.head_dim;
        std::normal_distribution<float> normal;
        q_.resize(n_rows_ * width);
        for (float& x : q_) x = normal(rng);
        out_.resize(q_.size());
        sequence_ = {.slabs = slabs_.data(),
                     .first_pos = case_.n_keys - n_rows_,
                     .n_rows = n_rows_,
                     .q = q_.data(),
                     .out = out_.data(),
                     .q_row_stride = width,
                     .out_row_stride = width};
    }

    void size_workspace() {
        const size_t bytes = ops_.workspace_bytes(shape_, {&sequence_, 1}, team_.size());
        memory_.resize(bytes + kLine);
        void* at = memory_.data();
        size_t space = memory_.size();
        std::align(kLine, bytes, at, space);
        workspace_ = {static_cast<std::byte*>(at), bytes};
    }

    const AttentionOps& ops_;
    const AttentionCase case_;
    const AttnShape shape_;
    const int32_t n_rows_;
    Team team_;
    std::vector<std::atomic<int32_t>> cursors_;
    Arena arena_;
    std::vector<std::byte*> slabs_, cached_slabs_;
    std::vector<float> q_, out_;
    AttnSequence sequence_;
    std::vector<std::byte> memory_;
    std::span<std::byte> workspace_;
};

Status check_case(const AttentionOps& ops, const AttentionCase& c) {
    if (!ops.cpu_has_it())
        return make_error(Code::unsupported, std::string("this CPU has no ") + ops.name);
    if (const char* why = ops.supports(shape_of(c)))
        return make_error(Code::unsupported, std::string(c.name) + ": " + why);
    return {};
}

// One run of plain multiply-adds by the whole team.
struct PeakRun {
    double flop = 0;
    double seconds = 0;
};

PeakRun run_peak(Team& team, const Probes& p) {
    constexpr int64_t kRounds = 400'000;
    std::vector<double> flop(team.size());
    const int64_t begin = system_clock().monotonic_ns();
    team.run([&](int t) { flop[t] = p.multiply_add(kRounds); });
    return {std::accumulate(flop.begin(), flop.end(), 0.0),
            static_cast<double>(system_clock().monotonic_ns() - begin) * 1e-9};
}

}  // namespace

const Probes& probes(Isa isa) {
    return isa == Isa::avx512 ? kAvx512Probes : kAvx2Probes;
}

Result<DecodeResult> measure_decode(const AttentionOps& ops, const AttentionCase& c, int n_threads,
                                    int repeats) {
    if (Status s = check_case(ops, c); !s.ok()) return s.error();
    auto stage = Stage::create(ops, c, 1, n_threads);
    if (!stage.ok()) return stage.error();
    Stage& run = *stage.value();
    std::vector<double> kernel, read, cached;
    for (int i = -1; i < repeats; ++i) {  // the first round warms up
        const double k = run.step_s(false), r = run.read_s(probes(ops.isa)), l = run.step_s(true);
        if (i < 0) continue;
        kernel.push_back(k);
        read.push_back(r);
        cached.push_back(l);
    }
    return DecodeResult{.kernel_s = median(kernel),
                        .read_s = median(read),
                        .in_cache_s = median(cached),
                        .bytes = run.bytes(),
                        .flop = 4.0 * c.head_dim * visible_pairs(c, 1) * c.layers};
}

Result<PrefillResult> measure_prefill(const AttentionOps& ops, const AttentionCase& c,
                                      int32_t n_rows, int n_threads, int repeats) {
    if (Status s = check_case(ops, c); !s.ok()) return s.error();
    auto stage = Stage::create(ops, c, n_rows, n_threads);
    if (!stage.ok()) return stage.error();
    Stage& run = *stage.value();
    std::vector<double> kernel, peak;
    double peak_flop = 0;
    for (int i = -1; i < repeats; ++i) {
        const double k = run.step_s(false);
        const PeakRun p = run_peak(run.team(), probes(ops.isa));
        peak_flop = p.flop;
        if (i < 0) continue;
        kernel.push_back(k);
        peak.push_back(p.seconds);
    }
    return PrefillResult{.kernel_s = median(kernel),
                         .flop = 4.0 * c.head_dim * visible_pairs(c, n_rows) * c.layers,
                         .peak_flop_s = peak_flop / median(peak)};
}

}  // namespace quire::kernels::bench
