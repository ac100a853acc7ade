// The parts of a body that say what to continue: `prompt` and `messages`.
#pragma once

#include <vector>

#include "server/json_fields.h"
#include "server/openai_request.h"

namespace quire::server {

// `prompt`: a string, a list of strings, a list of token ids or a list of such lists.
std::vector<Prompt> read_prompts(Fields& fields);

// `messages`: roles and text; content may be a list of {"type":"text"} parts. Reports into
// `fields`.
std::vector<ChatMessage> read_messages(Fields& fields);

}  // namespace quire::server
