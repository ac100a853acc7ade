// What only the disk store does: surviving restarts.
#include <gtest/gtest.h>

#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;

TEST(DiskStore, ServesAfterCleanReopen) {
    DiskFixture disk;
    std::vector<AlignedBytes> slabs;
    for (uint64_t i = 1; i <= 50; i++) slabs.push_back(make_slab(i, i - 1));
    for (const auto& slab : slabs) ASSERT_TRUE(put_one(disk.store(), slab).ok());
    disk.reopen();
    EXPECT_EQ(disk.store().stats().blocks, 50u);
    for (const auto& slab : slabs) EXPECT_TRUE(reads_back(disk.store(), slab));
}

}  // namespace
}  // namespace quire
