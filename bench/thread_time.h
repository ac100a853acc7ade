// Time of the calling thread, so that a busy machine disturbs little. Header only.
#pragma once

#include <ctime>

namespace quire::bench {

inline double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Work>
double seconds_of(const Work& work) {
    const double begin = thread_seconds();
    work();
    return thread_seconds() - begin;
}

}  // namespace quire::bench
