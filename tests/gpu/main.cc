// Runs the tests of CUDA kernels: all, or those whose names contain the argument. Without a GPU
// those that need one are skipped. --json FILE: passed, failed (names), skipped, device.
#include <cstdio>
#include <fstream>
#include <string>

#include <cuda_runtime.h>

#include "check.h"

namespace quire::gpu_testing {

std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}

namespace {

// Empty: there is none.
std::string device_name() {
    int devices = 0;
    cudaDeviceProp properties;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 ||
        cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
        return {};
    return properties.name;
}

struct Results {
    int passed = 0, skipped = 0;
    std::vector<std::string> failed;  // names, which have no characters to be escaped
    std::string device;
};

// The test alone, in a process of its own: a kernel that ends itself takes the device's state
// along.
void run_to_death(const std::string& program, const Test& test) {
    // tidy: allow(popen): the program itself, with words of its own
    FILE* said = popen((program + " --alone " + test.name + " 2>&1").c_str(), "r");
    CHECK(said != nullptr, "popen of " << program);
    std::string words;
    for (int c = std::fgetc(said); c != EOF; c = std::fgetc(said)) words += static_cast<char>(c);
    CHECK(pclose(said) != 0, test.name << " lives on");
    CHECK(words.find(test.last_words) != std::string::npos,
          test.name << " said: " << words.substr(0, 2000));
}

int run_alone(const std::string& name) {
    for (const Test& test : tests())
        if (test.name == name) test.run();
    return 0;
}

Results run_all(const std::string& program, const std::string& wanted) {
    Results results;
    results.device = device_name();
    for (const Test& test : tests()) {
        if (test.name.find(wanted) == std::string::npos) continue;
        if (test.needs_gpu && results.device.empty()) {
            ++results.skipped;
            continue;
        }
        try {
            test.last_words.empty() ? test.run() : run_to_death(program, test);
            ++results.passed;
        } catch (const Skipped& skipped) {
            ++results.skipped;
            std::printf("skipped %s: %s\n", test.name.c_str(), skipped.why.c_str());
        } catch (const Failed& failure) {
            results.failed.push_back(test.name);
            std::printf("FAILED %s\n  %s\n", test.name.c_str(), failure.what.c_str());
        }
    }
    return results;
}

void write_json(const Results& results, const char* path) {
    std::ofstream out(path);
    out << "{\"passed\": " << results.passed << ", \"skipped\": " << results.skipped
        << ", \"device\": \"" << results.device << "\", \"failed\": [";
    for (const std::string& name : results.failed)
        out << (&name == &results.failed.front() ? "\"" : ", \"") << name << "\"";
    out << "]}\n";
}

}  // namespace
}  // namespace quire::gpu_testing

int main(int argc, char** argv) {
    using namespace quire::gpu_testing;
    std::string wanted;
    const char* json = nullptr;
    for (int i = 1; i < argc; ++i) {
        if (std::string(argv[i]) == "--json" && i + 1 < argc)
            json = argv[++i];
        else if (std::string(argv[i]) == "--alone" && i + 1 < argc)
            return run_alone(argv[i + 1]);
        else
            wanted = argv[i];
    }
    const Results results = run_all(argv[0], wanted);
    if (json != nullptr) write_json(results, json);
    std::printf("%d passed, %zu failed, %d skipped\n", results.passed, results.failed.size(),
                results.skipped);
    return results.failed.empty() && results.passed + results.skipped > 0 ? 0 : 1;
}
