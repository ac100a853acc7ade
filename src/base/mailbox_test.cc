#include "base/mailbox.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr int64_t kLong = 60'000'000'000;

TEST(Mailbox, DrainsInOrderAndOnce) {
    Mailbox<int> box;
    box.post(1);
    box.post(2);
    EXPECT_TRUE(box.wait(0));
    EXPECT_EQ(box.drain(), (std::vector<int>{1, 2}));
    EXPECT_TRUE(box.drain().empty());
    EXPECT_FALSE(box.wait(0));
}

TEST(Mailbox, NotifyWakesWithoutAMessage) {
    Mailbox<int> box;
    std::thread other([&box] { box.notify(); });
    EXPECT_TRUE(box.wait(kLong));
    other.join();
    EXPECT_TRUE(box.drain().empty());
    EXPECT_FALSE(box.wait(1));
}

TEST(Mailbox, EveryMessageOfEveryThreadArrivesOnce) {
    Mailbox<std::unique_ptr<int>> box;
    std::vector<std::thread> senders;
    for (int t = 0; t < 4; ++t)
        senders.emplace_back([&box, t] {
            for (int i = 0; i < 500; ++i) box.post(std::make_unique<int>(t * 500 + i));
        });
    std::vector<int> seen(2000);
    for (int received = 0; received < 2000;) {
        ASSERT_TRUE(box.wait(kLong));
        for (const auto& message : box.drain()) {
            ++seen[static_cast<size_t>(*message)];
            ++received;
        }
    }
    for (std::thread& sender : senders) sender.join();
    for (const int count : seen) ASSERT_EQ(count, 1);
}

}  // namespace
}  // namespace quire
