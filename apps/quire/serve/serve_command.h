// quire serve MODEL.gguf: the engine behind an OpenAI server, until SIGTERM.
#pragma once

namespace quire {

// Exit codes: 0 drained, 1 it could not start or go on, 2 bad options. A second signal exits at
// once with 128 + its number.
int run_serve(int argc, const char* const* argv);

}  // namespace quire
