#include "kernels/bench/attention_bench.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "codec/hot/layout.h"
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
    if (c.k_bits == 0) return s;
    s.codes = {.k_bits = c.k_bits, .v_bits = c.v_bits, .sink_tokens = c.block_tokens};
    s.codes.page_bytes = static_cast<int64_t>(
        codec::hot::page_bytes({c.k_bits, c.v_bits, static_cast<uint32_t>(c.head_dim),
                                static_cast<uint32_t>(c.block_tokens)}));
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
        std::mt19937_64 rng(1);
        const AttnShape& shape = stage->shape_;
        if (Status s = make_slabs(stage->slab_bytes(shape.page_bytes), stage->exact_blocks(),
                                  stage->arena_, stage->slabs_, rng);
            !s.ok())
            return s.error();
        fill_with_numbers(stage->arena_, c.element, rng);
        if (shape.codes.any()) {
            const size_t slab = stage->slab_bytes(shape.codes.page_bytes);
            if (Status s = make_slabs(slab, stage->coded_blocks(), stage->coded_arena_,
                                      stage->coded_slabs_, rng);
                !s.ok())
                return s.error();
            fill_with_codes(stage->coded_arena_, slab, shape, rng);
            if (c.pairs > 0) stage->make_turns(rng);
        }
        stage->make_queries(rng);
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
                AttnBatch batch{shape_, {&s, 1}, workspace_, &cursors_[layer], finished_};
                if (cached)
                    s.slabs = cached_slabs_.data();
                else
                    batch.shape.layer_offset = layer * case_.n_kv_heads * shape_.page_bytes;
                batch.shape.codes.layer_offset = layer * case_.n_kv_heads * shape_.codes.page_bytes;
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
          cursors_(c.layers),
          finished_(static_cast<size_t>(c.n_kv_heads)) {}

    static double seconds_since(int64_t begin_ns) {
        return static_cast<double>(system_clock().monotonic_ns() - begin_ns) * 1e-9;
    }
    size_t slab_bytes(int64_t page_bytes) const {
        const size_t bytes = case_.layers * case_.n_kv_heads * page_bytes;
        return (bytes + kSlabAlign - 1) / kSlabAlign * kSlabAlign;
    }

    // Which blocks some row reads exact, or as codes.
    std::vector<bool> exact_blocks() const {
        const int32_t blocks = (case_.n_keys + case_.block_tokens - 1) / case_.block_tokens;
        std::vector<bool> needed(blocks, true);
        const AttnCodes& codes = shape_.codes;
        const int32_t span = (case_.n_keys - n_rows_) / codes.span_tokens * codes.span_tokens;
        for (int32_t b = 0; codes.any() && b < span / case_.block_tokens; ++b)
            needed[b] = b < codes.sink_tokens / case_.block_tokens;
        return needed;
    }
    std::vector<bool> coded_blocks() const {
        return std::vector<bool>((case_.n_keys + case_.block_tokens - 1) / case_.block_tokens,
                                 true);
    }

    // A slab for every block that is needed, in random order.
    static Status make_slabs(size_t slab, const std::vector<bool>& needed, Arena& arena,
                             std::vector<std::byte*>& slabs, std::mt19937_64& rng) {
        std::vector<size_t> order(std::count(needed.begin(), needed.end(), true));
        auto memory = Arena::create({.bytes = order.size() * slab, .prefault = true});
        if (!memory.ok()) return memory.error();
        arena = std::move(memory).value();
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), rng);
        for (const bool here : needed) {
            slabs.push_back(here ? arena.data() + order.back() * slab : nullptr);
            if (here) order.pop_back();
        }
        return {};
    }

    // Of size 1/4 to 1/2, either sign.
    static void fill_with_numbers(Arena& arena, Element element, std::mt19937_64& rng) {
        std::vector<uint16_t> noise(size_t{1} << 16);
        for (uint16_t& x : noise)
            x = element == Element::f16 ? 0x3400 | (rng() & 0x83ff) : 0x3e80 | (rng() & 0x807f);
        auto* words = reinterpret_cast<uint16_t*>(arena.data());
        for (size_t i = 0; i < arena.size() / 2; ++i) words[i] = noise[i % (noise.size() - 1)];
    }

    // Any codes, with scales that make rows about as large.
    static void fill_with_codes(Arena& arena, size_t slab, const AttnShape& shape,
                                std::mt19937_64& rng) {
        std::vector<uint64_t> noise(size_t{1} << 13);
        for (uint64_t& x : noise) x = rng();
        auto* words = reinterpret_cast<uint64_t*>(arena.data());
        for (size_t i = 0; i < arena.size() / 8; ++i) words[i] = noise[i % (noise.size() - 1)];
        const size_t page = shape.codes.page_bytes, scales = 2 * shape.block_tokens;
        for (size_t at = 0; at + slab <= arena.size(); at += slab)
            for (size_t end = page; end <= slab; end += page)
                std::fill_n(arena.data() + at + end - scales, scales, std::byte{120});
    }

    void make_queries(std::mt19937_64& rng) {
        for (size_t i = 0; i < slabs_.size(); ++i)
            cached_slabs_.push_back(slabs_[i % kCachedBlocks]);
        const int64_t width = int64_t{case_.n_heads} * case_.head_dim;
        std::normal_distribution<float> normal;
        q_.resize(n_rows_ * width);
        for (float& x : q_) x = normal(rng);
        out_.resize(q_.size());
        sequence_ = {.slabs = slabs_.data(),
                     .coded_slabs = coded_slabs_.data(),
                     .first_pos = case_.n_keys - n_rows_,
                     .n_rows = n_rows_,
                     .q = q_.data(),
                     .out = out_.data(),
                     .q_row_stride = width,
                     .out_row_stride = width};
    }

    // Any angles will do: time does not depend on them.
    void make_turns(std::mt19937_64& rng) {
        const int32_t n_angles = case_.head_dim / 2, tiles = case_.n_keys / kKeyTileTokens + 1;
        std::uniform_real_distribution<float> any(-1.0f, 1.0f);
        near_.resize(int64_t{2} * n_angles * kKeyTileTokens);
        far_.resize(int64_t{2} * n_angles * tiles);
        for (float& x : near_) x = any(rng);
        for (float& x : far_) x = any(rng);
        for (int32_t h = 0; h < case_.n_kv_heads; ++h)
            for (int32_t i = 0; i < case_.pairs; ++i)
                pairs_.push_back({static_cast<int16_t>(i), static_cast<int16_t>(i + n_angles), i,
                                  any(rng), any(rng)});
        shape_.codes.turns = {case_.pairs, n_angles, pairs_.data(), near_.data(), far_.data()};
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
    AttnShape shape_;
    const int32_t n_rows_;
    Team team_;
    std::vector<std::atomic<int32_t>> cursors_;
    std::vector<AttnCounter> finished_;
    Arena arena_, coded_arena_;
    std::vector<std::byte*> slabs_, coded_slabs_, cached_slabs_;
    std::vector<float> q_, out_, near_, far_;
    std::vector<AttnPairMean> pairs_;
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

Result<CodesResult> measure_codes(const AttentionOps& ops, const AttentionCase& c, int32_t n_rows,
                                  std::span<const Widths> widths, int n_threads, int repeats) {
    std::vector<std::unique_ptr<Stage>> stages;  // the exact one first
    for (size_t i = 0; i <= widths.size(); ++i) {
        AttentionCase one = c;
        one.k_bits = i == 0 ? 0 : widths[i - 1].k_bits;
        one.v_bits = i == 0 ? 0 : widths[i - 1].v_bits;
        one.pairs = i == 0 ? 0 : widths[i - 1].pairs;
        if (Status s = check_case(ops, one); !s.ok()) return s.error();
        auto stage = Stage::create(ops, one, n_rows, n_threads);
        if (!stage.ok()) return stage.error();
        stages.push_back(std::move(stage).value());
    }
    std::vector<std::vector<double>> times(stages.size());
    for (int round = -1; round < repeats; ++round)
        for (size_t i = 0; i < stages.size(); ++i) {
            const double s = stages[i]->step_s(false);
            if (round >= 0) times[i].push_back(s);
        }
    CodesResult result{.exact_s = median(times[0]), .codes_s = {}};
    for (size_t i = 1; i < times.size(); ++i) result.codes_s.push_back(median(times[i]));
    return result;
}

}  // namespace quire::kernels::bench
