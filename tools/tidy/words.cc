#include <cctype>

#include "rules.h"

namespace quire::tidy {
namespace {

struct Word {
    std::string text;
    bool whole;  // not part of a longer word
    std::string_view rule;
    std::string_view why;
};

// Spelled in pieces, so that this file passes its own rule.
const std::vector<Word>& words() {
    static const std::vector<Word> list = {
        {std::string("TO") + "DO", true, "review-mark", "finish it, or put it in CHANGELOG.md"},
        {std::string("FIX") + "ME", true, "review-mark", "fix it"},
        {std::string("X") + "XX", true, "review-mark", "say what is meant"},
        {std::string("HA") + "CK", true, "review-mark", "say why it must be so, or do it properly"},
        {std::string("/ro") + "ot/", false, "machine-path", "a path of one machine"},
        {std::string("/wo") + "rk/", false, "machine-path", "a path of one machine"},
        {std::string("/ho") + "me/", false, "machine-path", "a path of one machine"},
        {std::string("pypi") + ".org", false, "registry", "leave the index to pip's configuration"},
        {std::string("python") + "hosted", false, "registry",
         "leave the index to pip's configuration"},
        {std::string("hugging") + "face.co/", false, "registry", "models come from tools/models"},
    };
    return list;
}

bool is_word(char c) {
    return isalnum(static_cast<unsigned char>(c)) || c == '_';
}

bool found(const std::string& line, const Word& word) {
    for (size_t at = line.find(word.text); at != line.npos; at = line.find(word.text, at + 1)) {
        const size_t end = at + word.text.size();
        const bool left = at == 0 || !is_word(line[at - 1]);
        const bool right = end >= line.size() || !is_word(line[end]);
        // A path of one machine starts there: build/work/ is somebody's relative path.
        if (!word.whole ? (word.text[0] != '/' || left) : (left && right)) return true;
    }
    return false;
}

}  // namespace

std::vector<Finding> check_words(const Source& source) {
    std::vector<Finding> findings;
    for (size_t i = 0; i < source.lines.size(); ++i) {
        for (const Word& word : words()) {
            const int number = static_cast<int>(i) + 1;
            if (!found(source.lines[i], word) || waived(source, number, word.rule)) continue;
            findings.push_back({source.path, number, std::string(word.rule),
                                "`" + word.text + "`: " + std::string(word.why)});
        }
    }
    return findings;
}

}  // namespace quire::tidy
