// StopMatcher: ends a text at the first stop string, never emitting a part of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopMatcher {
 public:
    explicit StopMatcher(std::vector<std::string> stops);

    // Adds text; returns what is safe to emit now. After stopped(), always empty.
    std::string feed(std::string_view text);
    // What was held back, at the end of a text that no stop string ended.
    std::string flush();
    bool stopped() const { return stopped_; }

 private:
    size_t held_back() const;

    std::vector<std::string> stops_;
    std::string pending_;
    bool stopped_ = false;
};

}  // namespace quire
