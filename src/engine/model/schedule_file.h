// A schedule as people read and write it: widths of keys and values by layer, and the layers that
// stay 16 bit, in a small YAML file:
//
//   layers:
//     - {k: 6, v: 4}    # one line for each layer of the model, from 0 on; 2 to 8 bits
//   skip_layers: [0, 29]
//
// `quire eval` prints it, `--kv-schedule` serves it. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/sidecar.h"

namespace quire {

struct LayerSchedule {
    std::vector<codec::LayerBits> bits;     // [layers]; those of skipped layers have no effect
    std::vector<uint32_t> skip_layers = {};  // ascending

    friend bool operator==(const LayerSchedule&, const LayerSchedule&) = default;
};

// With each layer's number as a comment.
std::string schedule_yaml(const LayerSchedule& schedule);

// invalid, naming the line or the layer: no such text, other than `layers` lines, a width outside 2
// to 8, a layer to skip that the model does not have, nothing left to be coded. Without `layers`:
// for a model of as many as there are lines.
Result<LayerSchedule> parse_schedule(const std::string& yaml, std::optional<size_t> layers);

// The same of a file; the message begins with its path. As read_regular_file() too.
Result<LayerSchedule> read_schedule(const std::string& path, std::optional<size_t> layers);

}  // namespace quire
