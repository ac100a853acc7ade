#include "bench/report.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace quire::bench {
namespace {

using Json = nlohmann::ordered_json;

Json number(std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return nullptr;
    return *value;
}

Json row_json(const BarRow& row) {
    Json out = {{"what", row.what},
                {"measured", number(row.measured)},
                {"unit", row.unit},
                {"reference", number(row.reference)},
                {"ratio", number(row.ratio)},
                {"bar", number(row.bar)},
                {"comparison", row.comparison == Comparison::at_least ? ">=" : "<="},
                {"ok", row.ok}};
    if (!row.note.empty()) out["note"] = row.note;
    return out;
}

}  // namespace

std::string report_text(const BenchReport& report) {
    const MachineInfo& m = report.machine;
    return fmt::format("quire bench {}: {}, {}, {} threads, {} memory, {}\n\n", report.bench, m.cpu,
                       m.isa, m.threads, format_quantity(static_cast<double>(m.memory_bytes), "B"),
                       m.disk) +
           bar_table(report.rows);
}

std::string report_json(const BenchReport& report) {
    Json out = {{"bench", report.bench},
                {"machine",
                 {{"cpu", report.machine.cpu},
                  {"isa", report.machine.isa},
                  {"threads", report.machine.threads},
                  {"memory_bytes", report.machine.memory_bytes},
                  {"disk", report.machine.disk}}},
                {"ok", all_ok(report.rows)},
                {"bars", Json::array()}};
    for (const BarRow& row : report.rows) out["bars"].push_back(row_json(row));
    // Names of models and files may hold any bytes.
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace quire::bench
