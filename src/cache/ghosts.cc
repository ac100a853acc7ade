#include "cache/ghosts.h"

namespace quire {

std::string_view miss_reason_name(MissReason reason) {
    switch (reason) {
        case MissReason::none:
            return "whole_prompt";
        case MissReason::never_seen:
            return "never_seen";
        case MissReason::evicted:
            return "evicted";
        case MissReason::corrupt:
            return "corrupt";
        case MissReason::io_error:
            return "io_error";
        case MissReason::not_admitted:
            return "not_admitted";
        case MissReason::flushed:
            return "flushed";
        case MissReason::other_salt:
            return "other_salt";
        case MissReason::other_tenant:
            return "other_tenant";
        case MissReason::other_model:
            return "other_model";
        case MissReason::other_packing:
            return "other_packing";
        case MissReason::cheaper_to_recompute:
            return "cheaper_to_recompute";
        case MissReason::no_space:
            return "no_space";
        case MissReason::cache_off:
            return "cache_off";
    }
    return "unknown";
}

}  // namespace quire
