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
Gate whole_block, named[16];
void* scheduler = nullptr;
uint32_t current = 0, running = 0;
const std::function<void()>* kernel = nullptr;

void meet_at(Gate& gate, uint32_t threads) {
    const uint32_t before = gate.opened;
    if (!gate.come(threads))
        while (gate.opened == before) pause();
}

void enter() {
    (*kernel)();
    fibers[current].ended = true;
    if (--running > 0) pause();
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
    std::fill(std::begin(named), std::end(named), Gate{});
    memory.assign(shared_bytes + 2048, std::byte{0xff});  // what nobody has written is bad
    for (uint32_t i = 0; i < threads; ++i) prepare(fibers[i]);
    running = threads;
    current = 0;
    thread = {};
    quire_switch_stack(&scheduler, fibers[0].top);
}

}  // namespace

void run(dim3 blocks, uint32_t threads, size_t shared_bytes, const std::function<void()>& body) {
    kernel = &body;
    grid_size = {blocks.x, blocks.y, 1};
    block_size = {threads, 1, 1};
    if (fibers.size() < threads) fibers.resize(threads);
    for (block = {}; block.y < grid_size.y; ++block.y)
        for (block.x = 0; block.x < grid_size.x; ++block.x) run_block(threads, shared_bytes);
}

std::byte* dynamic_shared() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 1023) / 1024 *
                                        1024);
}

void pause() {
    const uint32_t from = current;
    do current = current + 1 == block_size.x ? 0 : current + 1;
    while (fibers[current].ended);
    if (current == from) return;
    thread = {current, 0, 0};
    quire_switch_stack(&fibers[from].top, fibers[current].top);
}

void block_barrier() {
    meet_at(whole_block, block_size.x);
}
void named_barrier(int id, uint32_t threads) {
    meet_at(named[id], threads);
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
