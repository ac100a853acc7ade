#include "base/hash.h"

#include <array>
#include <memory>

#include <openssl/evp.h>
#include <xxhash.h>

#include "base/check.h"

namespace quire {
namespace {

struct FreeContext {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeDigest {
    void operator()(EVP_MD* digest) const { EVP_MD_free(digest); }
};

uint64_t load_big_endian(const unsigned char* p) {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | p[i];
    return value;
}

// Looking the algorithm up by name costs more than hashing a block, so both are made once.
const EVP_MD* sha256_algorithm() {
    static const std::unique_ptr<EVP_MD, FreeDigest> digest(
        EVP_MD_fetch(nullptr, "SHA256", nullptr));
    return digest.get();
}

EVP_MD_CTX* sha256_context() {
    thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
    return context.get();
}

}  // namespace

Digest128 sha256_128(std::span<const std::byte> bytes) {
    EVP_MD_CTX* context = sha256_context();
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    const bool ok = context != nullptr &&
                    EVP_DigestInit_ex2(context, sha256_algorithm(), nullptr) == 1 &&
                    EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1 &&
                    EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1;
    QUIRE_CHECK(ok, "OpenSSL cannot compute SHA-256");
    return {load_big_endian(digest.data()), load_big_endian(digest.data() + 8)};
}

Digest128 xxh3_128(std::span<const std::byte> bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {hash.high64, hash.low64};
}

uint64_t xxh3_64(std::span<const std::byte> bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace quire
