// Where a model's sidecar lies when nobody says otherwise.
#pragma once

#include <string>

#include "core/hash128.h"

namespace quire::commands {

// sidecars/<model id>.sidecar in the user's cache folder, beside the models; the folder may not be
// there yet. The same weights under another name have the same one.
std::string sidecar_place(const ModelId& model);

}  // namespace quire::commands
