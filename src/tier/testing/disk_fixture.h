// A disk store in a directory of its own, over an engine that can fail. Header only.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/fault_io.h"
#include "tier/disk/disk.h"
#include "tier/testing/sync_store.h"
#include "tier/testing/temp_dir.h"

namespace quire::testing {

class DiskFixture {
 public:
    static DiskOptions defaults() {
        DiskOptions options;
        options.capacity_bytes = 32 << 20;
        options.allow_oversize = true;  // scratch file systems are small
        return options;
    }

    explicit DiskFixture(DiskOptions options = defaults()) : options_(std::move(options)) {
        auto engine = make_io_engine({});
        QUIRE_CHECK(engine.ok(), "no I/O engine");
        io_ = std::make_unique<FaultIo>(std::move(*engine));
        options_.io = io_.get();
        options_.clock = &clock_;
        if (options_.dir.empty()) options_.dir = dir_.path();
        open();
    }

    void open() {
        auto opened = try_open();
        QUIRE_CHECK(opened.ok(), opened.ok() ? "" : opened.error().message.c_str());
        store_ = std::move(*opened);
    }
    Result<std::unique_ptr<TierStore>> try_open() const { return open_disk_store(options_); }
    void close() { store_.reset(); }
    void reopen() {
        close();
        open();
    }

    TierStore& store() { return *store_; }
    FaultIo& io() { return *io_; }
    ManualClock& clock() { return clock_; }
    DiskOptions& options() { return options_; }
    const TempDir& dir() const { return dir_; }

 private:
    TempDir dir_;
    ManualClock clock_{1'000'000'000};
    std::unique_ptr<FaultIo> io_;
    DiskOptions options_;
    std::unique_ptr<TierStore> store_;
};

}  // namespace quire::testing
