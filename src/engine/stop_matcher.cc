#include "engine/stop_matcher.h"

#include <algorithm>

namespace quire {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

// Length of the longest tail of pending_ that begins some stop string.
size_t StopMatcher::held_back() const {
    size_t longest = 0;
    for (const std::string& stop : stops_) {
        for (size_t n = std::min(stop.size() - 1, pending_.size()); n > longest; --n)
            if (std::string_view(pending_).substr(pending_.size() - n) ==
                std::string_view(stop).substr(0, n))
                longest = n;
    }
    return longest;
}

std::string StopMatcher::feed(std::string_view text) {
    if (stopped_) return {};
    pending_ += text;
    size_t first = std::string::npos;
    for (const std::string& stop : stops_) first = std::min(first, pending_.find(stop));
    size_t keep = held_back();
    if (first != std::string::npos) {
        stopped_ = true;
        pending_.resize(first);
        keep = 0;
    }
    std::string safe = pending_.substr(0, pending_.size() - keep);
    pending_.erase(0, safe.size());
    return safe;
}

std::string StopMatcher::flush() {
    std::string rest;
    rest.swap(pending_);
    return rest;
}

}  // namespace quire
