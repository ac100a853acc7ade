// Shapes that every codec of ours takes, unless it says otherwise.
#pragma once

#include "codec/codec.h"

namespace quire::codec {

// Why the shape is outside; nullptr: it is inside. Static storage.
const char* common_limits(const Geometry& geometry);

}  // namespace quire::codec
