// Threads of a block as fibers on one stack of the CPU each.
#include <cstdlib>
#include <memory>
#include <vector>

#include "emulate.h"

#if !defined(__x86_64__)
#error "the emulator switches stacks of x86-64 only"
#endif

// Keeps what a function must keep, leaves the stack at *from and goes on with the one at `to`.
extern "C" void quire_switch_stack(void** from, void* to);
asm(R"(
.text
.globl quire_switch_stack
quire_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

namespace quire::emulator {

Index thread, block, block_size, grid_size;

namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kSavedRegisters = 6;

struct Fiber {
    std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(kStackBytes);
    void* top = nullptr;
    bool ended = false;
};

// Those who have come to a barrier, and how often it has opened.
struct Gate {
    uint32_t here = 0, opened = 0;

    // True for the last of n, before whom nobody goes on.
    bool come(uint32_t n) {
        if (++here < n) return false;
        here = 0;
        ++opened;
        return true;
    }
};
struct Warp {
    Gate gate;
    uint64_t in[32], out[32];
};

std::vector<Fiber> fibers;
std::vector<Warp> warps;
std::vector<std::byte> memory;  // shared, and what aligns it
Gate whole_block;
void* scheduler = nullptr;
uint32_t current = 0;
const std::function<void()>* kernel = nullptr;

void enter() {
    (*kernel)();
    fibers[current].ended = true;
    quire_switch_stack(&fibers[current].top, scheduler);
    std::abort();
}

// As if the fiber had left in the middle of a call of enter().
void prepare(Fiber& fiber) {
    auto end = reinterpret_cast<uintptr_t>(fiber.stack.get()) + kStackBytes;
    auto* top = reinterpret_cast<void**>(end / 64 * 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&enter);
    for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
    fiber.top = top;
    fiber.ended = false;
}

void run_block(uint32_t threads, size_t shared_bytes) {
    warps.assign((threads + 31) / 32, {});
    whole_block = {};
    memory.assign(shared_bytes + 2048, std::byte{0xff});  // what nobody has written is bad
    for (uint32_t i = 0; i < threads; ++i) prepare(fibers[i]);
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < threads; ++i) {
            if (fibers[i].ended) continue;
            any = true;
            current = i;
            thread = {i, 0, 0};
            quire_switch_stack(&scheduler, fibers[i].top);
        }
    }
}

}  // namespace

void run(int32_t blocks, int32_t threads, size_t shared_bytes, const std::function<void()>& body) {
    kernel = &body;
    grid_size = {static_cast<uint32_t>(blocks), 1, 1};
    block_size = {static_cast<uint32_t>(threads), 1, 1};
    if (fibers.size() < block_size.x) fibers.resize(block_size.x);
    for (block = {}; block.x < grid_size.x; ++block.x) run_block(block_size.x, shared_bytes);
}

std::byte* dynamic_shared() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 1023) / 1024 *
                                        1024);
}

void pause() {
    quire_switch_stack(&fibers[current].top, scheduler);
}

void block_barrier() {
    const uint32_t before = whole_block.opened;
    if (!whole_block.come(block_size.x))
        while (whole_block.opened == before) pause();
}

const uint64_t* exchange(uint64_t own) {
    Warp& warp = warps[current / 32];
    const uint32_t before = warp.gate.opened;
    warp.in[current % 32] = own;
    if (warp.gate.come(32))
        std::copy_n(warp.in, 32, warp.out);
    else
        while (warp.gate.opened == before) pause();
    return warp.out;
}

}  // namespace quire::emulator
