#include "engine/model/cold_packing.h"

#include "codec/codec_names.h"
#include "engine/model/ec_packing.h"
#include "tier/packed/bx_packing.h"
#include "tier/packed/zstd_packing.h"

namespace quire {
bool packing_needs_sidecar(const std::string& name) {
    return name.starts_with(kEcPrefix);
}

Result<std::shared_ptr<const SlabPacking>> find_cold_packing(const std::string& name,
                                                             const ColdModel& of) {
    if (name.empty() || name == "none") return std::shared_ptr<const SlabPacking>();
    if (name == "zstd") return make_zstd_packing();
    if (name == "bx") return make_bx_packing(of.layout);
    QUIRE_TRY(codec::check_packing(name));
    const EcRate rate = ec_rate(name).value();
    if (!of.sidecar)
        return make_error(Code::invalid, name +
                                             " takes what it learned of the model from "
                                             "--kv-sidecar FILE; make one with quire calibrate " +
                                             of.model->path());
    return make_ec_packing(of, rate);
}

}  // namespace quire
