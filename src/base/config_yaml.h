// The entries of a YAML configuration file. Internal to Config; keeps yaml-cpp out of other files.
#pragma once

#include <string>
#include <vector>

#include "base/config_spec.h"
#include "base/result.h"

namespace quire {

struct YamlEntry {
    std::string key;    // as written
    std::string value;  // lists comma-separated
    bool is_list = false;
    int line = 0;  // from 1
};

// The top-level map of `text`; an empty text is an empty map. invalid with "line N: ..." when it is
// no YAML, no map, a key appears twice, or a value is neither a scalar nor a list of scalars.
Result<std::vector<YamlEntry>> read_yaml_entries(const std::string& text);

}  // namespace quire
