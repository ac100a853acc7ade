// quire chat MODEL.gguf | --url URL: an interactive, streaming conversation.
#pragma once

namespace quire {

// Exit codes: 0 the person left, 1 the server or model could not be reached, 2 bad options.
int run_chat(int argc, const char* const* argv);

}  // namespace quire
