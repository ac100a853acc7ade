#include "base/table.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

size_t width_of(std::string_view cell) {
    return static_cast<size_t>(
        std::ranges::count_if(cell, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& cell, size_t width, Align align) {
    const std::string padding(width - width_of(cell), ' ');
    return align == Align::right ? padding + cell : cell + padding;
}

std::string ended(std::string line) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line + "\n";
}

}  // namespace

void TextTable::row(std::vector<std::string> cells) {
    QUIRE_CHECK(cells.size() <= columns_.size(), "more cells than columns");
    cells.resize(columns_.size());
    for (std::string& cell : cells)
        std::ranges::replace_if(
            cell, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
    rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
    std::vector<size_t> widths;
    for (size_t i = 0; i < columns_.size(); ++i) {
        size_t width = width_of(columns_[i].title);
        for (const auto& cells : rows_) width = std::max(width, width_of(cells[i]));
        widths.push_back(width);
    }
    std::string head, rule;
    for (size_t i = 0; i < columns_.size(); ++i) {
        head += (i == 0 ? "" : " | ") + padded(columns_[i].title, widths[i], columns_[i].align);
        rule += (i == 0 ? "" : "-|-") + std::string(widths[i], '-');
    }
    std::string out = ended(head) + rule + "\n";
    for (const auto& cells : rows_) {
        std::string line;
        for (size_t i = 0; i < columns_.size(); ++i)
            line += (i == 0 ? "" : " | ") + padded(cells[i], widths[i], columns_[i].align);
        out += ended(line);
    }
    return out;
}

}  // namespace quire
