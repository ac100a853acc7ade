#include "bench/ceilings.h"

#include <cerrno>
#include <cstring>
#include <random>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"

namespace quire::bench {
namespace {

constexpr size_t kSweepBytes = size_t{512} << 20;  // twice a large last-level cache
constexpr size_t kReadBytes = size_t{2} << 20;     // as the disk tier groups its reads
constexpr uint32_t kReadDepth = 16;
constexpr size_t kDirectAlign = 4096;

double seconds_since(int64_t start_ns) {
    return static_cast<double>(system_clock().monotonic_ns() - start_ns) * 1e-9;
}

Result<Arena> touched_arena(size_t bytes) {
    return Arena::create({.bytes = bytes, .huge_pages = true, .prefault = true});
}

void fill_random(std::span<std::byte> bytes) {
    std::mt19937_64 draw(1);
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const uint64_t word = draw();
        std::memcpy(bytes.data() + i, &word, sizeof word);
    }
}

}  // namespace

Result<CacheSweep> CacheSweep::create() {
    auto arena = touched_arena(kSweepBytes);
    if (!arena.ok()) return arena.error();
    return CacheSweep(std::move(arena).value());
}

void CacheSweep::run() {
    std::memset(arena_.data(), ++round_, arena_.size());
}

Result<std::unique_ptr<CopyCeiling>> CopyCeiling::create(size_t bytes, uint32_t threads) {
    auto from = touched_arena(bytes);
    if (!from.ok()) return from.error();
    auto to = touched_arena(bytes);
    if (!to.ok()) return to.error();
    fill_random(from->bytes());
    return std::unique_ptr<CopyCeiling>(
        new CopyCeiling(std::move(from).value(), std::move(to).value(), threads));
}

double CopyCeiling::seconds() {
    const int64_t start_ns = system_clock().monotonic_ns();
    const size_t share = (from_.size() + threads_ - 1) / threads_;
    for (size_t at = 0; at < from_.size(); at += share) {
        const size_t n = std::min(share, from_.size() - at);
        const auto copy = [this, at, n] { std::memcpy(to_.data() + at, from_.data() + at, n); };
        if (!pool_.submit(copy).ok()) copy();
    }
    pool_.drain();
    return seconds_since(start_ns);
}

Result<std::unique_ptr<ReadCeiling>> ReadCeiling::create(const std::string& dir, size_t bytes) {
    bytes = (bytes + kDirectAlign - 1) / kDirectAlign * kDirectAlign;
    auto buffer = touched_arena(bytes);
    if (!buffer.ok()) return buffer.error();
    auto io = make_io_engine({.queue_depth = kReadDepth});
    if (!io.ok()) return io.error();
    const std::string path = dir + "/ceiling.bin";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
    if (fd < 0) {
        const int code = errno;
        return make_error(code == EINVAL ? Code::unsupported : Code::io,
                          "cannot open " + path + " with O_DIRECT: " + std::strerror(code) +
                              "; give another folder with --dir",
                          code);
    }
    std::unique_ptr<ReadCeiling> made(
        new ReadCeiling(path, fd, std::move(buffer).value(), std::move(io).value()));
    fill_random(made->buffer_.bytes());
    for (const auto& written : run_io(*made->io_, made->requests(IoOp::write)))
        if (!written.ok()) return written.error();
    if (::fsync(fd) != 0) return make_error(Code::io, "cannot sync " + path, errno);
    return made;
}

ReadCeiling::~ReadCeiling() {
    io_.reset();
    ::close(fd_);
    ::unlink(path_.c_str());
}

std::vector<IoRequest> ReadCeiling::requests(IoOp op) const {
    std::vector<IoRequest> list;
    for (size_t at = 0; at < buffer_.size(); at += kReadBytes) {
        const auto part = buffer_.bytes().subspan(at, std::min(kReadBytes, buffer_.size() - at));
        list.push_back(op == IoOp::read ? io_read(fd_, at, part) : io_write(fd_, at, part));
    }
    return list;
}

Result<double> ReadCeiling::seconds() {
    const std::vector<IoRequest> list = requests(IoOp::read);
    const int64_t start_ns = system_clock().monotonic_ns();
    const auto results = run_io(*io_, list);
    const double seconds = seconds_since(start_ns);
    for (size_t i = 0; i < list.size(); ++i) {
        if (!results[i].ok()) return results[i].error();
        if (*results[i] != io_bytes(list[i]))
            return make_error(Code::io, path_ + " ended short while it was read");
    }
    return seconds;
}

}  // namespace quire::bench
