#include "apps/quire/commands/doctor/finding.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace quire::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view verdict_name(Verdict verdict) {
    constexpr std::string_view kNames[] = {"ok", "warn", "FAIL"};
    return kNames[static_cast<int>(verdict)];
}

}  // namespace

Finding good(std::string what, std::string found) {
    return {Verdict::ok, std::move(what), std::move(found), ""};
}

Finding warning(std::string what, std::string found, std::string remedy) {
    return {Verdict::warn, std::move(what), std::move(found), std::move(remedy)};
}

Finding failure(std::string what, std::string found, std::string remedy) {
    return {Verdict::fail, std::move(what), std::move(found), std::move(remedy)};
}

Verdict worst(std::span<const Finding> findings) {
    Verdict verdict = Verdict::ok;
    for (const Finding& finding : findings) verdict = std::max(verdict, finding.verdict);
    return verdict;
}

std::string findings_text(std::span<const Finding> findings) {
    std::string text;
    int counts[3] = {};
    for (const Finding& finding : findings) {
        ++counts[static_cast<int>(finding.verdict)];
        text += fmt::format("{:<4}  {:<18}  {}\n", verdict_name(finding.verdict), finding.what,
                            finding.found);
        if (!finding.remedy.empty()) text += fmt::format("{:26}-> {}\n", "", finding.remedy);
    }
    return text +
           fmt::format("\n{} ok, {} warnings, {} failures\n", counts[0], counts[1], counts[2]);
}

std::string findings_json(std::span<const Finding> findings) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
        Json one = {
            {"verdict", finding.verdict == Verdict::fail ? "fail" : verdict_name(finding.verdict)},
            {"what", finding.what},
            {"found", finding.found}};
        if (!finding.remedy.empty()) one["remedy"] = finding.remedy;
        list.push_back(std::move(one));
    }
    const Verdict verdict = worst(findings);
    const Json out = {{"verdict", verdict == Verdict::fail ? "fail" : verdict_name(verdict)},
                      {"findings", std::move(list)}};
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace quire::doctor
