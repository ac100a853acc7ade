#include "kernels/cuda/copy/copy_plan.h"

#include <algorithm>
#include <string>

namespace quire::kernels::cuda {
namespace {

struct Range {
    uintptr_t begin;
    uintptr_t end;
    size_t fragment;
};

Range range_of(const std::byte* p, uint64_t bytes, size_t fragment) {
    const auto begin = reinterpret_cast<uintptr_t>(p);
    return {begin, begin + bytes, fragment};
}

Status wrong(size_t fragment, const std::string& what) {
    return make_error(Code::invalid, "fragment " + std::to_string(fragment) + " " + what);
}

Status check_one(const CopyFragment& f, size_t i) {
    if (f.bytes == 0) return {};
    if (f.from == nullptr || f.to == nullptr) return wrong(i, "has a null address");
    if (reinterpret_cast<uintptr_t>(f.from) % kCopyAlign != 0 ||
        reinterpret_cast<uintptr_t>(f.to) % kCopyAlign != 0 || f.bytes % kCopyAlign != 0)
        return wrong(i, "is not made of whole 16 bytes at multiples of 16");
    if (reinterpret_cast<uintptr_t>(f.from) + f.bytes < f.bytes ||
        reinterpret_cast<uintptr_t>(f.to) + f.bytes < f.bytes)
        return wrong(i, "ends behind the last address");
    return {};
}

std::vector<Range> sorted(std::vector<Range> ranges) {
    std::ranges::sort(ranges, {}, &Range::begin);
    return ranges;
}

}  // namespace

std::vector<CopyFragment> join_fragments(std::span<const CopyFragment> fragments) {
    std::vector<CopyFragment> joined;
    for (const CopyFragment& f : fragments) {
        if (f.bytes == 0) continue;
        if (!joined.empty()) {
            CopyFragment& last = joined.back();
            if (last.from + last.bytes == f.from && last.to + last.bytes == f.to) {
                last.bytes += f.bytes;
                continue;
            }
        }
        joined.push_back(f);
    }
    return joined;
}

std::vector<CopyPiece> cut_fragments(std::span<const CopyFragment> fragments,
                                     uint32_t piece_bytes) {
    std::vector<CopyPiece> pieces;
    for (size_t i = 0; i < fragments.size(); ++i) {
        const CopyFragment& f = fragments[i];
        for (uint64_t at = 0; at < f.bytes; at += piece_bytes)
            pieces.push_back(
                {.from = f.from + at,
                 .to = f.to + at,
                 .at = at,
                 .bytes = static_cast<uint32_t>(std::min<uint64_t>(piece_bytes, f.bytes - at)),
                 .fragment = static_cast<uint32_t>(i)});
    }
    return pieces;
}

Status check_fragments(std::span<const CopyFragment> fragments) {
    std::vector<Range> read, written;
    for (size_t i = 0; i < fragments.size(); ++i) {
        const CopyFragment& f = fragments[i];
        QUIRE_TRY(check_one(f, i));
        if (f.bytes == 0) continue;
        read.push_back(range_of(f.from, f.bytes, i));
        written.push_back(range_of(f.to, f.bytes, i));
    }
    read = sorted(std::move(read));
    written = sorted(std::move(written));
    for (size_t i = 1; i < written.size(); ++i)
        if (written[i].begin < written[i - 1].end)
            return wrong(
                written[i].fragment,
                "writes where fragment " + std::to_string(written[i - 1].fragment) + " writes");
    // Neither list of writes overlaps itself: the first write that ends behind a read's begin is
    // the only one to look at.
    for (const Range& r : read) {
        const auto w = std::ranges::upper_bound(written, r.begin, {}, &Range::end);
        if (w != written.end() && w->begin < r.end)
            return wrong(r.fragment,
                         "reads what fragment " + std::to_string(w->fragment) + " writes");
    }
    return {};
}

}  // namespace quire::kernels::cuda
