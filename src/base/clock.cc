#include "base/clock.h"

#include <ctime>

namespace quire {
namespace {

int64_t read_clock_ns(clockid_t id) {
    timespec t{};
    clock_gettime(id, &t);
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class SystemClock final : public Clock {
 public:
    int64_t monotonic_ns() const override { return read_clock_ns(CLOCK_MONOTONIC); }
    int64_t wall_ns() const override { return read_clock_ns(CLOCK_REALTIME); }
};

}  // namespace

const Clock& system_clock() {
    static const SystemClock clock;
    return clock;
}

}  // namespace quire
