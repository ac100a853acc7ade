// What does not belong in our code, where it does after all, and what to do instead.
#pragma once

#include <string_view>

namespace quire::tidy {

struct Banned {
    std::string_view word;
    bool call;                 // must be followed by '('
    bool in_tests;             // holds in tests too
    std::string_view allowed;  // path prefix where it belongs; empty: nowhere
    std::string_view instead;
};

// A waiver (source.h) is for the rare line that is right all the same; it must say why.
constexpr Banned kBanned[] = {
    {"printf", true, false, "apps/", "log with base/log.h, or return text"},
    {"puts", true, false, "apps/", "log with base/log.h, or return text"},
    {"cout", false, false, "apps/", "log with base/log.h, or return text"},
    {"cerr", false, false, "apps/", "log with base/log.h, or return an Error"},
    {"fprintf", true, false, "apps/", "log with base/log.h"},
    {"abort", true, false, "src/base/check.cc", "QUIRE_CHECK for our bugs, Result for the rest"},
    {"exit", true, false, "apps/", "return a Status to main"},
    {"_exit", true, false, "apps/", "return a Status to main"},
    {"quick_exit", true, true, "", "return a Status to main"},
    {"getenv", true, false, "src/base/", "read it through base's configuration"},
    {"setenv", true, false, "src/base/", "pass the value as a parameter"},
    {"rand", true, true, "", "a seeded generator that is passed in"},
    {"srand", true, true, "", "a seeded generator that is passed in"},
    {"random_device", false, true, "src/base/", "a seeded generator that is passed in"},
    {"sleep", true, true, "", "wait for the event itself, with a deadline"},
    {"usleep", true, true, "", "wait for the event itself, with a deadline"},
    {"nanosleep", true, true, "", "wait for the event itself, with a deadline"},
    {"sleep_for", true, true, "src/base/", "wait for the event itself, with a deadline"},
    {"sleep_until", true, true, "src/base/", "wait for the event itself, with a deadline"},
    {"system", true, true, "", "call the library, or start the process by its argument list"},
    {"popen", true, true, "", "call the library, or start the process by its argument list"},
    {"strcpy", true, true, "", "std::string or a span"},
    {"strcat", true, true, "", "std::string or a span"},
    {"sprintf", true, true, "", "fmt::format or std::to_string"},
    {"vsprintf", true, true, "", "fmt::format or std::to_string"},
    {"strtok", true, true, "", "std::string_view and find"},
    {"gets", true, true, "", "std::getline"},
    {"malloc", true, true, "src/base/", "std::vector, or an arena of base"},
    {"free", true, true, "src/base/", "a type that owns what it frees"},
    {"thread", false, false, "src/base/", "base's executor, or a waiver that names the owner"},
    {"jthread", false, false, "src/base/", "base's executor, or a waiver that names the owner"},
    {"async", true, false, "src/base/", "base's executor"},
    {"pthread_create", true, true, "src/base/", "base's executor"},
    {"_mm_prefetch", true, true, "", "base/prefetch.h: g++ deletes loops of nothing but this"},
    {"__builtin_prefetch", true, true, "src/base/prefetch.h",
     "base/prefetch.h: g++ deletes loops of nothing but this"},
    {"new", false, true, "", "std::make_unique, or a container"},
    {"delete", false, true, "", "a type that owns what it frees"},
};

// Who else may, and why. For one odd line a waiver beside it (source.h) is better.
struct Owner {
    std::string_view word;
    std::string_view path;  // prefix
    std::string_view reason;
};
constexpr Owner kOwners[] = {
    {"fprintf", "src/base/check.cc", "a failed check says so even when nothing else works"},
    {"thread", "src/cache/storer.",
     "one low-priority thread seals slabs; joined by its destructor"},
    {"thread", "src/tier/disk/", "a store owns its reader and its writer; joined when it closes"},
    {"thread", "src/tier/host/", "a pool owns its copy workers; joined when it closes"},
    {"thread", "src/engine/", "the engine owns the thread that owns the cache"},
    {"thread", "src/server/", "the server owns its I/O thread and workers"},
    {"random_device", "src/server/", "ids that a client cannot guess, unlike any seeded ones"},
};

}  // namespace quire::tidy
