#include "bench/bars.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace quire::bench {
namespace {

constexpr size_t kColumns = 6;
using Cells = std::array<std::string, kColumns>;

bool meets(double value, Comparison comparison, double bar) {
    if (!std::isfinite(value)) return false;
    return comparison == Comparison::at_least ? value >= bar : value <= bar;
}

BarRow named(std::string what, std::string unit, double measured) {
    BarRow row;
    row.what = std::move(what);
    row.unit = std::move(unit);
    row.measured = measured;
    return row;
}

// Columns on screen: UTF-8 continuation bytes take none.
size_t width_of(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

std::string bar_text(const BarRow& row) {
    if (!row.bar) return "";
    const std::string value =
        row.ratio ? format_number(*row.bar) : format_quantity(*row.bar, row.unit);
    return (row.comparison == Comparison::at_least ? ">= " : "<= ") + value;
}

Cells cells_of(const BarRow& row) {
    return {row.what,
            format_quantity(row.measured, row.unit),
            row.reference ? format_quantity(*row.reference, row.unit) : "",
            row.ratio ? format_number(*row.ratio) : "",
            bar_text(row),
            !row.ok   ? "NO"
            : row.bar ? "yes"
                      : ""};
}

// The first column is text and starts left; numbers end right.
std::string line_of(const Cells& cells, const std::array<size_t, kColumns>& widths) {
    std::string line;
    for (size_t i = 0; i < kColumns; ++i) {
        const std::string pad(widths[i] - width_of(cells[i]), ' ');
        line += i == 0 ? cells[i] + pad : "  " + pad + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

}  // namespace

BarRow ratio_row(std::string what, std::string unit, double measured, double reference,
                 Comparison comparison, double bar) {
    const double ratio = reference > 0 ? measured / reference : NAN;
    return paired_row(std::move(what), std::move(unit), measured, reference, ratio, comparison,
                      bar);
}

BarRow paired_row(std::string what, std::string unit, double measured, double reference,
                  double ratio, Comparison comparison, double bar) {
    BarRow row = named(std::move(what), std::move(unit), measured);
    row.reference = reference;
    row.ratio = ratio;
    row.bar = bar;
    row.comparison = comparison;
    row.ok = std::isfinite(measured) && meets(ratio, comparison, bar);
    return row;
}

BarRow value_row(std::string what, std::string unit, double measured, Comparison comparison,
                 double bar) {
    BarRow row = named(std::move(what), std::move(unit), measured);
    row.bar = bar;
    row.comparison = comparison;
    row.ok = meets(measured, comparison, bar);
    return row;
}

BarRow info_row(std::string what, std::string unit, double measured,
                std::optional<double> reference) {
    BarRow row = named(std::move(what), std::move(unit), measured);
    row.reference = reference;
    if (reference && *reference > 0) row.ratio = measured / *reference;
    return row;
}

BarRow failed_row(std::string what, std::string why) {
    BarRow row = named(std::move(what), "", NAN);
    row.ok = false;
    row.note = std::move(why);
    return row;
}

bool all_ok(std::span<const BarRow> rows) {
    return std::all_of(rows.begin(), rows.end(), [](const BarRow& row) { return row.ok; });
}

std::string bar_table(std::span<const BarRow> rows) {
    std::vector<Cells> lines = {{"what", "measured", "reference", "ratio", "bar", "ok"}};
    for (const BarRow& row : rows) lines.push_back(cells_of(row));
    std::array<size_t, kColumns> widths{};
    for (const Cells& cells : lines)
        for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], width_of(cells[i]));

    std::string text = line_of(lines[0], widths);
    size_t total = 2 * (kColumns - 1);
    for (size_t width : widths) total += width;
    text += std::string(total, '-') + "\n";
    for (size_t i = 1; i < lines.size(); ++i) text += line_of(lines[i], widths);
    for (const BarRow& row : rows)
        if (!row.note.empty()) text += "  " + row.what + ": " + row.note + "\n";

    const auto judged = [](const BarRow& row) { return row.bar || !row.ok; };
    const auto bars = std::count_if(rows.begin(), rows.end(), judged);
    const auto missed =
        std::count_if(rows.begin(), rows.end(), [](const BarRow& row) { return !row.ok; });
    return text + fmt::format("{} of {} bars met\n", bars - missed, bars);
}

std::string format_number(double value) {
    if (std::isnan(value)) return "-";
    if (!std::isfinite(value)) return value > 0 ? "inf" : "-inf";
    const double size = std::fabs(value);
    if (size < 10'000) {
        if (value == std::floor(value)) return fmt::format("{:.0f}", value);
        return fmt::format("{:.4g}", value);
    }
    if (size >= 1e15) return fmt::format("{:.4g}", value);
    std::string digits = fmt::format("{:.0f}", value);
    for (size_t at = digits.size(); at > 3 && digits[at - 4] != '-';) {
        at -= 3;
        digits.insert(at, ",");
    }
    return digits;
}

std::string format_quantity(double value, std::string_view unit) {
    if (!std::isfinite(value) || unit.empty()) return format_number(value);
    const double size = std::fabs(value);
    if (unit == "s" && size < 1e-3) return format_number(value * 1e6) + " us";
    if (unit == "s" && size < 1) return format_number(value * 1e3) + " ms";
    if (unit == "B" && size >= 1u << 30) return format_number(value / (1u << 30)) + " GiB";
    if (unit == "B" && size >= 1u << 20) return format_number(value / (1u << 20)) + " MiB";
    if (unit == "B" && size >= 1u << 10) return format_number(value / (1u << 10)) + " KiB";
    return format_number(value) + " " + std::string(unit);
}

}  // namespace quire::bench
