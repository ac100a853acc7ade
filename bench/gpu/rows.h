// Rows of the GPU benches: the keys of `quire bench --json`, without its libraries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::gpu_bench {

struct Row {
    std::string what;
    std::string unit;  // of measured and reference
    double measured = 0;
    double reference = 0;  // a ceiling of the same run; 0: none
    double bar = 0;        // for measured / reference, or for measured where there is none; 0: none
    bool at_least = true;

    double ratio() const { return reference > 0 ? measured / reference : measured; }
    bool ok() const { return bar == 0 || (at_least ? ratio() >= bar : ratio() <= bar); }
};

// What all benches of a run share.
struct Machine {
    std::string device;
    int32_t multiprocessors = 0;
    double read_bytes_per_s = 0;  // device memory, read only
    double copy_bytes_per_s = 0;  // device memory, read and written together
};

// Ends the program with a message when a call of the CUDA runtime failed.
void check(int error, const char* what);

// Of one step, queued on the default stream: the median of some runs of several steps each, by
// events, queued while an earlier step runs.
double seconds(void (*step)(void*), void* context);

template <class Launch>
double seconds(Launch launch) {
    return seconds([](void* p) { (*static_cast<Launch*>(p))(); }, &launch);
}

Machine measure_machine();
std::vector<Row> encode_rows(const Machine& machine);
std::vector<Row> decode_rows(const Machine& machine);
std::vector<Row> prefill_rows(const Machine& machine);
std::vector<Row> copy_rows(const Machine& machine);
std::vector<Row> copy_beside_rows(const Machine& machine);
std::vector<Row> tier_rows(const Machine& machine);
std::vector<Row> mla_rows(const Machine& machine);

}  // namespace quire::gpu_bench
