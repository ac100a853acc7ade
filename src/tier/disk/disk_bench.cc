#include "tier/disk/disk_bench.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>

#include "base/arena.h"
#include "base/hash.h"
#include "format/slab.h"
#include "tier/disk/disk.h"
#include "tier/disk/disk_reference.h"

namespace quire {
namespace {

constexpr uint64_t kBatchBytes = 16ull << 20;  // a request's worth of blocks
constexpr uint64_t kBatchesAhead = 8;
constexpr int64_t kFlushNs = 60'000'000'000;

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Lets `limit` batches run at once and collects the first error.
class Batches {
 public:
    TierDone start() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return running_ < kBatchesAhead; });
        running_++;
        return [this](std::span<const Status> results) { finish(results); };
    }
    void refused(const Status& status) { finish(std::span(&status, 1)); }
    Status wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return running_ == 0; });
        return first_error_;
    }

 private:
    void finish(std::span<const Status> results) {
        std::lock_guard lock(mutex_);
        for (const Status& status : results) {
            if (!status.ok() && first_error_.ok()) first_error_ = status;
        }
        running_--;
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    uint64_t running_ = 0;
    Status first_error_;
};

class Bench {
 public:
    Bench(const DiskBenchOptions& options, uint64_t slab_bytes, IoEngine& io,
          std::span<std::byte> memory)
        : options_(options), slab_bytes_(slab_bytes), io_(io), memory_(memory) {
        count_ = options.total_bytes / slab_bytes;
        store_dir_ = options.dir + "/quire-bench-store";
        pattern_ = {options.dir, count_ * slab_bytes, slab_bytes, options.depth};
        use_fio_ = have_fio();
    }

    Result<std::vector<DiskBenchRow>> run() {
        std::vector<double> ours[2], theirs[2], ratios[2];
        for (int repeat = 0; repeat < options_.repeats; repeat++) {
            seal_all(static_cast<uint64_t>(repeat));
            // Alternate who goes first, so that a device that slows down slows both.
            Result<Pair> mine = make_error(Code::bug, ""), other = mine;
            if (repeat % 2 == 0) other = reference();
            mine = measure();
            if (repeat % 2 != 0) other = reference();
            if (!mine.ok()) return mine.error();
            if (!other.ok()) return other.error();
            for (int i = 0; i < 2; i++) {
                ours[i].push_back((*mine)[i] / 1e9);
                theirs[i].push_back((*other)[i] / 1e9);
                ratios[i].push_back((*mine)[i] / (*other)[i]);
            }
            report(repeat, *mine, *other);
        }
        std::vector<DiskBenchRow> rows(2);
        for (int i = 0; i < 2; i++) {
            rows[i].what = std::string(i == 0 ? "G3 write, " : "G3 read, ") +
                           std::to_string(slab_bytes_ >> 20) + " MiB slabs";
            rows[i].measured_gb_s = median(ours[i]);
            rows[i].reference_gb_s = median(theirs[i]);
            rows[i].ratio = median(ratios[i]);
            rows[i].reference = use_fio_ ? "fio" : "plain O_DIRECT loop (fio is not installed)";
        }
        return rows;
    }

 private:
    using Pair = std::array<double, 2>;  // write, read

    BlockKey key(uint64_t i) const {
        uint64_t seed[2] = {i, slab_bytes_};
        Digest128 d = xxh3_128(std::as_bytes(std::span(seed)));
        return {{d.hi, d.lo}};
    }
    std::span<std::byte> slab(uint64_t i) { return memory_.subspan(i * slab_bytes_, slab_bytes_); }

    void seal_all(uint64_t round) {
        for (uint64_t i = 0; i < count_; i++) {
            std::span<std::byte> bytes = slab(i);
            SlabHeader& header = *new (bytes.data()) SlabHeader();
            header.key = key(i);
            if (i % 64 != 0) header.parent_key = key(i - 1);
            header.token_count = 16;
            header.layer_count = 1;
            header.payload_bytes = static_cast<uint32_t>(slab_bytes_ - kSlabHeaderBytes);
            header.layer_bytes = header.payload_bytes;
            uint64_t x = i * 7919 + round;
            for (size_t at = kSlabHeaderBytes; at < slab_bytes_; at += 8) {
                x = x * 6364136223846793005ull + 1442695040888963407ull;
                std::memcpy(bytes.data() + at, &x, 8);
            }
            seal_slab(bytes);
        }
    }

