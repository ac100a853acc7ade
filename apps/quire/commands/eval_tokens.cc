#include "apps/quire/commands/eval_tokens.h"

#include <fstream>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/progress.h"
#include "base/regular_file.h"
#include "bench/eval/own_text.h"
#include "bench/text.h"

namespace quire::commands {
namespace {

constexpr uint32_t kDefaultTokens = 2048;
constexpr uint32_t kCalibrationTokens = 2048;
constexpr uint64_t kFileBytesMax = uint64_t{1} << 30;
// What the model's own text begins with, and goes on with where it ends.
constexpr const char* kOpenings[] = {
    "The history of the town begins",
    "Here is how to build a small wooden boat, step by step.",
    "Dear Anna,",
    "# A short introduction to databases\n",
    "\"I did not expect to see you here,\" she said.",
    "import sys\n\ndef main():",
};

Result<std::vector<TokenId>> own_text(const TextFlags& flags, const Vocab& vocab,
                                      const GgufModel& model, uint64_t seed, uint32_t threads) {
    bench::OwnTextOptions options{.threads = threads,
                                  .tokens = *flags.generate,
                                  .seed = seed,
                                  .prompts = {},
                                  .ends = [&vocab](TokenId token) { return vocab.is_end(token); },
                                  .computed = {}};
    for (const char* opening : kOpenings) {
        const bool first = options.prompts.empty();
        auto prompt = vocab.tokenize(first ? opening : std::string("\n\n") + opening, first);
        if (!prompt.ok()) return prompt.error();
        options.prompts.push_back(std::move(prompt).value());
    }
    Progress progress("tokens written by the model", options.tokens);
    uint64_t done = 0;
    options.computed = [&](uint64_t tokens) { progress.update(done += tokens); };
    auto text = bench::write_own_text(model, options);
    if (!text.ok()) return make_error(text.code(), "--generate: " + text.error().message);
    progress.finish();
    if (flags.save_text.empty()) return text;
    std::ofstream out(flags.save_text, std::ios::binary);
    out << vocab.detokenize(*text);
    if (!out.flush()) return make_error(Code::io, "cannot write the text " + flags.save_text);
    return text;
}

Result<std::vector<TokenId>> read_tokens(const std::string& path, const Vocab& vocab) {
    std::string text(bench::whole_text());
    if (!path.empty()) {
        auto read = read_text(path);
        if (!read.ok()) return read.error();
        text = std::move(read).value();
    }
    return vocab.tokenize(text, true);
}

}  // namespace

void add_text_flags(CLI::App* app, TextFlags* flags) {
    auto* text =
        app->add_option("--text", flags->text, "a file to judge on; none: Quire's own documents");
    auto* generate =
        app->add_option("--generate", flags->generate,
                        "judge on so many tokens that the model writes itself, sampled at "
                        "temperature 1 from --seed with a 16-bit cache; all of them if --tokens "
                        "is not given")
            ->excludes(text)
            ->check(CLI::Range(128, 1 << 20));
    app->add_option("--save-text", flags->save_text,
                    "write what the model wrote; read again it may be cut into other tokens")
        ->needs(generate);
    app->add_option("--calibration", flags->calibration,
                    "a file to learn means from; not the judged one");
    app->add_option(
           "--tokens", flags->tokens,
           "of the text that go through the model, in spans of 64: once with the exact cache "
           "and once with each other one, so that time grows with tokens times caches. "
           "The answers after those of the second half are judged, behind at least half "
           "of them as context; how many that is in all, and about how long it takes, is "
           "said first. --greedy, --keys and learning come on top (2048)")
        ->check(CLI::Range(128, 1 << 20));
}

uint32_t wanted_tokens(const TextFlags& flags) {
    return flags.tokens.value_or(flags.generate.value_or(kDefaultTokens));
}

std::string text_source(const TextFlags& flags, uint64_t seed) {
    if (flags.generate) return fmt::format("the model's own text (seed {})", seed);
    return flags.text.empty() ? "Quire's documents" : flags.text;
}

Result<std::string> read_text(const std::string& path) {
    return read_regular_file(path, "the text", kFileBytesMax);
}

Result<std::vector<TokenId>> find_tokens(const TextFlags& flags, const Vocab& vocab,
                                         const GgufModel& model, uint64_t seed,
                                         bench::EvalOptions* options) {
    auto learned = read_tokens(flags.calibration, vocab);
    if (!learned.ok()) return learned;
    if (learned->size() > kCalibrationTokens) learned->resize(kCalibrationTokens);
    options->calibration = std::move(learned).value();
    if (flags.generate && options->tokens > *flags.generate)
        return make_error(Code::invalid, fmt::format("--tokens {}: more than the {} that "
                                                     "--generate lets the model write",
                                                     options->tokens, *flags.generate));
    if (flags.generate) return own_text(flags, vocab, model, seed, options->threads);
    auto text = read_tokens(flags.text, vocab);
    if (!text.ok()) return text;
    const size_t want = size_t{options->tokens} + 1;
    if (flags.text.empty() && text->size() > want) {
        const TokenId first = text->front();
        text->erase(text->begin(), text->end() - static_cast<std::ptrdiff_t>(want));
        text->front() = first;
    }
    return text;
}

}  // namespace quire::commands
