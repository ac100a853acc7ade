#include "server/key_ring.h"

#include <algorithm>

#include <boost/beast/core/string.hpp>
#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace quire::server {
namespace {

// Equal without telling by time how much was right: digests have one length, whatever the keys'.
bool same_key(std::string_view a, std::string_view b) {
    unsigned char digest_a[SHA256_DIGEST_LENGTH];
    unsigned char digest_b[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), digest_a);
    SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), digest_b);
    return CRYPTO_memcmp(digest_a, digest_b, sizeof digest_a) == 0;
}

constexpr std::string_view kScheme = "bearer ";

std::string_view bearer_token(std::string_view authorization) {
    if (authorization.size() < kScheme.size()) return {};
    if (!boost::beast::iequals(authorization.substr(0, kScheme.size()), kScheme)) return {};
    authorization.remove_prefix(kScheme.size());
    const size_t start = authorization.find_first_not_of(' ');
    return start == std::string_view::npos ? std::string_view() : authorization.substr(start);
}

}  // namespace

KeyRing::KeyRing(std::vector<ApiKey> keys) : keys_(std::move(keys)) {
    single_tenant_ = std::all_of(keys_.begin(), keys_.end(), [&](const ApiKey& key) {
        return key.tenant == keys_.front().tenant;
    });
}

std::optional<std::string> KeyRing::tenant_of(std::string_view authorization) const {
    if (keys_.empty()) return std::string();
    const std::string_view given = bearer_token(authorization);
    const ApiKey* match = nullptr;
    for (const ApiKey& key : keys_) {  // no early end: time must not tell which key came close
        if (same_key(key.key, given)) match = &key;
    }
    if (match == nullptr || given.empty()) return std::nullopt;
    return match->tenant;
}

bool KeyRing::is_admin(std::string_view tenant) const {
    return single_tenant_ || tenant == kAdminTenant;
}

}  // namespace quire::server
