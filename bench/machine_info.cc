// The machine as the system describes it, for report.h.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/machine.h"
#include "bench/report.h"
#include "kernels/attention.h"

namespace fs = std::filesystem;

namespace quire::bench {
namespace {

std::string cpu_name() {
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line)) {
        if (!line.starts_with("model name")) continue;
        const size_t colon = line.find(':');
        return colon == std::string::npos ? ""
                                          : line.substr(line.find_first_not_of(" ", colon + 1));
    }
    return "unknown CPU";
}

// "ext4 on /dev/vda" of the mount that holds `dir`.
std::string disk_name(const std::string& dir) {
    std::error_code error;
    fs::path path = fs::absolute(dir, error);
    while (!fs::exists(path, error) && path.has_parent_path() && path != path.parent_path())
        path = path.parent_path();
    path = fs::weakly_canonical(path, error);
    std::ifstream mounts("/proc/self/mounts");
    std::string line, best = "unknown disk";
    size_t best_size = 0;
    while (std::getline(mounts, line)) {
        std::istringstream fields(line);
        std::string device, at, type;
        if (!(fields >> device >> at >> type)) continue;
        const std::string whole = path.string();
        const bool under = at == "/" || whole == at || whole.starts_with(at + "/");
        if (!under || at.size() < best_size) continue;
        best_size = at.size();
        best = type + " on " + device;
    }
    return best;
}

}  // namespace

MachineInfo describe_machine(const std::string& scratch_dir, uint32_t threads,
                             const kernels::AttentionOps& ops) {
    MachineInfo info;
    info.cpu = cpu_name();
    info.isa = ops.name;
    info.threads = threads;
    info.memory_bytes = machine_memory_bytes();
    info.disk = disk_name(scratch_dir);
    return info;
}

}  // namespace quire::bench
