#include "bench/text.h"

#include <random>
#include <vector>

#include "bench/embedded_text.h"

namespace quire::bench {
namespace {

constexpr size_t kSentenceBytesMin = 20;

std::vector<std::string_view> sentences_of(std::string_view text) {
    std::vector<std::string_view> sentences;
    size_t from = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool ends = text[i] == '\n' || (text[i] == '.' && i + 1 < text.size() &&
                                              (text[i + 1] == ' ' || text[i + 1] == '\n'));
        if (!ends) continue;
        std::string_view sentence = text.substr(from, i + 1 - from);
        from = i + 1;
        while (!sentence.empty() && (sentence.front() == ' ' || sentence.front() == '\n'))
            sentence.remove_prefix(1);
        while (!sentence.empty() && sentence.back() == '\n') sentence.remove_suffix(1);
        if (sentence.size() >= kSentenceBytesMin) sentences.push_back(sentence);
    }
    return sentences;
}

}  // namespace

std::string_view whole_text() {
    // Joined once: the literal comes in pieces that compilers accept.
    static const std::string text = [] {
        std::string all;
        for (std::string_view piece : kEmbeddedText) all += piece;
        return all;
    }();
    return text;
}

std::string passage(uint64_t seed, size_t min_bytes) {
    static const std::vector<std::string_view> sentences = sentences_of(whole_text());
    std::mt19937_64 draw(seed);
    std::string text = std::to_string(seed) + " is the number of this text.\n";
    while (text.size() < min_bytes) {
        text += sentences[draw() % sentences.size()];
        text += draw() % 6 == 0 ? "\n\n" : " ";
    }
    return text;
}

}  // namespace quire::bench
