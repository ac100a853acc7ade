#include "apps/quire/commands/transcode.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/staged_folder.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/units.h"
#include "engine/model/cold_packing.h"
#include "engine/model/schedule_file.h"
#include "tier/disk/disk.h"
#include "tier/packed/packed_slab.h"
#include "tier/packed/packed_store.h"
#include "tier/packed/zstd_packing.h"

namespace quire::commands {
namespace {

constexpr uint32_t kUsualBlockTokens = 16;
constexpr uint64_t kBatchBytes = uint64_t{64} << 20;
constexpr uint64_t kSpareBytes = uint64_t{256} << 20;  // segments not full, indexes
constexpr int64_t kWaitNs = int64_t{600} * 1'000'000'000;

// Calls that end in a callback, waited for: stores always call back.
template <typename Call>
std::vector<Status> wait(size_t count, const Call& call) {
    auto promise = std::make_shared<std::promise<std::vector<Status>>>();
    auto future = promise->get_future();
    const Status accepted = call([promise](std::span<const Status> results) {
        promise->set_value({results.begin(), results.end()});
    });
    if (!accepted.ok()) return std::vector<Status>(count, accepted);
    return future.get();
}

// What ec needs to know; empty members where no model was named.
struct Model {
    std::unique_ptr<GgufModel> model;
    ColdModel cold;
};

// What most blocks have; 16, as servers without a codec, when there are none.
uint32_t usual_tokens(const DiskReport& seen) {
    std::pair<uint64_t, uint32_t> most{0, kUsualBlockTokens};
    for (const auto& [tokens, blocks] : seen.blocks_by_tokens)
        most = std::max(most, {blocks, tokens});
    return most.second;
}

Result<Model> open_model(const TranscodeFlags& flags) {
    Model out;
    if (flags.model.empty()) return out;
    auto model = GgufModel::open(flags.model);
    if (!model.ok()) return model.error();
    out.model = std::move(model).value();
    const bool coded = !flags.kv_codec.empty() && flags.kv_codec != "raw16";
    const uint32_t block_tokens = coded ? kCodedBlockTokens : flags.block_tokens;
    const Element element = flags.kv_dtype == "bf16" ? Element::bf16 : Element::f16;
    const KvLayout plain = out.model->kv_layout(block_tokens, element);
    auto coding = find_kv_coding(flags.kv_codec, flags.kv_sinks, plain);
    if (!coding.ok()) return make_error(coding.code(), "--kv-codec: " + coding.error().message);
    const Status spans = set_recent(&coding.value(), flags.kv_recent_tokens, kMaxSpanTokens);
    if (!spans.ok())
        return make_error(spans.code(), "--kv-recent-tokens: " + spans.error().message);
    std::vector<uint32_t> skipped = flags.kv_skip_layers;
    LayerSchedule schedule;
    const bool from_file = coding->scheduled && !flags.kv_schedule.empty();
    if (from_file) {
        auto read =
            read_schedule(flags.kv_schedule, static_cast<size_t>(out.model->hparams().n_layers));
        if (!read.ok()) return make_error(read.code(), "--kv-schedule: " + read.error().message);
        schedule = std::move(read).value();
        skipped.insert(skipped.end(), schedule.skip_layers.begin(), schedule.skip_layers.end());
    }
    const Status kept = keep_exact(&coding.value(), skipped, plain);
    if (!kept.ok()) return make_error(kept.code(), "--kv-skip-layers: " + kept.error().message);
    if (from_file) QUIRE_TRY(take_widths(&coding.value(), schedule.bits, plain));
    ColdModel& cold = out.cold;
    cold.model = out.model.get();
    cold.coding = std::move(coding).value();
    cold.exact_tokens = flags.kv_sinks;
    if (!flags.kv_sidecar.empty()) {
        auto read = codec::read_sidecar(flags.kv_sidecar);
        if (!read.ok()) return make_error(read.code(), "--kv-sidecar: " + read.error().message);
        QUIRE_TRY(codec::match_sidecar(read->sidecar, out.model->id(), plain));
        cold.sidecar = std::make_shared<const codec::Sidecar>(read->sidecar);
        cold.sidecar_hash = read->hash;
        if (coded) {
            QUIRE_TRY(take_sidecar(&cold.coding, std::move(read).value(), plain));
            const HParams& h = out.model->hparams();
            add_turns(&cold.coding, h.family->rope, h.rope_dim);
        }
    }
    if (cold.coding.scheduled && cold.coding.layer_specs.empty())
        return make_error(Code::invalid,
                          "--kv-codec schedule takes its widths from --kv-schedule "
                          "FILE or --kv-sidecar FILE, as the server's");
    cold.layout = coded ? cold.coding.split(plain) : plain;
    return out;
}

Result<std::shared_ptr<const SlabPacking>> find_packing(const char* flag, const std::string& name,
                                                        const Model& model) {
    if (packing_needs_sidecar(name) && !model.model)
        return make_error(Code::invalid, fmt::format("{} {} needs --model and --kv-sidecar, and "
                                                     "--kv-codec and --kv-sinks as the server has "
                                                     "them",
                                                     flag, name));
    if (name == "bx" && !model.model)
        return make_error(Code::invalid, fmt::format("{} bx needs --model", flag));
    auto found = find_cold_packing(name, model.cold);
    if (!found.ok())
        return make_error(found.code(), fmt::format("{}: {}", flag, found.error().message));
    return found;
}

class Transcoder {
 public:
    Transcoder(TierStore& from, TierStore& to, std::shared_ptr<const SlabPacking> source)
        : from_(from), to_(to), source_(std::move(source)) {}