    Result<Pair> reference() {
        Pair pair;
        for (int i = 0; i < 2; i++) {
            auto rate =
                use_fio_ ? run_fio(pattern_, i == 0) : run_direct_loop(pattern_, i == 0, io_);
            if (!rate.ok()) return rate.error();
            pair[i] = *rate;
        }
        remove_scratch(pattern_);
        return pair;
    }

    Result<Pair> measure() {
        std::error_code ignored;
        std::filesystem::remove_all(store_dir_, ignored);
        auto pair = measure_store();
        std::filesystem::remove_all(store_dir_, ignored);
        return pair;
    }

    Result<Pair> measure_store() {
        DiskOptions options;
        options.dir = store_dir_;
        options.capacity_bytes = pattern_.file_bytes * 2 + (1ull << 30);
        options.io_depth = options_.depth;
        options.io = &io_;
        auto store = open_disk_store(options);
        if (!store.ok()) return store.error();
        auto write = timed([&] { return put_all(**store); });
        if (!write.ok()) return write.error();
        if (Status status = (*store)->flush(kFlushNs); !status.ok()) return status.error();
        auto read = timed([&] { return get_all(**store); });
        if (!read.ok()) return read.error();
        return Pair{*write, *read};
    }

    template <typename F>
    Result<double> timed(F&& f) {
        const int64_t start = system_clock().monotonic_ns();
        Status status = f();
        if (!status.ok()) return status.error();
        const auto ns = static_cast<double>(system_clock().monotonic_ns() - start);
        return static_cast<double>(pattern_.file_bytes) * 1e9 / ns;
    }

    Status put_all(TierStore& store) {
        return in_batches<TierPut>([&](uint64_t i) { return TierPut{key(i), slab(i), 1}; },
                                   [&](std::vector<TierPut> batch, TierDone done) {
                                       return store.put(std::move(batch), std::move(done));
                                   });
    }
    Status get_all(TierStore& store) {
        return in_batches<TierGet>([&](uint64_t i) { return TierGet{key(i), slab(i)}; },
                                   [&](std::vector<TierGet> batch, TierDone done) {
                                       return store.get(std::move(batch), std::move(done), {});
                                   });
    }

    template <typename T, typename Make, typename Send>
    Status in_batches(Make&& make, Send&& send) {
        Batches batches;
        const uint64_t each = std::max<uint64_t>(1, kBatchBytes / slab_bytes_);
        for (uint64_t i = 0; i < count_; i += each) {
            std::vector<T> batch;
            for (uint64_t j = i; j < std::min(i + each, count_); j++) batch.push_back(make(j));
            if (Status sent = send(std::move(batch), batches.start()); !sent.ok()) {
                batches.refused(sent);
            }
        }
        return batches.wait();
    }

    void report(int repeat, const Pair& mine, const Pair& other) const {
        if (!options_.progress) return;
        char line[160];
        std::snprintf(line, sizeof(line),
                      "%llu MiB slabs, run %d: write %.2f of %.2f GB/s, read %.2f of %.2f GB/s",
                      static_cast<unsigned long long>(slab_bytes_ >> 20), repeat + 1, mine[0] / 1e9,
                      other[0] / 1e9, mine[1] / 1e9, other[1] / 1e9);
        options_.progress(line);
    }

    const DiskBenchOptions& options_;
    uint64_t slab_bytes_;
    IoEngine& io_;
    std::span<std::byte> memory_;
    uint64_t count_ = 0;
    std::string store_dir_;
    DirectPattern pattern_;
    bool use_fio_ = false;
};

}  // namespace

Result<std::vector<DiskBenchRow>> run_disk_bench(const DiskBenchOptions& options) {
    auto io = make_io_engine({});
    if (!io.ok()) return io.error();
    auto memory = Arena::create({.bytes = options.total_bytes, .prefault = true});
    if (!memory.ok()) return memory.error();
    std::vector<DiskBenchRow> rows;
    for (uint64_t slab_bytes : options.slab_bytes) {
        auto measured = Bench(options, slab_bytes, **io, memory->bytes()).run();
        if (!measured.ok()) return measured.error();
        rows.insert(rows.end(), measured->begin(), measured->end());
    }
    return rows;
}

}  // namespace quire
