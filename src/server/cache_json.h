// The cache's status and explanations as JSON.
#pragma once

#include "engine/api.h"
#include "server/json_text.h"

namespace quire::server {

OrderedJson cache_status_json(const CacheStatus& status, const EngineLoad& load);

// With hide_others, nothing shows that another tenant or salt has the prompt cached.
OrderedJson explanation_json(const Explanation& explanation, bool hide_others);

}  // namespace quire::server
