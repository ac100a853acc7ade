#include "base/result.h"

namespace quire {

std::string_view code_name(Code code) {
    switch (code) {
        case Code::ok:
            return "ok";
        case Code::miss:
            return "miss";
        case Code::rejected:
            return "rejected";
        case Code::busy:
            return "busy";
        case Code::timeout:
            return "timeout";
        case Code::cancelled:
            return "cancelled";
        case Code::invalid:
            return "invalid";
        case Code::unsupported:
            return "unsupported";
        case Code::corrupt:
            return "corrupt";
        case Code::io:
            return "io";
        case Code::full:
            return "full";
        case Code::bug:
            return "bug";
    }
    return "unknown";
}

}  // namespace quire
