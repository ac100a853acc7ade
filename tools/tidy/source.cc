#include "source.h"

namespace quire::tidy {
namespace {

std::vector<std::string> split_lines(std::string_view content) {
    std::vector<std::string> lines;
    while (!content.empty()) {
        size_t end = content.find('\n');
        lines.emplace_back(content.substr(0, end));
        if (end == std::string_view::npos) break;
        content.remove_prefix(end + 1);
    }
    return lines;
}

// Blanks one C++ line after another; remembers what reaches over a line end.
class Blanker {
 public:
    std::string blank(const std::string& line) {
        out_ = line;
        bool continued = !line.empty() && line.back() == '\\';
        size_t i = 0;
        if (state_ == State::code && starts_directive(line)) state_ = State::directive;
        while (i < line.size()) i = step(line, i);
        if (state_ == State::line_comment) state_ = State::code;
        if (state_ == State::directive && !continued) state_ = State::code;
        return out_;
    }

 private:
    enum class State { code, directive, line_comment, block_comment, raw };

    static bool starts_directive(const std::string& line) {
        size_t first = line.find_first_not_of(" \t");
        return first != std::string::npos && line[first] == '#';
    }

    size_t step(const std::string& line, size_t i) {
        switch (state_) {
            case State::block_comment:
                return until(line, i, "*/", State::code);
            case State::raw:
                return until(line, i, raw_end_, State::code);
            case State::directive:
            case State::line_comment:
                out_[i] = ' ';
                return i + 1;
            case State::code:
                return in_code(line, i);
        }
        return i + 1;
    }

    size_t in_code(const std::string& line, size_t i) {
        if (line.compare(i, 2, "//") == 0) {
            state_ = State::line_comment;
            return i;
        }
        if (line.compare(i, 2, "/*") == 0) {
            state_ = State::block_comment;
            out_[i] = out_[i + 1] = ' ';
            return i + 2;
        }
        bool raw = line.compare(i, 2, "R\"") == 0 && (i == 0 || !is_word(line[i - 1]));
        if (raw) {
            size_t open = line.find('(', i);
            if (open == std::string::npos) return i + 2;
            raw_end_ = ")" + line.substr(i + 2, open - i - 2) + "\"";
            state_ = State::raw;
            for (size_t j = i; j <= open; ++j) out_[j] = ' ';
            return open + 1;
        }
        bool digit_separator = line[i] == '\'' && i > 0 && is_word(line[i - 1]);
        if (line[i] == '"' || (line[i] == '\'' && !digit_separator)) return literal(line, i);
        return i + 1;
    }

    size_t literal(const std::string& line, size_t i) {
        const char quote = line[i];
        for (++i; i < line.size() && line[i] != quote; ++i) {
            if (line[i] == '\\' && i + 1 < line.size()) out_[i++] = ' ';
            out_[i] = ' ';
        }
        return i + 1;
    }

    size_t until(const std::string& line, size_t i, const std::string& end, State next) {
        size_t at = line.find(end, i);
        size_t stop = at == std::string::npos ? line.size() : at + end.size();
        for (size_t j = i; j < stop; ++j) out_[j] = ' ';
        if (at != std::string::npos) state_ = next;
        return stop;
    }

    static bool is_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

    State state_ = State::code;
    std::string raw_end_;
    std::string out_;
};

bool has_waiver(const std::string& line, std::string_view rule) {
    const std::string mark = "tidy: allow(" + std::string(rule) + "): ";
    size_t at = line.find(mark);
    return at != std::string::npos && at + mark.size() < line.size();
}

}  // namespace

Language language_of(std::string_view path, std::string_view first_line) {
    for (std::string_view end : {".h", ".cc", ".cu", ".cuh", ".c"}) {
        if (path.ends_with(end)) return Language::cpp;
    }
    if (path.ends_with(".cmake") || path.ends_with("CMakeLists.txt")) return Language::cmake;
    if (path.ends_with(".py") || first_line.find("python3") != first_line.npos) {
        return Language::python;
    }
    if (path.ends_with(".sh") || first_line.starts_with("#!/")) return Language::shell;
    if (path.ends_with("Makefile")) return Language::make;
    return Language::text;
}

Source make_source(std::string path, std::string_view content) {
    Source source;
    source.lines = split_lines(content);
    source.language = language_of(path, source.lines.empty() ? "" : source.lines[0]);
    source.path = std::move(path);
    source.code = source.lines;
    if (source.language == Language::cpp) {
        Blanker blanker;
        for (std::string& line : source.code) line = blanker.blank(line);
    }
    return source;
}

bool waived(const Source& source, int line, std::string_view rule) {
    if (line < 1) return false;
    if (has_waiver(source.lines[line - 1], rule)) return true;
    return line >= 2 && has_waiver(source.lines[line - 2], rule);
}

bool is_test(std::string_view path) {
    for (std::string_view part : {"_test.cc", "_fuzz.cc", "_fixture.", "_bench", "/bench/",
                                  "/testing/", "/fake_", "/tiny_model."}) {
        if (path.find(part) != path.npos) return true;
    }
    return path.starts_with("tests/") || path.starts_with("fuzz/");
}

}  // namespace quire::tidy
