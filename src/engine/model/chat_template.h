// A conversation as the prompt text its model was trained on: the GGUF's Jinja template, run by
// llama.cpp's engine. Immutable after create(); any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/api.h"

namespace quire {

class ChatTemplate {
 public:
    // `source` is the template's text; bos and eos are the tokens' names that it may use. Without a
    // source every render() is refused. invalid: the template cannot be parsed.
    static Result<std::unique_ptr<ChatTemplate>> create(const std::string& source, std::string bos,
                                                        std::string eos);
    virtual ~ChatTemplate() = default;

    // invalid: the template refuses the conversation (its own message is in the error), or there is
    // no template. The text may begin with the BOS token's name.
    virtual Result<std::string> render(const std::vector<ChatMessage>& messages,
                                       bool add_generation_prompt) const = 0;
};

}  // namespace quire
