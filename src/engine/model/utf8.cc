#include "engine/model/utf8.h"

#include <cstddef>
#include <cstdint>

namespace quire {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Utf8State : uint8_t { valid, invalid, unfinished };

struct Scan {
    Utf8State status;
    size_t bytes;  // of the character, or of the maximal prefix to replace
};

// Length and the range of the second byte, which rules out over-long forms and surrogates.
struct Lead {
    size_t bytes;
    uint8_t low, high;
};

Lead classify(uint8_t b) {
    if (b >= 0xC2 && b <= 0xDF) return {2, 0x80, 0xBF};
    if (b == 0xE0) return {3, 0xA0, 0xBF};
    if (b == 0xED) return {3, 0x80, 0x9F};
    if (b >= 0xE1 && b <= 0xEF) return {3, 0x80, 0xBF};
    if (b == 0xF0) return {4, 0x90, 0xBF};
    if (b >= 0xF1 && b <= 0xF3) return {4, 0x80, 0xBF};
    if (b == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

Scan scan(std::string_view text) {
    const auto first = static_cast<uint8_t>(text[0]);
    if (first < 0x80) return {Utf8State::valid, 1};
    const Lead lead = classify(first);
    if (lead.bytes == 0) return {Utf8State::invalid, 1};
    for (size_t i = 1; i < lead.bytes; ++i) {
        if (i == text.size()) return {Utf8State::unfinished, i};
        const auto b = static_cast<uint8_t>(text[i]);
        const uint8_t low = i == 1 ? lead.low : 0x80;
        const uint8_t high = i == 1 ? lead.high : 0xBF;
        if (b < low || b > high) return {Utf8State::invalid, i};
    }
    return {Utf8State::valid, lead.bytes};
}

}  // namespace

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const Scan s = scan(text);
        if (s.status != Utf8State::valid) return false;
        text.remove_prefix(s.bytes);
    }
    return true;
}

std::string repair_utf8(std::string_view text) {
    Utf8Assembler assembler;
    std::string out = assembler.push(text);
    return out += assembler.finish();
}

std::string Utf8Assembler::push(std::string_view bytes) {
    pending_ += bytes;
    std::string out;
    std::string_view rest = pending_;
    while (!rest.empty()) {
        const Scan s = scan(rest);
        if (s.status == Utf8State::unfinished) break;
        out += s.status == Utf8State::valid ? rest.substr(0, s.bytes) : kReplacement;
        rest.remove_prefix(s.bytes);
    }
    pending_.erase(0, pending_.size() - rest.size());
    return out;
}

std::string Utf8Assembler::finish() {
    std::string out(pending_.empty() ? std::string_view() : kReplacement);
    pending_.clear();
    return out;
}

}  // namespace quire
