// The texts of `quire eval`: what is judged, and what is learned from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/eval/evaluate.h"
#include "engine/model/gguf_model.h"
#include "engine/model/vocab.h"

namespace CLI {
class App;
}

namespace quire::commands {

struct TextFlags {
    std::string text;  // a file; empty: Quire's own documents, or what the model writes
    std::string calibration;
    std::optional<uint32_t> generate;  // tokens that the model writes
    std::string save_text;
    std::optional<uint32_t> tokens;  // of the text
};

// `flags` must outlive the parsing.
void add_text_flags(CLI::App* app, TextFlags* flags);

// How many tokens of the text are asked for.
uint32_t wanted_tokens(const TextFlags& flags);
// Where it comes from, for people.
std::string text_source(const TextFlags& flags, uint64_t seed);

Result<std::string> read_text(const std::string& path);

// The judged text, and the calibration's tokens into `options`. Without files: Quire's own
// documents, their beginning for calibration and their end for judging. A text that the model
// writes takes long: a bar shows how far it is.
Result<std::vector<TokenId>> find_tokens(const TextFlags& flags, const Vocab& vocab,
                                         const GgufModel& model, uint64_t seed,
                                         bench::EvalOptions* options);

}  // namespace quire::commands
