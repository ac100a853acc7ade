#include "tier/disk/io_window.h"

namespace quire {

// False when the engine is full now.
bool IoWindow::submit(std::span<const IoRequest> batch) {
    Status status = io_.submit(
        batch, [posted = posted_](uint64_t tag, const Result<size_t>& r) { posted(tag, r); });
    if (status.code() == Code::busy) return false;
    in_flight_ += batch.size();
    if (!status.ok()) {
        for (const IoRequest& request : batch) posted_(request.tag, status.error());
    }
    return true;
}

void IoWindow::pump() {
    while (in_flight_ < depth_ && !waiting_.empty()) {
        size_t count = std::min(depth_ - in_flight_, waiting_.size());
        batch_.assign(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
        if (!submit(batch_)) {
            // Perhaps one still fits.
            count = 1;
            if (!submit(std::span(batch_).first(1))) return;
        }
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
    }
}

}  // namespace quire
