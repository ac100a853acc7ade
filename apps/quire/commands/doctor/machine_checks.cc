// CPU, memory, limits, io_uring.
#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>

#include "apps/quire/commands/doctor/checks.h"
#include "base/io.h"
#include "base/machine.h"
#include "base/units.h"
#include "kernels/attention.h"

namespace quire::doctor {
namespace {

constexpr uint64_t kMemoryMin = uint64_t{2} << 30;
constexpr uint64_t kFilesMin = 1024;

// Value of a "Name:  123 kB" line, in bytes.
uint64_t meminfo_bytes(std::string_view name) {
    std::ifstream file("/proc/meminfo");
    std::string word;
    uint64_t kib = 0;
    while (file >> word)
        if (word == name && file >> kib) return kib << 10;
    return 0;
}

Finding check_cpu() {
    const kernels::AttentionOps& best = kernels::best_attention();
    const std::string found = fmt::format("{} cores, attention by {}", machine_cores(), best.name);
    if (best.isa != kernels::Isa::ref) return good("CPU", found);
    return warning("CPU", found, "without AVX2 prompts are computed by slow scalar code");
}

Finding check_memory() {
    const uint64_t all = machine_memory_bytes();
    const uint64_t free = meminfo_bytes("MemAvailable:");
    const std::string found =
        fmt::format("{}, {} available", format_bytes(all), format_bytes(free));
    if (free >= kMemoryMin) return good("memory", found);
    return warning("memory", found,
                   "the defaults want about 6 GiB; pass a smaller --kv-memory and --host-memory");
}

std::string limit_text(rlim_t limit, bool bytes) {
    if (limit == RLIM_INFINITY) return "unlimited";
    return bytes ? format_bytes(limit) : std::to_string(limit);
}

Finding check_locked_memory() {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    // Older kernels count io_uring's rings against it; newer ones do not.
    return good("locked memory", limit_text(limit.rlim_cur, true));
}

Finding check_open_files() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const std::string found = limit_text(limit.rlim_cur, false);
    if (limit.rlim_cur >= kFilesMin) return good("open files", found);
    return warning("open files", found,
                   "each connection and segment takes one: run ulimit -n 4096 before quire");
}

Finding check_huge_pages() {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string text;
    std::getline(file, text);
    const size_t open = text.find('['), close = text.find(']');
    if (open == std::string::npos || close == std::string::npos)
        return warning("huge pages", "unknown",
                       "this kernel has no transparent huge pages; copies are a little slower");
    const std::string mode = text.substr(open + 1, close - open - 1);
    if (mode != "never") return good("huge pages", mode);
    return warning("huge pages", mode,
                   "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

Finding check_io_uring() {
    if (make_io_engine({.kind = IoKind::uring}).ok()) return good("io_uring", "available");
    return warning("io_uring", "refused",
                   "disk I/O falls back to threads; allow io_uring in the container's seccomp "
                   "profile, or set sysctl kernel.io_uring_disabled=0");
}

}  // namespace

Findings check_machine() {
    return {check_cpu(),        check_memory(),        check_huge_pages(),
            check_open_files(), check_locked_memory(), check_io_uring()};
}

}  // namespace quire::doctor
