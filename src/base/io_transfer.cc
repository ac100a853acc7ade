#include "base/io_transfer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include <unistd.h>

namespace quire {
namespace {

constexpr uint32_t kMaxContinued = 4096;
constexpr uint64_t kDirectAlign = 4096;

std::string path_of(int fd) {
    std::array<char, 512> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    return length > 0 ? std::string(target.data(), static_cast<size_t>(length))
                      : "descriptor " + std::to_string(fd);
}

std::vector<iovec> skip_bytes(std::span<const iovec> parts, size_t bytes) {
    std::vector<iovec> rest;
    for (const iovec& part : parts) {
        const size_t skipped = std::min(bytes, part.iov_len);
        bytes -= skipped;
        if (skipped < part.iov_len)
            rest.push_back(
                {static_cast<std::byte*>(part.iov_base) + skipped, part.iov_len - skipped});
    }
    return rest;
}

}  // namespace

std::span<const iovec> IoTransfer::parts() const {
    return start_ == 0 ? io_parts(request_) : std::span<const iovec>(rest_);
}

std::optional<Result<size_t>> IoTransfer::advance(int64_t outcome) {
    if (outcome < 0) return failed(static_cast<int>(-outcome));
    if (op() != IoOp::read && op() != IoOp::write) return Result<size_t>(size_t{0});
    return moved(static_cast<size_t>(outcome));
}

std::optional<Result<size_t>> IoTransfer::failed(int error_number) {
    if (error_number == EINTR || error_number == EAGAIN)
        return ++continued_ <= kMaxContinued ? std::nullopt
                                             : std::optional(Result<size_t>(error(EAGAIN)));
    // A direct transfer cannot go on from an odd offset, such as the end of the file: go on from
    // the page before, over bytes that are done already.
    if (error_number == EINVAL && reached_ > 0 && !aligned_down_) {
        aligned_down_ = true;
        const uint64_t page = (request_.offset + reached_) / kDirectAlign * kDirectAlign;
        return again(page > request_.offset ? page - request_.offset : 0);
    }
    return error(error_number);
}

std::optional<Result<size_t>> IoTransfer::moved(size_t bytes) {
    const size_t end = start_ + bytes;
    if (end >= io_bytes(request_)) return Result<size_t>(end);
    if (end <= reached_) {  // no way forward: the end of the file, or a device that takes no more
        if (op() == IoOp::read) return Result<size_t>(reached_);
        return error(ENOSPC);
    }
    reached_ = end;
    return again(end);
}

std::optional<Result<size_t>> IoTransfer::again(size_t start) {
    if (++continued_ > kMaxContinued) return error(EIO);
    start_ = start;
    if (start_ > 0) rest_ = skip_bytes(io_parts(request_), start_);
    return std::nullopt;
}

Error IoTransfer::error(int error_number) const {
    std::string message(io_op_name(op()));
    if (op() == IoOp::read || op() == IoOp::write)
        message += " of " + std::to_string(io_bytes(request_)) + " bytes at offset " +
                   std::to_string(request_.offset);
    message += " of " + path_of(fd()) + ": " + std::generic_category().message(error_number);
    const bool full = error_number == ENOSPC || error_number == EDQUOT;
    return make_error(full ? Code::full : Code::io, std::move(message), error_number);
}

}  // namespace quire
