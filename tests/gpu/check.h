// A test harness of one file, for a machine that has nothing but CUDA's compilers.
//
//   QUIRE_GPU_TEST(name) { CHECK(a == b, "what " << a); }
//
// A failed CHECK says where and goes on with the next test. Main thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <sstream>
#include <string>
#include <vector>

namespace quire::gpu_testing {

struct Test {
    std::string name;
    std::function<void()> run;
    bool needs_gpu = true;
    // Not empty: the test must end its process, and have said this. It gets a process of its own.
    std::string last_words = {};
};

std::vector<Test>& tests();

struct Failed {
    std::string what;
};

// Thrown by a test whose data is not there.
struct Skipped {
    std::string why;
};

struct Registered {
    Registered(std::string name, std::function<void()> run, bool needs_gpu,
               std::string last_words = {}) {
        tests().push_back({std::move(name), std::move(run), needs_gpu, std::move(last_words)});
    }
};

}  // namespace quire::gpu_testing

#define QUIRE_TEST_IMPL(name, ...)                                                     \
    static void test_##name();                                                         \
    static const quire::gpu_testing::Registered registered_##name(#name, &test_##name, \
                                                                  __VA_ARGS__);        \
    static void test_##name()
#define QUIRE_GPU_TEST(name) QUIRE_TEST_IMPL(name, true)
#define QUIRE_HOST_TEST(name) QUIRE_TEST_IMPL(name, false)
// What a kernel that ends itself says.
#define QUIRE_GPU_DEATH_TEST(name, words) QUIRE_TEST_IMPL(name, true, words)

#define CHECK(condition, message)                                                  \
    do {                                                                           \
        if (!(condition)) {                                                        \
            std::ostringstream out;                                                \
            out << __FILE__ << ":" << __LINE__ << ": " #condition ": " << message; \
            throw quire::gpu_testing::Failed{out.str()};                           \
        }                                                                          \
    } while (false)
