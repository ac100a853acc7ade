// Finds function bodies by braces, without parsing C++: at namespace or class scope, a brace after
// a statement with a parameter list opens a function; after `=` or in a constructor's initialiser
// list it opens a value; after namespace, class, struct, union, enum or extern it opens a scope.
#include <cctype>

#include "rules.h"

namespace quire::tidy {
namespace {

bool is_word(char c) {
    return isalnum(static_cast<unsigned char>(c)) || c == '_';
}

bool has_word(std::string_view text, std::string_view word) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
        bool left = at == 0 || !is_word(text[at - 1]);
        bool right = at + word.size() >= text.size() || !is_word(text[at + word.size()]);
        if (left && right) return true;
    }
    return false;
}

enum class Opens { scope, function, value };

// `statement` is the text since the last ; { or } at this scope.
Opens classify(std::string_view statement) {
    while (!statement.empty() && statement.back() == ' ') statement.remove_suffix(1);
    std::string_view head = statement.substr(0, statement.find('('));
    if (head.find("template") != head.npos) {
        // Only what follows the template parameter list says what is declared.
        size_t end = statement.rfind('>', statement.find('('));
        if (end != statement.npos && end < head.size()) head = head.substr(end);
    }
    for (std::string_view word : {"namespace", "class", "struct", "union", "enum", "extern"}) {
        if (has_word(head, word)) return Opens::scope;
    }
    if (statement.empty()) return Opens::scope;
    if (statement.back() == '=' || statement.find('(') == statement.npos) return Opens::value;
    size_t close = statement.rfind(')');
    size_t colon = statement.find(" : ");
    bool in_initialisers = colon != statement.npos && is_word(statement.back()) &&
                           !has_word(statement.substr(close + 1), "noexcept") &&
                           !has_word(statement.substr(close + 1), "const") &&
                           !has_word(statement.substr(close + 1), "override");
    return in_initialisers ? Opens::value : Opens::function;
}

class Scanner {
 public:
    explicit Scanner(const Source& source) : source_(source) {}

    std::vector<Finding> run() {
        for (size_t i = 0; i < source_.code.size(); ++i) {
            for (char c : source_.code[i]) step(c, static_cast<int>(i) + 1);
            if (!statement_.empty()) statement_ += ' ';
        }
        return std::move(findings_);
    }

 private:
    void step(char c, int line) {
        if (inner_depth_ > 0) {
            inside(c, line);
        } else if (c == '{') {
            open(line);
        } else if (c == '}' || c == ';') {
            statement_.clear();
        } else if (c != ' ' || !statement_.empty()) {
            if (statement_.empty()) statement_line_ = line;
            statement_ += c;
        }
    }

    void open(int line) {
        Opens opens = classify(statement_);
        if (opens == Opens::scope) {
            statement_.clear();
            return;
        }
        in_function_ = opens == Opens::function;
        first_line_ = statement_.empty() ? line : statement_line_;
        inner_depth_ = 1;
    }

    // In a function or a value only the depth of braces matters.
    void inside(char c, int line) {
        if (c == '{') ++inner_depth_;
        if (c != '}' || --inner_depth_ > 0) return;
        if (!in_function_) {
            statement_ += "{}";  // the statement goes on: more initialisers, or the body
            return;
        }
        int lines = line - first_line_ + 1;
        if (lines > kMaxFunctionLines && !waived(source_, first_line_, "function-length")) {
            findings_.push_back({source_.path, first_line_, "function-length",
                                 "a function of " + std::to_string(lines) + " lines, at most " +
                                     std::to_string(kMaxFunctionLines) + ": split it by step"});
        }
        statement_.clear();
    }

    const Source& source_;
    std::vector<Finding> findings_;
    std::string statement_;
    int statement_line_ = 0;
    int inner_depth_ = 0;
    int first_line_ = 0;
    bool in_function_ = false;
};

}  // namespace

std::vector<Finding> check_functions(const Source& source) {
    if (source.language != Language::cpp) return {};
    return Scanner(source).run();
}

}  // namespace quire::tidy
