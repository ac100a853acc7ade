// The entries of a YAML configuration file, and other small YAML files of ours. Keeps yaml-cpp out
// of other files.
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

// A value that is a list of flat maps.
struct YamlRow {
    std::vector<YamlEntry> fields;
    int line = 0;
};
struct YamlTable {
    std::string key;
    std::vector<YamlRow> rows;  // at least one
    int line = 0;
};
struct YamlDocument {
    std::vector<YamlEntry> entries;
    std::vector<YamlTable> tables;
};

// As read_yaml_entries(), but values may be such lists too.
Result<YamlDocument> read_yaml_document(const std::string& text);

}  // namespace quire
