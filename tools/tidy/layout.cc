#include "rules.h"

namespace quire::tidy {
namespace {

// Columns as an editor shows them: UTF-8 continuation bytes take none.
int columns(std::string_view line) {
    int count = 0;
    for (unsigned char c : line) count += (c & 0xC0) != 0x80;
    return count;
}

}  // namespace

std::vector<Finding> check_layout(const Source& source) {
    std::vector<Finding> findings;
    const bool prose = source.language == Language::text;
    bool pragma_once = false;
    for (size_t i = 0; i < source.lines.size(); ++i) {
        const std::string& line = source.lines[i];
        const int number = static_cast<int>(i) + 1;
        auto add = [&](std::string rule, std::string text) {
            if (waived(source, number, rule)) return;
            findings.push_back({source.path, number, std::move(rule), std::move(text)});
        };
        if (!prose && columns(line) > kMaxColumns) {
            add("columns", std::to_string(columns(line)) + " columns, at most " +
                               std::to_string(kMaxColumns) + " are allowed");
        }
        if (source.language != Language::make && line.find('\t') != line.npos) {
            add("tab", "a tab; indent with spaces");
        }
        if (!line.empty() && (line.back() == ' ' || line.back() == '\r')) {
            add("trailing", "blanks or a carriage return at the end of the line");
        }
        pragma_once |= line.starts_with("#pragma once");
    }
    if (!prose && source.lines.size() > kMaxFileLines) {
        findings.push_back({source.path, 0, "file-length",
                            std::to_string(source.lines.size()) + " lines, at most " +
                                std::to_string(kMaxFileLines) + ": split it by idea"});
    }
    if (source.path.ends_with(".h") && !pragma_once) {
        findings.push_back({source.path, 0, "pragma-once", "a header without #pragma once"});
    }
    return findings;
}

}  // namespace quire::tidy
