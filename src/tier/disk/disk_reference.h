// What the device gives without us: fio as a subprocess, and a plain O_DIRECT loop of our own.
#pragma once

#include <cstdint>
#include <string>

#include "base/io.h"
#include "base/result.h"
#include "tier/disk/dir.h"

namespace quire {

struct DirectPattern {
    std::string dir;          // the scratch file lies here
    uint64_t file_bytes = 0;  // a multiple of io_bytes
    uint64_t io_bytes = 1 << 20;
    uint32_t depth = 16;
};

// True when a fio program is on the PATH.
bool have_fio();

// Bytes a second of sequential O_DIRECT I/O over one file, as fio measures it. A read needs the
// file that a write of the same pattern left; remove_scratch() deletes it.
Result<double> run_fio(const DirectPattern& pattern, bool write);

// The same by our own loop, for machines without fio.
Result<double> run_direct_loop(const DirectPattern& pattern, bool write, IoEngine& io);

void remove_scratch(const DirectPattern& pattern);

// A file of `bytes` to read again and again: the ceiling for loading that many bytes from this
// disk.
class DirectReadReference {
 public:
    static Result<DirectReadReference> create(DirectPattern pattern, IoEngine& io);
    ~DirectReadReference();
    DirectReadReference(DirectReadReference&& other) noexcept;
    DirectReadReference& operator=(DirectReadReference&&) = delete;

    // Bytes a second of one sequential pass.
    Result<double> read_once();

 private:
    DirectReadReference(DirectPattern pattern, IoEngine& io)
        : pattern_(std::move(pattern)), io_(&io) {}

    DirectPattern pattern_;
    IoEngine* io_;
    bool owner_ = true;
};

}  // namespace quire
