// A disk directory's report as text and as JSON. Pure.
#pragma once

#include <string>

#include "tier/disk/disk.h"

namespace quire::commands {

struct InspectResult {
    std::string dir;
    DiskReport report;
    bool verified = false;  // every byte was read
    bool damaged() const { return report.damaged_blocks > 0 || !report.damage.empty(); }
};

std::string inspect_text(const InspectResult& result);
std::string inspect_json(const InspectResult& result);

}  // namespace quire::commands
