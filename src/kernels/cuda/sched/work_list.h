// Which worker of a decode kernel reads which keys. The same code on CPU and GPU.
//
// Attention of a batch is a list of tiles of keys, in order of request, KV head, position. Every
// worker takes as many of them as any other, to one, whatever the lengths are: worker w has
// tiles that follow each other, and those of worker w + 1 come next. So a
// worker's tiles are a few segments, each of one request and KV head. Where a request and head is
// cut between workers, each leaves a partial result, and whoever is last merges them. A worker
// leaves two partial results at most, its first segment and its last, so that scratch grows with
// workers, not with keys.
//
// Source of the idea: stream-K decomposition (Osama et al. 2023), for attention LeanAttention
// (Sanovar et al. 2024).
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace quire::kernels::cuda {

// Keys [begin, end) that a request's queries see; tiles begin at multiples of `tile`.
struct KeySpan {
    int32_t begin = 0;
    int32_t end = 0;
};

// What all queries of a request together see of its keys: those of its window before the first
// query, up to the last one. window 0: all. REQUIRES: n_queries <= n_keys.
QUIRE_HOST_DEVICE constexpr KeySpan span_of(int32_t n_keys, int32_t n_queries, int32_t window) {
    const int32_t first = n_keys - n_queries + 1 - window;  // the first query's window begins here
    return {window > 0 && first > 0 ? first : 0, n_keys};
}

QUIRE_HOST_DEVICE constexpr int32_t first_tile(KeySpan keys, int32_t tile) {
    return keys.begin / tile;
}
// Of one KV head; 0 for a request without keys.
QUIRE_HOST_DEVICE constexpr int32_t tiles_of(KeySpan keys, int32_t tile) {
    return keys.end <= keys.begin ? 0 : (keys.end - 1) / tile + 1 - keys.begin / tile;
}

// Tiles [begin, end) of one request and KV head, counted from its first one.
struct Segment {
    int32_t request = 0;
    int32_t head = 0;
    int32_t begin = 0;
    int32_t end = 0;
    bool whole = false;  // nobody else has tiles of it
    int32_t slot = 0;    // of the partial result, where it is not whole: below 2 * n_workers
};

// Tiles of a batch and who has them. REQUIRES: fewer than 2^31 tiles in all.
class WorkList {
 public:
    WorkList() = default;
    // first_tiles[r]: tiles of one KV head in all requests before r; first_tiles[n_requests]: in
    // all. It is kept.
    QUIRE_HOST_DEVICE constexpr WorkList(const int32_t* first_tiles, int32_t n_requests,
                                         int32_t n_heads, int32_t n_workers)
        : first_tiles_(first_tiles), n_requests_(n_requests), n_heads_(n_heads) {
        const int32_t tiles = first_tiles[n_requests] * n_heads;
        busy_ = n_workers < tiles ? n_workers : tiles;
        each_ = busy_ == 0 ? 0 : tiles / busy_;
        more_ = busy_ == 0 ? 0 : tiles % busy_;
    }

    QUIRE_HOST_DEVICE constexpr int32_t tiles() const {
        return first_tiles_[n_requests_] * n_heads_;
    }
    // Workers that have tiles: the first ones.
    QUIRE_HOST_DEVICE constexpr int32_t busy() const { return busy_; }
    // REQUIRES: worker <= busy().
    QUIRE_HOST_DEVICE constexpr int32_t first_of(int32_t worker) const {
        return worker * each_ + (worker < more_ ? worker : more_);
    }
    // Which worker has the tile. REQUIRES: 0 <= tile < tiles().
    QUIRE_HOST_DEVICE constexpr int32_t worker_of(int32_t tile) const {
        const int32_t larger = more_ * (each_ + 1);  // tiles of workers that have one more
        return tile < larger ? tile / (each_ + 1) : more_ + (tile - larger) / each_;
    }
    QUIRE_HOST_DEVICE constexpr int32_t tiles_of_head(int32_t request) const {
        return first_tiles_[request + 1] - first_tiles_[request];
    }
    QUIRE_HOST_DEVICE constexpr int32_t first_tile_of(int32_t request, int32_t head) const {
        return first_tiles_[request] * n_heads_ + head * tiles_of_head(request);
    }
    QUIRE_HOST_DEVICE constexpr int32_t end_of(int32_t request) const {
        return first_tiles_[request + 1] * n_heads_;
    }
    // The request whose tiles hold this one: the last one that begins at or before it.
    QUIRE_HOST_DEVICE constexpr int32_t request_of(int32_t tile) const {
        int32_t low = 0, high = n_requests_;  // first_tiles[low] * n_heads <= tile
        while (high - low > 1) {
            const int32_t middle = low + (high - low) / 2;
            if (first_tiles_[middle] * n_heads_ <= tile)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
    // Workers with tiles of one request and KV head: those that a merge waits for.
    QUIRE_HOST_DEVICE constexpr int32_t workers_of(int32_t request, int32_t head) const {
        const int32_t n = tiles_of_head(request), first = first_tile_of(request, head);
        return n == 0 ? 0 : worker_of(first + n - 1) - worker_of(first) + 1;
    }
    // Where worker w leaves its partial result of a request and head that it shares with others.
    // It is w's last segment where the tiles go on after it, and otherwise its first one.
    QUIRE_HOST_DEVICE constexpr int32_t slot_of(int32_t worker, bool goes_on) const {
        return 2 * worker + (goes_on ? 1 : 0);
    }

 private:
    const int32_t* first_tiles_ = nullptr;
    int32_t n_requests_ = 0, n_heads_ = 0;
    int32_t busy_ = 0;
    int32_t each_ = 0, more_ = 0;  // the first `more_` workers have one tile more than each_
};

// A worker's segments, one after the other.
class SegmentWalker {
 public:
    QUIRE_HOST_DEVICE constexpr SegmentWalker(const WorkList& list, int32_t worker)
        : list_(list), worker_(worker) {
        if (worker >= list.busy()) return;
        next_ = list.first_of(worker);
        end_ = list.first_of(worker + 1);
        request_ = list.request_of(next_);
    }

    // false: there are no more.
    QUIRE_HOST_DEVICE constexpr bool next(Segment* segment) {
        if (next_ >= end_) return false;
        while (next_ >= list_.end_of(request_)) ++request_;
        const int32_t before = list_.first_tile_of(request_, 0), n = list_.tiles_of_head(request_);
        segment->request = request_;
        segment->head = (next_ - before) / n;
        segment->begin = (next_ - before) % n;
        const int32_t rest = end_ - next_;
        segment->end = n - segment->begin < rest ? n : segment->begin + rest;
        segment->whole = segment->begin == 0 && segment->end == n;
        segment->slot = list_.slot_of(worker_, segment->end < n);
        next_ += segment->end - segment->begin;
        return true;
    }

 private:
    WorkList list_;
    int32_t worker_;
    int32_t next_ = 0;
    int32_t end_ = 0;
    int32_t request_ = 0;
};

}  // namespace quire::kernels::cuda
