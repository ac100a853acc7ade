#include "engine/model/cold_packing.h"

#include <charconv>
#include <string_view>

#include "engine/model/ec_packing.h"
#include "tier/packed/bx_packing.h"
#include "tier/packed/zstd_packing.h"

namespace quire {
namespace {

constexpr std::string_view kEc = "ec:";

Error no_such(const std::string& name) {
    return make_error(Code::invalid, "there is no packing '" + name +
                                         "'; a tier can pack with zstd, with bx (pages of bf16), "
                                         "or with ec:BITS, BITS from 0.5 to 8, such as ec:2.7");
}

}  // namespace

bool packing_needs_sidecar(const std::string& name) {
    return name.starts_with(kEc);
}

Result<std::shared_ptr<const SlabPacking>> find_cold_packing(const std::string& name,
                                                             const ColdModel& of) {
    if (name.empty() || name == "none") return std::shared_ptr<const SlabPacking>();
    if (name == "zstd") return make_zstd_packing();
    if (name == "bx") return make_bx_packing(of.layout);
    if (!name.starts_with(kEc)) return no_such(name);
    double bits = 0;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + kEc.size(), end, bits);
    if (error != std::errc() || at != end || !(bits >= kEcBitsMin && bits <= kEcBitsMax))
        return no_such(name);
    if (!of.sidecar)
        return make_error(Code::invalid, name +
                                             " takes what it learned of the model from "
                                             "--kv-sidecar FILE; make one with quire calibrate " +
                                             of.model->path());
    return make_ec_packing(of, bits);
}

}  // namespace quire
