// What every TierStore promises (testing/conformance.h), checked over every store there is. A new
// store joins by one row in stores(); that of a GPU's memory is in tests/gpu/.
#include "tier/testing/conformance.h"

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/io.h"
#include "tier/disk/disk.h"
#include "tier/host/host_store.h"
#include "tier/packed/packed_store.h"
#include "tier/packed/zstd_packing.h"
#include "tier/testing/temp_dir.h"
#include "tier/tier.h"

namespace quire {
namespace {

using namespace quire::testing;

// What a disk's store stands on.
struct DiskGround {
    TempDir dir;
    std::unique_ptr<IoEngine> io;
};

struct StoreRow {
    std::string name;
    MakeStore make;
};

StoreUnderTest make_disk(bool direct, IoKind kind, uint64_t capacity_bytes, uint32_t queue_max) {
    StoreUnderTest bench;
    auto ground = std::make_shared<DiskGround>();
    IoOptions io_options;
    io_options.kind = kind;
    auto io = make_io_engine(io_options);
    QUIRE_CHECK(io.ok(), "no I/O engine");
    ground->io = std::move(*io);
    DiskOptions options;
    options.dir = ground->dir.path();
    options.capacity_bytes = capacity_bytes;
    options.direct_io = direct;
    options.max_pending_batches = queue_max;
    options.io = ground->io.get();
    auto store = open_disk_store(options);
    QUIRE_CHECK(store.ok(), store.ok() ? "" : store.error().message.c_str());
    bench.stands_on = std::move(ground);
    bench.store = std::move(*store);
    return bench;
}

StoreUnderTest make_host(uint64_t capacity_bytes, uint32_t queue_max, bool any_size) {
    StoreUnderTest bench;
    HostOptions options;
    options.layout = conformance_layout();
    options.capacity_bytes = capacity_bytes;
    options.any_size = any_size;
    options.queue_max = queue_max;
    auto store = open_host_store(options);
    QUIRE_CHECK(store.ok(), store.ok() ? "" : store.error().message.c_str());
    bench.store = std::move(*store);
    return bench;
}

StoreUnderTest pack(StoreUnderTest bench, uint32_t queue_max) {
    bench.inner = std::move(bench.store);
    bench.store = make_packed_store(
        *bench.inner,
        {.packing = make_zstd_packing(), .pack_share = 1.0, .max_pending_batches = queue_max});
    return bench;
}

const std::vector<StoreRow>& stores() {
    static const std::vector<StoreRow> rows = {
        {"host", [](uint64_t c, uint32_t q) { return make_host(c, q, false); }},
        {"host_any_size", [](uint64_t c, uint32_t q) { return make_host(c, q, true); }},
        {"host_packed", [](uint64_t c, uint32_t q) { return pack(make_host(c, q, true), q); }},
        {"disk_direct",
         [](uint64_t c, uint32_t q) { return make_disk(true, IoKind::automatic, c, q); }},
        {"disk_buffered",
         [](uint64_t c, uint32_t q) { return make_disk(false, IoKind::automatic, c, q); }},
        {"disk_threads",
         [](uint64_t c, uint32_t q) { return make_disk(true, IoKind::threads, c, q); }},
        {"disk_packed",
         [](uint64_t c, uint32_t q) { return pack(make_disk(true, IoKind::automatic, c, q), q); }},
    };
    return rows;
}

struct ConformanceCase {
    const StoreRow* store;
    const ConformanceCheck* check;
    friend void PrintTo(const ConformanceCase& c, std::ostream* out) {
        *out << c.store->name << " " << c.check->name;
    }
};

std::vector<ConformanceCase> all_cases() {
    std::vector<ConformanceCase> cases;
    for (const StoreRow& store : stores())
        for (const ConformanceCheck& check : conformance_checks())
            cases.push_back({&store, &check});
    return cases;
}

class TierConformance : public ::testing::TestWithParam<ConformanceCase> {};

TEST_P(TierConformance, KeepsItsPromise) {
    try {
        GetParam().check->run(GetParam().store->make);
    } catch (const NotAsPromised& broken) {
        FAIL() << broken.what;
    }
}

INSTANTIATE_TEST_SUITE_P(AllStores, TierConformance, ::testing::ValuesIn(all_cases()),
                         [](const auto& row) {
                             return row.param.store->name + "_" + row.param.check->name;
                         });

}  // namespace
}  // namespace quire
