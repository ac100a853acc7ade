// A conversation as tokens: the template's own text may become control tokens, the messages' may
// not.
//
// Templates are programs and may cut, trim and join what they are given. So the messages go in with
// a mark inside whatever reads like a control token, wherever the template puts it, and the mark is
// taken out after control tokens were looked for. The text between two control tokens is tokenized
// in one piece, as if nothing had been marked.
#pragma once

#include <vector>

#include "base/result.h"
#include "engine/api.h"
#include "engine/model/chat_template.h"
#include "engine/model/vocab.h"

namespace quire {

// Errors as ChatTemplate::render and Vocab::tokenize.
Result<std::vector<TokenId>> chat_tokens(const Vocab& vocab, const ChatTemplate& chat,
                                         const std::vector<ChatMessage>& messages,
                                         bool add_generation_prompt,
                                         const TokenizeLimits& limits = {});

}  // namespace quire
