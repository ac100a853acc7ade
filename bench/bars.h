// The one table in which every bench ends: what | measured | reference | ratio | bar | ok.
//
// A row is a value: build it with one of the functions below, which also judge it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::bench {

enum class Comparison : uint8_t { at_least, at_most };

struct BarRow {
    std::string what;
    double measured = 0;
    std::string unit;                 // of measured and reference: "tok/s", "GB/s", "ms", ""
    std::optional<double> reference;  // a ceiling or a peer, measured in the same run
    std::optional<double> ratio;      // measured / reference
    std::optional<double> bar;        // for ratio where there is one, else for measured
    Comparison comparison = Comparison::at_least;
    bool ok = true;    // the bar is met; true when there is none
    std::string note;  // one sentence under the table; empty: none
};

// measured / reference against the bar. Not ok when a number is not finite or reference <= 0.
BarRow ratio_row(std::string what, std::string unit, double measured, double reference,
                 Comparison comparison, double bar);
// As ratio_row for a ratio that is not simply measured / reference, such as a median of paired
// ratios.
BarRow paired_row(std::string what, std::string unit, double measured, double reference,
                  double ratio, Comparison comparison, double bar);
// measured itself against the bar.
BarRow value_row(std::string what, std::string unit, double measured, Comparison comparison,
                 double bar);
// Reported, not judged.
BarRow info_row(std::string what, std::string unit, double measured,
                std::optional<double> reference = std::nullopt);
// A bar that could not be measured is a bar that was missed.
BarRow failed_row(std::string what, std::string why);

// Adds what one part of a bench measured; its error becomes a failed row, so that the rest shows.
void append(std::vector<BarRow>& rows, std::string what, Result<std::vector<BarRow>> measured);

bool all_ok(std::span<const BarRow> rows);

// The table, one line a row, notes below it, and a last line that says how many bars were met if
// there are any.
std::string bar_table(std::span<const BarRow> rows);

// Four significant digits, with thousands separators from 10,000 on.
std::string format_number(double value);
// "12.3 GB/s"; times ("s") are scaled to s, ms or us, bytes ("B") to KiB, MiB, GiB.
std::string format_quantity(double value, std::string_view unit);

}  // namespace quire::bench
