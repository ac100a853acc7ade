// The victim of disk_crash_test: stores blocks until it is killed, and tells which ones were
// acknowledged.
//
//   quire_tier_crash_writer DIR CAPACITY_BYTES FIRST_NUMBER
//
// Blocks FIRST_NUMBER, FIRST_NUMBER + 1, ... go out in batches of kCrashBatch; when a batch is
// acknowledged, the number of its first block is written to stdout as 8 bytes.
#include <cstdlib>
#include <thread>

#include <unistd.h>

#include "tier/disk/disk.h"
#include "tier/testing/crash_blocks.h"

namespace {

using namespace quire;
using namespace quire::testing;

constexpr uint64_t kBatchesAhead = 4;
constexpr uint64_t kMostBatches = 400;

void tell(uint64_t first) {
    QUIRE_CHECK(::write(STDOUT_FILENO, &first, sizeof(first)) == sizeof(first), "the parent left");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    auto io = make_io_engine({});
    if (!io.ok()) return 3;
    DiskOptions options;
    options.dir = argv[1];
    options.capacity_bytes = std::strtoull(argv[2], nullptr, 10);
    options.segment_bytes = 1 << 20;
    options.checkpoint_bytes = 4096;  // many checkpoints, to be killed inside one
    options.io = io->get();
    auto store = open_disk_store(options);
    if (!store.ok()) return 4;
    uint64_t first = std::strtoull(argv[3], nullptr, 10);
    std::vector<std::vector<AlignedBytes>> blocks(kBatchesAhead);
    std::vector<Pending> pending(kBatchesAhead);
    for (uint64_t batch = 0; batch < kMostBatches; batch++) {
        const uint64_t place = batch % kBatchesAhead;
        if (batch >= kBatchesAhead) {
            for (const Status& status : pending[place].wait()) {
                if (!status.ok()) return 5;
            }
            tell(first + (batch - kBatchesAhead) * kCrashBatch);
        }
        blocks[place].clear();
        std::vector<TierPut> puts;
        for (uint64_t i = 0; i < kCrashBatch; i++) {
            blocks[place].push_back(crash_block(first + batch * kCrashBatch + i));
        }
        for (const AlignedBytes& block : blocks[place]) puts.push_back(put_of(block));
        pending[place] = Pending();
        if (!(*store)->put(std::move(puts), pending[place].done()).ok()) return 6;
    }
    for (Pending& last : pending) last.wait();
    return 0;
}
