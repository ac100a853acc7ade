#include "apps/quire/commands/eval_candidates.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "base/writable_place.h"
#include "bench/eval/ec_candidate.h"
#include "bench/eval/eval_bars.h"
#include "bench/eval/schedule.h"
#include "bench/eval/served.h"
#include "bench/eval/skipping.h"
#include "codec/codec_names.h"
#include "codec/ec/ec.h"
#include "codec/ec/rate.h"

namespace quire::commands {
namespace {

constexpr const char* kDefaults[] = {"fp8_e4m3_token:plain",
                                     "fp8_e4m3_token",
                                     "k8v8",
                                     "k7v6",
                                     "k6v6",
                                     "k6v4",
                                     "k5v4",
                                     "k4v4",
                                     "k4v3",
                                     "k3v3",
                                     "k3v2",
                                     "k2v2",
                                     "tq2.5",
                                     "i2c",
                                     "k8v8:post",
                                     "k4v4:post",
                                     "k4v4:plain"};
// With a sidecar that has ec's section.
constexpr const char* kColdDefaults[] = {"ec:4",   "ec:3.2", "ec:2.6", "ec:2.1",
                                         "ec:1.7", "ec:1.3", "ec:1",   "ec:0.7"};

bool is_ec(const std::string& name) {
    return bench::ec_bits(name).has_value();
}

bool is_served(const std::string& name) {
    return bench::served_name(name).has_value();
}

// All but those of ec and what is served, which need the model.
Result<Candidates> find_named(const EvalFlags& flags) {
    std::vector<std::string> names = flags.caches;
    const bool all = names.empty();
    std::erase_if(names, [](const auto& name) { return is_ec(name) || is_served(name); });
    if (all) {
        names.assign(std::begin(kDefaults), std::end(kDefaults));
        for (const std::string& peer : bench::peer_names()) names.push_back(peer);
    }
    Candidates candidates;
    if (!flags.measures.no_noise_floor) candidates.push_back(bench::noise_floor_candidate());
    for (const std::string& name : names) {
        if (auto peer = bench::peer_candidate(name)) {
            candidates.push_back(std::move(peer));
            continue;
        }
        auto ours = bench::codec_candidate(name);
        if (!ours.ok()) {
            std::string message = ours.error().message + ", ec:BITS; peers:";
            for (const std::string& peer : bench::peer_names()) message += " " + peer;
            if (name == "sidecar")
                message = "--caches: --sidecar FILE adds its row 'sidecar' by itself";
            if (name.starts_with("auto:"))
                message = "--caches: --schedule " + name.substr(5) + " adds the row '" + name + "'";
            return make_error(ours.error().code, message);
        }
        candidates.push_back(
            flags.skip_layers.empty()
                ? std::move(ours).value()
                : bench::skipping_candidate(std::move(ours).value(), flags.skip_layers));
    }
    return candidates;
}

std::vector<std::string> ec_names(const EvalFlags& flags) {
    std::vector<std::string> names;
    if (flags.caches.empty() && flags.options.sidecar != nullptr &&
        codec::find_section(*flags.options.sidecar, codec::ec::kTag) != nullptr)
        names.assign(std::begin(kColdDefaults), std::end(kColdDefaults));
    std::ranges::copy_if(flags.caches, std::back_inserter(names), is_ec);
    return names;
}

// What is served, by the names of both its parts.
Status check_served(const std::string& name) {
    const auto served = bench::served_name(name);
    if (!served) return {};
    for (const Status& part :
         {codec::check_page_codec(served->codec), codec::check_packing(served->packing)})
        if (!part.ok()) return make_error(part.code(), name + ": " + part.error().message);
    return {};
}

Status needs_sidecar(const std::string& what) {
    return make_error(Code::invalid, what + " needs --sidecar FILE, from `quire calibrate MODEL`");
}

Status check_cache_names(const EvalFlags& flags) {
    for (const std::string& name : flags.caches) {
        QUIRE_TRY(check_served(name));
        const auto served = bench::served_name(name);
        const bool packed = served && codec::ec::ec_rate(served->packing).has_value();
        if ((is_ec(name) || packed) && flags.sidecar.empty())
            return needs_sidecar(is_ec(name) ? name : served->packing);
    }
    return {};
}

// "--svg: there is no folder ...".
Status check_output(const char* flag, const std::string& path) {
    if (path.empty()) return {};
    const Status place = check_writable_place(path);
    if (place.ok()) return {};
    return make_error(place.code(), fmt::format("{}: {}", flag, place.error().message));
}

Status check_files(const EvalFlags& flags) {
    for (const std::string& path : {flags.text.text, flags.text.calibration})
        if (!path.empty())
            if (const auto read = read_text(path); !read.ok()) return read.error();
    if (!flags.schedule_file.empty()) QUIRE_TRY(read_schedule(flags.schedule_file, std::nullopt));
    QUIRE_TRY(check_output("--svg", flags.svg));
    QUIRE_TRY(check_output("--save-text", flags.text.save_text));
    return check_output("--save-schedule", flags.save_schedule);
}

// Those of ec, and what is served.
Status add_ec_and_served(const EvalFlags& flags, const GgufModel& model, Candidates* candidates) {
    const codec::Sidecar* sidecar = flags.options.sidecar;
    if (const std::vector<std::string> ec = ec_names(flags); !ec.empty()) {
        if (sidecar == nullptr)
            return make_error(Code::invalid,
                              ec.front() + " needs --sidecar FILE, from `quire calibrate MODEL`");
        auto added = bench::ec_candidates(model, *sidecar, ec, flags.skip_layers);
        if (!added.ok()) return added.error();
        for (auto& one : *added) candidates->push_back(std::move(one));
    }
    for (const std::string& name : flags.caches) {
        if (!is_served(name)) continue;
        bench::ServedOptions options{.sidecar = sidecar, .skip_layers = flags.skip_layers};
        if (flags.sinks_given) options.sink_tokens = flags.options.exact.sinks;
        auto served = bench::served_candidate(model, name, options);
        if (!served.ok()) return served.error();
        candidates->push_back(std::move(served).value());
    }
    return {};
}

Status add_schedule_of_file(const EvalFlags& flags, const GgufModel& model,
                            Candidates* candidates) {
    if (flags.schedule_file.empty()) return {};
    auto schedule =
        read_schedule(flags.schedule_file, static_cast<size_t>(model.hparams().n_layers));
    if (!schedule.ok()) return schedule.error();
    std::vector<uint32_t> skipped;
    std::ranges::set_union(schedule->skip_layers, flags.skip_layers, std::back_inserter(skipped));
    schedule->skip_layers = std::move(skipped);
    candidates->push_back(
        bench::scheduled_candidate(flags.schedule_file, bench::Schedule::of(*schedule)));
    return {};
}

// Caches that the model's rows do not fit: an error when they were asked for, otherwise left out.
Status keep_fitting(const EvalFlags& flags, const GgufModel& model, Candidates* candidates) {
    const auto head_dim = static_cast<uint32_t>(model.hparams().head_dim);
    for (const auto& candidate : *candidates) {
        const Status fits = candidate->fits(head_dim);
        if (fits.ok()) continue;
        if (!flags.caches.empty()) return fits;
        std::cerr << "left out: " << fits.error().message << std::endl;
    }
    std::erase_if(*candidates, [&](const auto& one) { return !one->fits(head_dim).ok(); });
    return {};
}

}  // namespace

Result<Candidates> find_candidates(const EvalFlags& flags, codec::ReadSidecar* sidecar) {
    QUIRE_TRY(check_cache_names(flags));
    auto candidates = find_named(flags);
    if (!candidates.ok()) return candidates;
    QUIRE_TRY(check_files(flags));
    if (flags.sidecar.empty()) return candidates;
    auto read = codec::read_sidecar(flags.sidecar);
    if (!read.ok()) return read.error();
    *sidecar = std::move(read).value();
    return candidates;
}

Status add_of_model(const EvalFlags& flags, const GgufModel& model, Candidates* candidates) {
    QUIRE_TRY(keep_fitting(flags, model, candidates));
    const codec::Sidecar* sidecar = flags.options.sidecar;
    if (sidecar != nullptr) {
        const Status same = codec::match_sidecar(*sidecar, model.id(), model.kv_layout(16));
        if (!same.ok()) return make_error(same.code(), "--sidecar: " + same.error().message);
        for (const auto& candidate : *candidates) QUIRE_TRY(candidate->use(*sidecar));
    }
    QUIRE_TRY(add_ec_and_served(flags, model, candidates));
    if (sidecar != nullptr && !sidecar->bits.empty()) {
        bench::Schedule schedule = bench::Schedule::of(*sidecar);
        schedule.skip_layers = flags.skip_layers;
        candidates->push_back(bench::scheduled_candidate("sidecar", std::move(schedule)));
    }
    return add_schedule_of_file(flags, model, candidates);
}

bool knows_sensitivity(const EvalFlags& flags) {
    return flags.options.sidecar != nullptr && !flags.options.sidecar->sensitivity.empty();
}

Status add_schedules(const EvalFlags& flags, const GgufModel& model, Candidates* candidates) {
    if (flags.schedules.empty()) return {};
    const auto head_dim = static_cast<uint32_t>(model.hparams().head_dim);
    auto sensitivity = knows_sensitivity(flags) ? bench::Sensitivity::of(*flags.options.sidecar)
                                                : bench::measure_sensitivity(model, flags.options);
    if (!sensitivity.ok()) return sensitivity.error();
    for (const double bits : flags.schedules) {
        const bench::Schedule schedule = bench::allocate_joined(
            *sensitivity, bits, head_dim, model.kv_layout(16), flags.skip_layers);
        candidates->push_back(bench::scheduled_candidate(bench::schedule_name(bits), schedule));
        if (flags.save_schedule.empty()) continue;
        std::ofstream out(flags.save_schedule);
        out << schedule_yaml(schedule.by_layer());
        if (!out.flush())
            return make_error(Code::io, "cannot write the schedule " + flags.save_schedule);
    }
    return {};
}

}  // namespace quire::commands
