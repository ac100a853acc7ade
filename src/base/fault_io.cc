#include "base/fault_io.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

namespace quire {
namespace {

constexpr size_t kAlign = 4096;

// An aligned copy of what a request writes, so that O_DIRECT takes it.
class WriteCopy {
 public:
    explicit WriteCopy(const IoRequest& request)
        : storage_(io_bytes(request) + kAlign),
          start_((kAlign - reinterpret_cast<uintptr_t>(storage_.data()) % kAlign) % kAlign) {
        std::byte* to = storage_.data() + start_;
        for (const iovec& part : io_parts(request)) {
            if (part.iov_len > 0) std::memcpy(to, part.iov_base, part.iov_len);
            to += part.iov_len;
        }
        size_ = static_cast<size_t>(to - storage_.data()) - start_;
    }
    std::span<std::byte> bytes() { return {storage_.data() + start_, size_}; }

 private:
    std::vector<std::byte> storage_;
    size_t start_;
    size_t size_ = 0;
};

bool on_path(int fd, const std::string& part) {
    std::array<char, 4096> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    return length > 0 && std::string_view(target.data(), static_cast<size_t>(length)).find(part) !=
                             std::string_view::npos;
}

bool fits(const Fault& fault, const IoRequest& request) {
    return (!fault.op || *fault.op == request.op) && (fault.fd < 0 || fault.fd == request.fd) &&
           (fault.path_part.empty() || on_path(request.fd, fault.path_part)) &&
           (!fault.matches || fault.matches(request));
}

void flip_bit(std::span<const iovec> parts, uint64_t bit) {
    uint64_t byte = bit / 8;
    for (const iovec& part : parts) {
        if (byte < part.iov_len) {
            static_cast<std::byte*>(part.iov_base)[byte] ^= std::byte{1} << (bit % 8);
            return;
        }
        byte -= part.iov_len;
    }
}

Error injected(const Fault& fault, const IoRequest& request) {
    const int number = fault.error_number;
    const bool full = number == ENOSPC || number == EDQUOT;
    return make_error(full ? Code::full : Code::io,
                      "injected fault: " + std::string(io_op_name(request.op)) + " at offset " +
                          std::to_string(request.offset) + ": " +
                          std::generic_category().message(number),
                      number);
}

// What goes to the inner engine in the place of a request, and how its completion is changed.
struct Altered {
    IoRequest request;
    IoDone done;
};

Altered fail(const Fault& fault, const IoRequest& request, IoDone done) {
    return {{.op = IoOp::nop, .tag = request.tag},
            [done = std::move(done), error = injected(fault, request)](
                uint64_t tag, const Result<size_t>&) { done(tag, error); }};
}

// Stores the first fault.bytes of a write; reports success (torn) or the fault's error (cut).
Altered shorten_write(const Fault& fault, const IoRequest& request, IoDone done) {
    const auto copy = std::make_shared<WriteCopy>(request);
    const size_t stored = std::min<uint64_t>(fault.bytes, copy->bytes().size());
    Result<size_t> outcome = copy->bytes().size();
    if (fault.kind == FaultKind::cut) outcome = injected(fault, request);
    IoRequest part = io_write(request.fd, request.offset, copy->bytes().first(stored), request.tag);
    if (stored == 0) part.op = IoOp::nop;
    return {part,
            [copy, outcome, done = std::move(done)](uint64_t tag, const Result<size_t>& result) {
                done(tag, result.ok() ? outcome : result);
            }};
}

Altered shorten_read(const Fault& fault, const IoRequest& request, IoDone done) {
    return {request, [bytes = fault.bytes, done = std::move(done)](uint64_t tag,
                                                                   const Result<size_t>& result) {
                done(tag, result.ok() ? Result<size_t>(std::min<size_t>(*result, bytes)) : result);
            }};
}

Altered flip(const Fault& fault, const IoRequest& request, IoDone done) {
    const uint64_t bits = 8 * uint64_t{io_bytes(request)};
    if (bits == 0) return {request, std::move(done)};
    const uint64_t bit = fault.bit % bits;
    if (request.op == IoOp::read) {
        std::vector<iovec> parts(io_parts(request).begin(), io_parts(request).end());
        return {request,
                [parts, bit, done = std::move(done)](uint64_t tag, const Result<size_t>& result) {
                    if (result.ok()) flip_bit(parts, bit);
                    done(tag, result);
                }};
    }
    const auto copy = std::make_shared<WriteCopy>(request);
    copy->bytes()[bit / 8] ^= std::byte{1} << (bit % 8);
    return {io_write(request.fd, request.offset, copy->bytes(), request.tag),
            [copy, done = std::move(done)](uint64_t tag, const Result<size_t>& result) {
                done(tag, result);
            }};
}

Altered alter(const Fault& fault, const IoRequest& request, IoDone done) {
    const bool moves_bytes = request.op == IoOp::read || request.op == IoOp::write;
    if (fault.kind == FaultKind::error || !moves_bytes)
        return fail(fault, request, std::move(done));
    if (fault.kind == FaultKind::bit_flip) return flip(fault, request, std::move(done));
    return request.op == IoOp::read ? shorten_read(fault, request, std::move(done))
                                    : shorten_write(fault, request, std::move(done));
}

}  // namespace

FaultIo::FaultIo(std::unique_ptr<IoEngine> inner) : inner_(std::move(inner)) {}

FaultIo::~FaultIo() {
    while (held() > 0)
        if (release_held() == 0) std::this_thread::yield();
}

void FaultIo::add(Fault fault) {
    std::lock_guard lock(mutex_);
    faults_.push_back({std::move(fault), 0});
}

void FaultIo::clear() {
    std::lock_guard lock(mutex_);
    faults_.clear();
}

uint64_t FaultIo::hits() const {
    std::lock_guard lock(mutex_);
    return hits_;
}

size_t FaultIo::held() const {
    std::lock_guard lock(mutex_);
    return held_.size();
}

size_t FaultIo::release_held(size_t count) {
    size_t released = 0;
    for (; released < count; ++released) {
        std::lock_guard lock(mutex_);
        if (held_.empty()) break;
        Held& oldest = held_.front();
        if (!inner_->submit(std::span(&oldest.request, 1), oldest.done).ok()) break;
        held_.pop_front();
    }
    return released;
}

std::optional<Fault> FaultIo::fault_for(const IoRequest& request) {
    std::lock_guard lock(mutex_);
    for (Active& active : faults_) {
        if (!fits(active.fault, request)) continue;
        const uint64_t nth = active.seen++;
        if (nth < active.fault.skip || nth - active.fault.skip >= active.fault.times) continue;
        ++hits_;
        return active.fault;
    }
    return std::nullopt;
}

Status FaultIo::submit(std::span<const IoRequest> batch, IoDone done) {
    std::lock_guard submitting(submitting_);  // so that the room seen below stays
    const uint64_t pending = stats().pending;
    if (batch.size() > queue_depth())
        return make_error(Code::invalid, "I/O batch exceeds the queue depth");
    if (pending + batch.size() > queue_depth()) return make_error(Code::busy, "I/O queue is full");
    for (const IoRequest& request : batch) {
        const std::optional<Fault> fault = fault_for(request);
        if (fault && fault->kind == FaultKind::hold) {
            std::lock_guard lock(mutex_);
            held_.push_back({request, done});
            continue;
        }
        const Altered altered = fault ? alter(*fault, request, done) : Altered{request, done};
        QUIRE_TRY(inner_->submit(std::span(&altered.request, 1), altered.done));
    }
    return {};
}

IoStats FaultIo::stats() const {
    IoStats stats = inner_->stats();
    stats.pending += held();
    return stats;
}

}  // namespace quire