    Result<TranscodeReport> run() {
        auto entries = from_.list();
        if (!entries.ok()) return entries.error();
        report_.blocks = entries->size();
        Progress progress("blocks", report_.blocks);
        for (size_t at = 0; at < entries->size();) {
            size_t end = at;
            for (uint64_t bytes = 0; end < entries->size() && bytes < kBatchBytes; ++end)
                bytes += (*entries)[end].bytes;
            QUIRE_TRY(batch(std::span(*entries).subspan(at, end - at)));
            at = end;
            progress.update(at);
        }
        progress.finish();
        QUIRE_TRY(to_.flush(kWaitNs));
        report_.packed = to_.stats().packed_blocks;
        auto stored = to_.list();
        if (!stored.ok()) return stored.error();
        for (const TierEntry& entry : *stored) report_.to_bytes += entry.bytes;
        if (stored->size() < report_.written)
            return make_error(Code::io, fmt::format("of {} blocks written only {} are there",
                                                    report_.written, stored->size()));
        return std::move(report_);
    }

 private:
    void refuse(const Status& why) {
        if (report_.refused++ == 0) report_.first_refusal = why.error().message;
    }

    // A block that cannot be read, or is none, is left behind and counted. One that cannot be
    // written ends the work: the others would fail as it did.
    Status batch(std::span<const TierEntry> entries) {
        std::vector<SlabBuffer> memory;
        std::vector<TierGet> gets;
        for (const TierEntry& entry : entries) {
            memory.emplace_back(entry.bytes);
            gets.push_back({entry.key, memory.back().bytes()});
            report_.from_bytes += entry.bytes;
        }
        const std::vector<Status> read =
            wait(gets.size(), [&](TierDone done) { return from_.get(gets, std::move(done), {}); });
        std::vector<TierPut> puts;
        for (size_t i = 0; i < gets.size(); ++i) {
            const Status sound = read[i].ok() ? unpack(&memory[i]) : read[i];
            if (sound.ok())
                puts.push_back({gets[i].key, memory[i].bytes()});
            else
                refuse(sound);
        }
        const std::vector<Status> written =
            wait(puts.size(), [&](TierDone done) { return to_.put(puts, std::move(done)); });
        for (const Status& one : written) {
            report_.written += one.ok();
            if (one.ok()) continue;
            if (is_of_target(one)) return one;
            refuse(one);
        }
        return {};
    }

    bool is_of_target(const Status& failed) const {
        const Code code = failed.code();
        return code == Code::full || code == Code::io || code == Code::busy || to_.stats().degraded;
    }

    // The slab as it was before it was packed.
    Status unpack(SlabBuffer* slab) {
        const PackedPayload packed = slab_header(std::span<const std::byte>(slab->bytes())).packed;
        if (packed == PackedPayload{}) return {};
        const bool zstd = packed.packing == static_cast<uint32_t>(PackingId::zstd);
        const SlabPacking* packing = zstd ? zstd_.get() : source_.get();
        if (packing == nullptr)
            return make_error(Code::unsupported,
                              "a slab is packed with a packing that --from does not name");
        const size_t bytes = unpacked_bytes(slab->bytes());
        if (bytes < slab->bytes().size() || bytes > slab_bytes_for(kMaxPayloadBytes))
            return make_error(Code::corrupt, "a packed slab of an impossible size");
        SlabBuffer whole(bytes);
        if (!whole) return make_error(Code::full, "no memory for a slab");
        std::ranges::copy(slab->bytes(), whole.bytes().begin());
        *slab = std::move(whole);
        return unpack_slab(*packing, slab->bytes(), &scratch_);
    }

