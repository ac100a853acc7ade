// What `quire serve` prints when it is up.
#pragma once

#include <string>

#include "base/options.h"
#include "engine/api.h"

namespace quire {

struct Banner {
    const ServeOptions& options;
    const ModelInfo& model;
    CacheStatus cache;
    std::string isa;
    std::string url;
    int64_t open_ns = 0;  // how long opening took
};

std::string banner_text(const Banner& banner);

}  // namespace quire
