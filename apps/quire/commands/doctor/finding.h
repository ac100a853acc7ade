// What `quire doctor` says: one finding a line, each with a remedy where one is needed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace quire::doctor {

enum class Verdict : uint8_t { ok, warn, fail };

struct Finding {
    Verdict verdict = Verdict::ok;
    std::string what;    // "huge pages"
    std::string found;   // "off"
    std::string remedy;  // a sentence; empty when all is well
};
using Findings = std::vector<Finding>;

Finding good(std::string what, std::string found);
Finding warning(std::string what, std::string found, std::string remedy);
Finding failure(std::string what, std::string found, std::string remedy);

// fail if any fails, else warn if any warns.
Verdict worst(std::span<const Finding> findings);

// One line a finding, the remedy indented below it, and a last line with the counts.
std::string findings_text(std::span<const Finding> findings);
// {"verdict":..., "findings":[...]}
std::string findings_json(std::span<const Finding> findings);

}  // namespace quire::doctor
