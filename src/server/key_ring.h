// Which tenant a request speaks for: API keys compared in constant time.
//
// Immutable after construction; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/server_options.h"

namespace quire::server {

// The tenant whose keys may do what touches everybody's blocks, when there are several tenants.
inline constexpr std::string_view kAdminTenant = "admin";

class KeyRing {
 public:
    explicit KeyRing(std::vector<ApiKey> keys);

    // The tenant of an Authorization header; nullopt: no valid key. Without keys everybody is "".
    std::optional<std::string> tenant_of(std::string_view authorization) const;
    // May this tenant flush the cache, and learn why others' prompts are cached?
    bool is_admin(std::string_view tenant) const;
    bool empty() const { return keys_.empty(); }

 private:
    std::vector<ApiKey> keys_;
    bool single_tenant_ = true;
};

}  // namespace quire::server
