#include "base/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>
#include <span>
#include <string>

namespace quire {
namespace {

struct Unit {
    std::string_view name;
    uint64_t value;
};

constexpr Unit kSizeUnits[] = {
    {"tib", uint64_t{1} << 40},
    {"gib", uint64_t{1} << 30},
    {"mib", uint64_t{1} << 20},
    {"kib", uint64_t{1} << 10},
    {"tb", 1'000'000'000'000},
    {"gb", 1'000'000'000},
    {"mb", 1'000'000},
    {"kb", 1'000},
    {"b", 1},
};
constexpr Unit kTimeUnits[] = {
    {"d", 86'400'000'000'000},
    {"h", 3'600'000'000'000},
    {"m", 60'000'000'000},
    {"s", 1'000'000'000},
    {"ms", 1'000'000},
    {"us", 1'000},
    {"ns", 1},
};

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

std::string_view without_spaces(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

const Unit* unit_named(std::span<const Unit> units, std::string_view name) {
    for (const Unit& unit : units)
        if (unit.name == name) return &unit;
    return nullptr;
}

// Splits "1.5gib..." into its number and what follows; no sign, no exponent.
struct Number {
    std::string_view digits;
    std::string_view rest;
};

Number split_number(std::string_view text) {
    const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    return {text.substr(0, end), text.substr(end)};
}

// digits * unit, rounded down; nothing when it is no number or too large.
std::optional<uint64_t> scaled(std::string_view digits, uint64_t unit) {
    constexpr uint64_t kLimit = uint64_t{1} << 63;
    const char* end = digits.data() + digits.size();
    uint64_t whole = 0;
    const auto exact = std::from_chars(digits.data(), end, whole);
    if (exact.ec == std::errc{} && exact.ptr == end)
        return whole < kLimit / unit ? std::optional(whole * unit) : std::nullopt;
    double value = 0;
    const auto real = std::from_chars(digits.data(), end, value, std::chars_format::fixed);
    if (real.ec != std::errc{} || real.ptr != end) return std::nullopt;
    const double product = value * static_cast<double>(unit);
    return product < static_cast<double>(kLimit) ? std::optional(static_cast<uint64_t>(product))
                                                 : std::nullopt;
}

std::string three_digits(double value, std::string_view unit) {
    const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.*f ", decimals, value);
    return digits + std::string(unit);
}

// The largest unit that divides `value`, in the order given; zero has none.
std::string exact(uint64_t value, std::span<const Unit> units,
                  std::span<const std::string_view> names) {
    if (value == 0) return "0";
    for (size_t i = 0; i < units.size(); ++i)
        if (value % units[i].value == 0)
            return std::to_string(value / units[i].value) + std::string(names[i]);
    return std::to_string(value);
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
    const std::string name = lower(without_spaces(text));
    const Number number = split_number(name);
    const std::string_view unit_name = without_spaces(number.rest);
    const Unit* unit = unit_named(kSizeUnits, unit_name.empty() ? "b" : unit_name);
    if (unit != nullptr)
        if (const auto bytes = scaled(number.digits, unit->value)) return *bytes;
    return make_error(Code::invalid, "'" + std::string(text) +
                                         "' is not a size; write it like 64GiB, 512MB or 4096");
}

Result<int64_t> parse_duration(std::string_view text) {
    const std::string all = lower(without_spaces(text));
    if (all == "0") return int64_t{0};
    uint64_t total = 0;
    std::string_view left = all;
    bool good = !left.empty();
    while (good && !left.empty()) {
        const Number number = split_number(left);
        const size_t end = std::min(number.rest.find_first_of("0123456789."), number.rest.size());
        const Unit* unit = unit_named(kTimeUnits, without_spaces(number.rest.substr(0, end)));
        const auto part = unit != nullptr ? scaled(number.digits, unit->value) : std::nullopt;
        good = part.has_value() && total + *part < (uint64_t{1} << 63);
        if (good) total += *part;
        left = number.rest.substr(end);
    }
    if (good) return static_cast<int64_t>(total);
    return make_error(
        Code::invalid,
        "'" + std::string(text) + "' is not a duration; write it like 250ms, 30s, 5m or 1h30m");
}

std::string format_bytes(uint64_t bytes) {
    constexpr std::array<std::string_view, 6> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return std::to_string(bytes) + " B";
    double value = static_cast<double>(bytes) / 1024;
    size_t unit = 0;
    for (; value >= 1023.5 && unit + 1 < kNames.size(); ++unit) value /= 1024;
    return three_digits(value, kNames[unit]);
}

std::string format_duration(int64_t ns) {
    const auto value = static_cast<double>(ns);
    if (ns < 0) return "-" + format_duration(-ns);
    if (ns < kNsPerUs) return std::to_string(ns) + " ns";
    if (ns < kNsPerMs) return three_digits(value / 1e3, "us");
    if (ns < kNsPerSecond) return three_digits(value / 1e6, "ms");
    if (ns < 60 * kNsPerSecond) return three_digits(value / 1e9, "s");
    const int64_t seconds = ns / kNsPerSecond;
    if (seconds < 3600)
        return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
    return std::to_string(seconds / 3600) + " h " + std::to_string(seconds % 3600 / 60) + " min";
}

std::string exact_size(uint64_t bytes) {
    constexpr std::string_view kNames[] = {"TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB", "B"};
    return exact(bytes, kSizeUnits, kNames);
}

std::string exact_duration(int64_t ns) {
    constexpr std::string_view kNames[] = {"d", "h", "m", "s", "ms", "us", "ns"};
    return exact(static_cast<uint64_t>(ns), kTimeUnits, kNames);
}

}  // namespace quire
