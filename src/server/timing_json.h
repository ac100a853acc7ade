// The `quire` object of an answer: where its time went and where its prompt came from.
#pragma once

#include <string>
#include <vector>

#include "engine/api.h"
#include "server/json_text.h"

namespace quire::server {

// One request's timing in milliseconds, loads by tier, and why the cached prefix ended.
OrderedJson timing_json(const RequestTiming& timing);

// Prompt tokens that came from any tier.
uint32_t cached_tokens(const RequestTiming& timing);

// With one choice its timing; with several the slowest figures and each choice's own under
// "choices".
OrderedJson quire_json(const std::vector<RequestTiming>& choices,
                       const std::vector<std::string>& ignored_fields);

// What a tenant may not learn about others: that somebody else has this prompt cached.
std::string visible_reason(const std::string& reason);

}  // namespace quire::server
