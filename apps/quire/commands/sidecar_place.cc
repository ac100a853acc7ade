#include "apps/quire/commands/sidecar_place.h"

#include "bench/places.h"

namespace quire::commands {

std::string sidecar_place(const ModelId& model) {
    return bench::cache_folder() + "/sidecars/" + model.value.to_hex() + ".sidecar";
}

}  // namespace quire::commands
