// What can be found wrong with an engine's options before its model is opened, which takes long.
#pragma once

#include "base/result.h"
#include "engine/engine_options.h"

namespace quire {

// Names of codecs and packings; the sidecar and the schedule, which must be there and sound; the
// place of a sidecar that is to be learned, which must be one for writing. Whether they are this
// model's is seen when it is open. Errors name the option and the file.
Status check_options(const EngineOptions& options);

}  // namespace quire
