// What `quire calibrate` prints, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "bench/eval/key_form.h"
#include "codec/sidecar.h"

namespace quire::commands {

struct CalibrateReport {
    std::string model;
    std::string path;  // of the sidecar
    Hash128 hash;
    uint32_t tokens = 0;                    // that were learned from
    double bits = 0;                        // a number, by the schedule; 0: none
    std::vector<bench::KeyForm> key_forms;  // that were measured; empty: none
    const codec::Sidecar* sidecar = nullptr;
};

std::string calibrate_text(const CalibrateReport& report);
std::string calibrate_json(const CalibrateReport& report);

}  // namespace quire::commands
