#include "base/config_yaml.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

namespace quire {
namespace {

// Deeper nesting is no configuration of ours, and the parser recurses.
constexpr size_t kMaxNesting = 64;

Error at_line(int line, std::string_view what) {
    return make_error(Code::invalid, fmt::format("line {}: {}", line, what), line);
}

int line_of(const YAML::Node& node) {
    return node.Mark().line + 1;
}

bool too_deep(const std::string& text) {
    size_t depth = 0, deepest = 0, dashes = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        depth += c == '[' || c == '{';
        depth -= (c == ']' || c == '}') && depth > 0;
        const bool item = (c == '-' || c == '?') && i + 1 < text.size() && text[i + 1] == ' ';
        if (item || c != ' ') dashes = item ? dashes + 1 : 0;
        deepest = std::max({deepest, depth, dashes});
    }
    return deepest > kMaxNesting;
}

Result<YamlEntry> read_entry(const YAML::Node& key, const YAML::Node& value) {
    if (!key.IsScalar()) return at_line(line_of(key), "a key must be a plain word");
    YamlEntry entry{.key = key.Scalar(), .value = {}, .line = line_of(key)};
    if (value.IsScalar()) {
        entry.value = value.Scalar();
    } else if (value.IsSequence()) {
        entry.is_list = true;
        for (const YAML::Node& item : value) {
            if (!item.IsScalar())
                return at_line(entry.line,
                               fmt::format("'{}' must be a list of plain values", entry.key));
            if (item.Scalar().find(',') != std::string::npos)
                return at_line(entry.line,
                               fmt::format("an item of '{}' contains a comma", entry.key));
            entry.value += (entry.value.empty() ? "" : ",") + item.Scalar();
        }
    } else {
        return at_line(entry.line,
                       fmt::format("'{}' needs a value, not {}", entry.key,
                                   value.IsMap() ? "a map (keys are not nested)" : "nothing"));
    }
    return entry;
}

// The entries of a map; values that are lists of maps go to `tables`, or are refused where it is
// null.
Result<std::vector<YamlEntry>> read_map(const YAML::Node& root, std::vector<YamlTable>* tables);

Result<YamlTable> read_table(const YAML::Node& key, const YAML::Node& rows) {
    YamlTable table{.key = key.Scalar(), .rows = {}, .line = line_of(key)};
    for (const YAML::Node& node : rows) {
        Result<std::vector<YamlEntry>> fields = read_map(node, nullptr);
        QUIRE_TRY(fields);
        table.rows.push_back({std::move(*fields), line_of(node)});
    }
    return table;
}

Result<std::vector<YamlEntry>> read_map(const YAML::Node& root, std::vector<YamlTable>* tables) {
    std::vector<YamlEntry> entries;
    if (!root.IsDefined() || root.IsNull()) return entries;
    if (!root.IsMap()) return at_line(line_of(root), "expected lines of the form 'key: value'");
    std::set<std::string> seen;
    for (const auto& pair : root) {
        const bool is_table = tables != nullptr && pair.first.IsScalar() &&
                              pair.second.IsSequence() && pair.second.size() > 0 &&
                              pair.second[0].IsMap();
        if (pair.first.IsScalar() && !seen.insert(pair.first.Scalar()).second)
            return at_line(line_of(pair.first),
                           fmt::format("'{}' appears twice", pair.first.Scalar()));
        if (is_table) {
            Result<YamlTable> table = read_table(pair.first, pair.second);
            QUIRE_TRY(table);
            tables->push_back(std::move(*table));
            continue;
        }
        Result<YamlEntry> entry = read_entry(pair.first, pair.second);
        QUIRE_TRY(entry);
        entries.push_back(std::move(*entry));
    }
    return entries;
}

// `read` is given the parsed text; what the parser throws becomes an error.
template <typename Read>
auto read_text_as_yaml(const std::string& text, const Read& read)
    -> decltype(read(YAML::Node())) {
    if (too_deep(text)) return make_error(Code::invalid, "line 1: nested too deeply");
    try {
        return read(YAML::Load(text));
    } catch (const YAML::Exception& e) {
        return at_line(e.mark.line + 1, e.msg);
    } catch (const std::exception& e) {
        return make_error(Code::invalid, fmt::format("line 1: no YAML: {}", e.what()));
    }
}

}  // namespace

Result<std::vector<YamlEntry>> read_yaml_entries(const std::string& text) {
    return read_text_as_yaml(text, [](const YAML::Node& root) { return read_map(root, nullptr); });
}

Result<YamlDocument> read_yaml_document(const std::string& text) {
    return read_text_as_yaml(text, [](const YAML::Node& root) -> Result<YamlDocument> {
        YamlDocument document;
        Result<std::vector<YamlEntry>> entries = read_map(root, &document.tables);
        QUIRE_TRY(entries);
        document.entries = std::move(*entries);
        return document;
    });
}

}  // namespace quire
