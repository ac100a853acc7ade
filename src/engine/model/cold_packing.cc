#include "engine/model/cold_packing.h"

#include "engine/model/ec_packing.h"
#include "tier/packed/bx_packing.h"
#include "tier/packed/zstd_packing.h"

namespace quire {
namespace {

Error no_such(const std::string& name) {
    return make_error(Code::invalid, "there is no packing '" + name +
                                         "'; a tier can pack with zstd, with bx (pages of bf16), "
                                         "or with ec:BITS, BITS from 0.5 to 8, such as ec:2.7 "
                                         "(ec:2.7:alone: no layer foretold from another)");
}

}  // namespace

bool packing_needs_sidecar(const std::string& name) {
    return name.starts_with(kEcPrefix);
}

Result<std::shared_ptr<const SlabPacking>> find_cold_packing(const std::string& name,
                                                             const ColdModel& of) {
    if (name.empty() || name == "none") return std::shared_ptr<const SlabPacking>();
    if (name == "zstd") return make_zstd_packing();
    if (name == "bx") return make_bx_packing(of.layout);
    const std::optional<EcRate> rate = ec_rate(name);
    if (!rate) return no_such(name);
    if (!of.sidecar)
        return make_error(Code::invalid, name +
                                             " takes what it learned of the model from "
                                             "--kv-sidecar FILE; make one with quire calibrate " +
                                             of.model->path());
    return make_ec_packing(of, *rate);
}

}  // namespace quire