    TierStore& from_;
    TierStore& to_;
    std::shared_ptr<const SlabPacking> source_;
    std::shared_ptr<const SlabPacking> zstd_ = make_zstd_packing();
    std::vector<std::byte> scratch_;
    TranscodeReport report_;
};

Result<std::unique_ptr<TierStore>> open_dir(const std::string& dir, uint64_t capacity_bytes,
                                            bool read_only, IoEngine& io) {
    DiskOptions options;
    options.dir = dir;
    options.capacity_bytes = capacity_bytes;
    options.read_only = read_only;
    options.allow_oversize = true;
    options.io = &io;
    return open_disk_store(options);
}

Status check_flags(const TranscodeFlags& flags) {
    namespace fs = std::filesystem;
    for (const auto& [flag, name] : {std::pair("--to", flags.to), std::pair("--from", flags.from)})
        if (name.empty())
            return make_error(Code::invalid, fmt::format("{} is empty; none packs nothing", flag));
    if (flags.block_tokens % 16 != 0)
        return make_error(Code::invalid, "--block-tokens must be a multiple of 16");
    if (flags.kv_sinks % kCodedBlockTokens != 0 || flags.kv_sinks > kMaxSinkTokens)
        return make_error(Code::invalid, fmt::format("--kv-sinks must be a multiple of {} up to {}",
                                                     kCodedBlockTokens, kMaxSinkTokens));
    std::error_code ignored;
    const fs::path from = fs::weakly_canonical(flags.from_dir, ignored);
    const fs::path to = fs::weakly_canonical(flags.to_dir, ignored);
    const bool inside = std::ranges::mismatch(from, to).in1 == from.end();
    if (from == to.string() + kStagedSuffix)
        return make_error(Code::invalid, flags.from_dir +
                                             " is what an interrupted transcode left for that very "
                                             "directory, and would be deleted; name another one");
    if (!from.empty() && inside)
        return make_error(Code::invalid, flags.to_dir + " is " + flags.from_dir +
                                             " or lies in it; name a new directory");
    return {};
}

// Fills the staged folder; none of its files is open afterwards.
Result<TranscodeReport> fill(const TranscodeFlags& flags, const Model& model,
                             const DiskReport& seen, const std::string& staged, IoEngine& io) {
    auto source = find_packing("--from", flags.from, model);
    if (!source.ok()) return source.error();
    auto target = find_packing("--to", flags.to, model);
    if (!target.ok()) return target.error();
    auto from = open_dir(flags.from_dir, std::max(seen.file_bytes, kSpareBytes), true, io);
    if (!from.ok()) return from.error();
    // Unpacked, blocks may be ten times as large and more; the limit is no reservation.
    auto to = open_dir(staged, 16 * seen.block_bytes + kSpareBytes, false, io);
    if (!to.ok()) return to.error();
    if (!*target) return Transcoder(**from, **to, *source).run();
    const auto packed = make_packed_store(**to, {.packing = *target, .pack_share = 1.0});
    auto report = Transcoder(**from, *packed, *source).run();
    if (report.ok() && report->packed == 0 && report->written > 0 &&
        packing_needs_sidecar(flags.to))
        return make_error(Code::invalid,
                          "no block was packed: none was written with what --model, --kv-codec, "
                          "--kv-sidecar, --kv-sinks, --kv-skip-layers, --kv-recent-tokens, "
                          "--kv-dtype and --block-tokens say, all of which have to be that "
                          "server's");
    return report;
}

// The store counts what it has; block sizes, and what was lost with segments, were seen before.
TranscodeReport completed(TranscodeReport report, const DiskReport& seen) {
    report.block_tokens = usual_tokens(seen);
    const uint64_t lost = seen.lost_blocks;
    if (lost == 0) return report;
    report.blocks += lost;
    if (report.refused == 0)
        report.first_refusal = fmt::format(
            "{} of them are lost with segments that were cut or deleted; quire inspect names them",
            lost);
    report.refused += lost;
    return report;
}

}  // namespace

Result<TranscodeReport> transcode(const TranscodeFlags& given, IoEngine* io) {
    QUIRE_TRY(check_flags(given));
    auto seen = inspect_disk(given.from_dir, false);
    if (!seen.ok()) return seen.error();
    TranscodeFlags flags = given;
    if (flags.block_tokens == 0) flags.block_tokens = usual_tokens(*seen);
    auto model = open_model(flags);
    if (!model.ok()) return model.error();
    std::unique_ptr<IoEngine> own;
    if (io == nullptr) {
        auto made = make_io_engine({});
        if (!made.ok()) return made.error();
        own = std::move(made).value();
        io = own.get();
    }
    auto staged = StagedFolder::create(flags.to_dir, *io);
    if (!staged.ok()) return staged.error();
    auto report = fill(flags, *model, *seen, staged->path(), *io);
    if (!report.ok()) return report;
    QUIRE_TRY(staged->commit());
    return completed(std::move(report).value(), *seen);
}

std::string transcode_text(const TranscodeReport& r) {
    std::string text =
        fmt::format("{} of {} blocks written, {} packed: {} instead of {}\n", r.written, r.blocks,
                    r.packed, format_bytes(r.to_bytes), format_bytes(r.from_bytes));
    if (r.packed > 0)
        text += fmt::format(
            "Blocks have {0} tokens; a server without a codec reads them with "
            "--block-tokens {0}\n",
            r.block_tokens);
    if (r.refused > 0) text += fmt::format("{} were not: {}\n", r.refused, r.first_refusal);
    return text;
}

std::string transcode_json(const TranscodeReport& r) {
    nlohmann::ordered_json json = {{"blocks", r.blocks},     {"written", r.written},
                                   {"packed", r.packed},     {"from_bytes", r.from_bytes},
                                   {"to_bytes", r.to_bytes}, {"block_tokens", r.block_tokens},
                                   {"refused", r.refused},   {"first_refusal", r.first_refusal}};
    return json.dump(2) + "\n";
}

}  // namespace quire::commands
