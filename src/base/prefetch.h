// Fetching a cache line ahead of its use: into the nearest cache or the second one. Any address
// will do, mapped or not.
//
// Written in assembly because g++ takes _mm_prefetch and __builtin_prefetch for calls without
// effect: a loop, or an inlined function, that does nothing else is deleted without a word.
#pragma once

namespace quire {

#if defined(__x86_64__)
[[gnu::always_inline]] inline void prefetch_l1(const void* p) {
    asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
}
[[gnu::always_inline]] inline void prefetch_l2(const void* p) {
    asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
}
#else
[[gnu::always_inline]] inline void prefetch_l1(const void* p) {
    __builtin_prefetch(p, 0, 3);
}
[[gnu::always_inline]] inline void prefetch_l2(const void* p) {
    __builtin_prefetch(p, 0, 2);
}
#endif

}  // namespace quire
