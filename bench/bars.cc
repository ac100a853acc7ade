#include "bench/bars.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/table.h"

namespace quire::bench {
namespace {

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

std::string bar_text(const BarRow& row) {
    if (!row.bar) return "";
    const std::string value =
        row.ratio ? format_number(*row.bar) : format_quantity(*row.bar, row.unit);
    return (row.comparison == Comparison::at_least ? ">= " : "<= ") + value;
}

std::vector<std::string> cells_of(const BarRow& row) {
    return {row.what,
            format_quantity(row.measured, row.unit),
            row.reference ? format_quantity(*row.reference, row.unit) : "",
            row.ratio ? format_number(*row.ratio) : "",
            bar_text(row),
            !row.ok   ? "NO"
            : row.bar ? "yes"
                      : ""};
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

void append(std::vector<BarRow>& rows, std::string what, Result<std::vector<BarRow>> measured) {
    if (measured.ok())
        rows.insert(rows.end(), measured->begin(), measured->end());
    else
        rows.push_back(failed_row(std::move(what), measured.error().message));
}

bool all_ok(std::span<const BarRow> rows) {
    return std::all_of(rows.begin(), rows.end(), [](const BarRow& row) { return row.ok; });
}

std::string bar_table(std::span<const BarRow> rows) {
    TextTable table({{"what"},
                     {"measured", Align::right},
                     {"reference", Align::right},
                     {"ratio", Align::right},
                     {"bar", Align::right},
                     {"ok"}});
    for (const BarRow& row : rows) table.row(cells_of(row));
    std::string text = table.text();
    for (const BarRow& row : rows)
        if (!row.note.empty()) text += "  " + row.what + ": " + row.note + "\n";

    const auto judged = [](const BarRow& row) { return row.bar || !row.ok; };
    const auto bars = std::count_if(rows.begin(), rows.end(), judged);
    const auto missed =
        std::count_if(rows.begin(), rows.end(), [](const BarRow& row) { return !row.ok; });
    if (bars == 0) return text;
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
