// Speed of the CUDA kernels beside ceilings of the same run: a table, and JSON with --json FILE;
// of one suite with --only SUITE. Exit code 1: a bar was missed.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "rows.h"

namespace quire::gpu_bench {
namespace {

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", x);
    return text;
}

void print(const std::vector<Row>& rows) {
    std::printf("%-66s | %13s | %13s | %7s | %8s | ok\n", "what", "measured", "reference", "ratio",
                "bar");
    for (const Row& row : rows) {
        const std::string bar =
            row.bar == 0 ? "" : std::string(row.at_least ? ">= " : "<= ") + number(row.bar);
        std::printf("%-66s | %8.4g %-4s | %8.4g %-4s | %7.3f | %8s | %s\n", row.what.c_str(),
                    row.measured, row.unit.c_str(), row.reference, row.unit.c_str(), row.ratio(),
                    bar.c_str(),
                    row.bar == 0 ? ""
                    : row.ok()   ? "yes"
                                 : "NO");
    }
}

void write_json(const Machine& machine, const std::vector<Row>& rows, const char* path) {
    std::ofstream out(path);
    out << "{\"bench\": \"gpu\",\n \"machine\": {\"device\": \"" << machine.device
        << "\", \"multiprocessors\": " << machine.multiprocessors << "},\n \"bars\": [";
    for (const Row& row : rows) {
        out << (&row == &rows.front() ? "\n" : ",\n") << "  {\"what\": \"" << row.what
            << "\", \"measured\": " << number(row.measured) << ", \"unit\": \"" << row.unit
            << "\", \"reference\": " << (row.reference > 0 ? number(row.reference) : "null")
            << ", \"ratio\": " << (row.reference > 0 ? number(row.ratio()) : "null")
            << ", \"bar\": " << (row.bar != 0 ? number(row.bar) : "null") << ", \"comparison\": \""
            << (row.at_least ? ">=" : "<=") << "\", \"ok\": " << (row.ok() ? "true" : "false")
            << "}";
    }
    out << "\n ]}\n";
}

struct Suite {
    const char* name;
    std::vector<Row> (*rows)(const Machine&);
};
constexpr Suite kSuites[] = {
    {"encode", encode_rows}, {"decode", decode_rows},           {"prefill", prefill_rows},
    {"copy", copy_rows},     {"copy_beside", copy_beside_rows}, {"tier", tier_rows},
    {"mla", mla_rows}};

int run(const char* json, const std::string& only) {
    const Machine machine = measure_machine();
    std::printf("%s, %d multiprocessors\n\n", machine.device.c_str(), machine.multiprocessors);
    std::vector<Row> rows = {{.what = "device memory, read only",
                              .unit = "TB/s",
                              .measured = machine.read_bytes_per_s * 1e-12},
                             {.what = "device memory, copied (read and written)",
                              .unit = "TB/s",
                              .measured = machine.copy_bytes_per_s * 1e-12}};
    for (const Suite& suite : kSuites) {
        if (!only.empty() && only != suite.name) continue;
        const std::vector<Row> more = suite.rows(machine);
        rows.insert(rows.end(), more.begin(), more.end());
    }
    print(rows);
    if (json != nullptr) write_json(machine, rows, json);
    for (const Row& row : rows)
        if (!row.ok()) return 1;
    return 0;
}

}  // namespace
}  // namespace quire::gpu_bench

int main(int argc, char** argv) {
    const char* json = nullptr;
    std::string only;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && std::strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else if (i + 1 < argc && std::strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else {
            std::fprintf(stderr, "usage: quire_gpu_bench [--only SUITE] [--json FILE]\n");
            return 2;
        }
    }
    return quire::gpu_bench::run(json, only);
}
