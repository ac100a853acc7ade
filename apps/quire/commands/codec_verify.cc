#include "apps/quire/commands/codec_verify.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "base/regular_file.h"
#include "codec/codec_table.h"
#include "codec/mla/rows.h"
#include "codec/vectors/ec_vectors.h"
#include "codec/vectors/golden.h"
#include "codec/vectors/mla_vectors.h"

namespace quire::commands {
namespace {

namespace fs = std::filesystem;

using Checks = std::vector<CodecCheck>;

constexpr uint64_t kVectorBytesMax = uint64_t{1} << 30;
constexpr uint32_t kEcHeadDim = 16;  // of ec.block

// One golden record against every instruction set of this CPU.
void check(const codec::GoldenRecord& record, Checks* checks) {
    const auto spec = codec::codec_of(record.description);
    if (!spec.ok()) {
        checks->push_back({fmt::format("codec {:#x}", record.description.codec),
                           record.description.head_dim, "any", spec.error().message});
        return;
    }
    for (const codec::PageCodecOps& ops : codec::row_of(*spec).ops()) {
        if (!ops.cpu_has_it()) continue;
        const Status status = codec::check_golden(record, ops);
        checks->push_back({codec::codec_name(*spec), record.description.head_dim, ops.name,
                           status.ok() ? "" : status.error().message});
    }
}

// What differs; empty: nothing.
std::string difference(std::span<const std::byte> made, std::span<const std::byte> file) {
    const auto at = std::ranges::mismatch(made, file);
    if (at.in1 == made.end() && at.in2 == file.end()) return "";
    if (at.in1 == made.end() || at.in2 == file.end())
        return fmt::format("the file has {} bytes, this build makes {}", file.size(), made.size());
    return fmt::format("byte {} differs", at.in1 - made.begin());
}

Status check_records(std::span<const std::byte> file, Checks* checks) {
    const auto records = codec::read_golden(file);
    if (!records.ok()) return records.error();
    for (const codec::GoldenRecord& record : *records) check(record, checks);
    return {};
}

Status check_block(std::span<const std::byte> file, Checks* checks) {
    for (const codec::ec::Kernels& kernels : codec::ec::all_kernels())
        if (kernels.cpu_has_it())
            checks->push_back(
                {"ec", kEcHeadDim, kernels.name, difference(codec::ec_vectors(kernels), file)});
    return {};
}

Status check_rows(std::span<const std::byte> file, Checks* checks) {
    checks->push_back(
        {"mla", codec::mla::kV32Numbers, "ref", difference(codec::mla_vectors(), file)});
    return {};
}

// How a file of golden vectors ends, and what checks it.
struct VectorKind {
    const char* extension;
    Status (*check)(std::span<const std::byte> file, Checks* checks);
};
constexpr VectorKind kKinds[] = {
    {".bin", check_records}, {".block", check_block}, {".rows", check_rows}};

const VectorKind* kind_of(const fs::path& path) {
    const auto found = std::ranges::find_if(
        kKinds, [&](const VectorKind& kind) { return path.extension() == kind.extension; });
    return found == std::end(kKinds) ? nullptr : found;
}

Status check_file(const fs::path& path, Checks* checks) {
    const auto text = read_regular_file(path, "the vectors", kVectorBytesMax);
    if (!text.ok()) return text.error();
    const VectorKind* kind = kind_of(path);
    if (kind == nullptr)
        return make_error(Code::invalid, path.string() +
                                             " is no file of golden vectors: those "
                                             "end in .bin, .block or .rows");
    const Status done = kind->check(std::as_bytes(std::span(*text)), checks);
    if (!done.ok()) return make_error(done.code(), path.string() + ": " + done.error().message);
    return {};
}

Status check_folder(const fs::path& folder, Checks* checks) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (kind_of(at->path()) != nullptr) files.push_back(at->path());
    if (error)
        return make_error(Code::io, fmt::format("cannot read the folder {}: {}", folder.string(),
                                                error.message()));
    if (files.empty())
        return make_error(Code::invalid, folder.string() +
                                             " has no golden vectors: no .bin, "
                                             ".block or .rows");
    std::ranges::sort(files);
    for (const fs::path& file : files) QUIRE_TRY(check_file(file, checks));
    return {};
}

}  // namespace

Result<Checks> verify_this_cpu() {
    Checks checks;
    for (const codec::CodecRow& row : codec::codec_table())
        for (const codec::CodecSpec& spec : row.specs())
            for (const uint32_t head_dim : {64u, 80u, 96u, 128u, 256u}) {
                const codec::Geometry g = codec::with_fitting_element(spec, {.head_dim = head_dim});
                if (row.unsupported(spec, g) == nullptr)
                    check(codec::make_golden(spec, g, head_dim, row.ops()[0]), &checks);
            }
    return checks;
}

Result<Checks> verify_files(const std::vector<std::string>& paths) {
    Checks checks;
    for (const std::string& path : paths) {
        std::error_code ignored;  // the file says what is wrong
        const bool folder = fs::is_directory(path, ignored);
        QUIRE_TRY(folder ? check_folder(path, &checks) : check_file(path, &checks));
    }
    return checks;
}

}  // namespace quire::commands
