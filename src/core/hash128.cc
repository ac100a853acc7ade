#include "core/hash128.h"

namespace quire {

std::string Hash128::to_hex() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text(32, '0');
    for (int i = 0; i < 16; ++i) {
        text[15 - i] = kDigits[(hi >> (4 * i)) & 15];
        text[31 - i] = kDigits[(lo >> (4 * i)) & 15];
    }
    return text;
}

}  // namespace quire
