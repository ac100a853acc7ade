#include "codec/ec/rate.h"

#include <charconv>
#include <system_error>

namespace quire::codec::ec {

std::optional<EcRate> ec_rate(std::string_view name) {
    if (!name.starts_with(kEcPrefix)) return std::nullopt;
    name.remove_prefix(kEcPrefix.size());
    EcRate rate{.alone = name.ends_with(kEcAlone)};
    if (rate.alone) name.remove_suffix(kEcAlone.size());
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data(), end, rate.bits);
    if (error != std::errc() || at != end || !(rate.bits >= kEcBitsMin && rate.bits <= kEcBitsMax))
        return std::nullopt;
    return rate;
}

}  // namespace quire::codec::ec
