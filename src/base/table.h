// TextTable: aligned columns for people, as every bench and inspection prints them. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

enum class Align : uint8_t { left, right };

class TextTable {
 public:
    struct Column {
        std::string title;
        Align align = Align::left;
    };
    explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

    // Cells beyond the columns are a bug; missing ones are empty. Line breaks become blanks.
    void row(std::vector<std::string> cells);
    size_t rows() const { return rows_.size(); }

    // Title, rule and rows, "a | b | c" with columns as wide as their widest cell; UTF-8 code
    // points count as one. No blanks at line ends.
    std::string text() const;

 private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace quire
