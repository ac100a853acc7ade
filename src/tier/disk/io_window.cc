#include "tier/disk/io_window.h"

#include <algorithm>

namespace quire {
namespace {

constexpr size_t kAhead = 4;  // times the depth may be in line

}  // namespace

void IoWindow::push(const IoRequest& request) {
    std::lock_guard lock(state_->mutex);
    state_->waiting.push_back(request);
}

bool IoWindow::has_room() const {
    std::lock_guard lock(state_->mutex);
    return state_->in_flight + state_->waiting.size() < kAhead * state_->depth;
}

bool IoWindow::stalled() const {
    std::lock_guard lock(state_->mutex);
    return state_->in_flight == 0 && !state_->waiting.empty();
}

// False when the engine is full now. With the mutex held: the engine never calls back inside
// submit.
bool IoWindow::State::submit(const std::shared_ptr<State>& self,
                             std::span<const IoRequest> requests) {
    Status status = io.submit(requests, [self](uint64_t tag, const Result<size_t>& result) {
        self->finish(self, tag, result);
    });
    if (status.code() == Code::busy) return false;
    if (status.ok()) {
        in_flight += requests.size();
    } else {
        for (const IoRequest& request : requests) posted(request.tag, status.error());
    }
    return true;
}

void IoWindow::State::pump(const std::shared_ptr<State>& self) {
    std::lock_guard lock(mutex);
    while (in_flight < depth && !waiting.empty()) {
        size_t count = std::min(depth - in_flight, waiting.size());
        batch.assign(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(count));
        if (!submit(self, batch)) {
            // Perhaps one still fits.
            count = 1;
            if (!submit(self, std::span(batch).first(1))) return;
        }
        waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(count));
    }
}

void IoWindow::State::finish(const std::shared_ptr<State>& self, uint64_t tag,
                             const Result<size_t>& result) {
    {
        std::lock_guard lock(mutex);
        in_flight--;
    }
    pump(self);
    posted(tag, result);
}

}  // namespace quire
