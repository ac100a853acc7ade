#include "base/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <sched.h>
#include <unistd.h>

namespace quire {
namespace {

// A number in the first word of a file; no limit when there is none.
uint64_t limit_in(const char* path) {
    std::ifstream file(path);
    std::string word;
    if (!(file >> word) || word.find_first_not_of("0123456789") != std::string::npos ||
        word.size() > 18)
        return std::numeric_limits<uint64_t>::max();
    return std::stoull(word);
}

}  // namespace

uint64_t machine_memory_bytes() {
    const auto pages = static_cast<uint64_t>(std::max<long>(0, sysconf(_SC_PHYS_PAGES)));
    const auto page_bytes = static_cast<uint64_t>(std::max<long>(0, sysconf(_SC_PAGESIZE)));
    return std::min({pages * page_bytes, limit_in("/sys/fs/cgroup/memory.max"),
                     limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

uint32_t machine_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return static_cast<uint32_t>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace quire
