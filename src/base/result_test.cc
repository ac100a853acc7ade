#include "base/result.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace quire {
namespace {

// As a vector of results that a call returned: what operator[] refers to ends with the temporary.
// The place is the test's own, so that reading it afterwards is allowed and seen.
class Batch {
 public:
    explicit Batch(Status* place, Status status) : place_(place) { *place_ = std::move(status); }
    ~Batch() { *place_ = Status(); }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    const Status& operator[](size_t) const { return *place_; }

 private:
    Status* place_;
};

Status first_of(Status status) {
    Status place;
    QUIRE_TRY(Batch(&place, std::move(status))[0]);
    return make_error(Code::bug, "went on");
}

TEST(Try, AnElementOfATemporaryIsLookedAtWhileItLives) {
    const Status failed = first_of(make_error(Code::io, "a disk went away", 5));
    EXPECT_EQ(failed.code(), Code::io);
    EXPECT_EQ(failed.error().message, "a disk went away");
    EXPECT_EQ(failed.error().detail, 5);
    EXPECT_EQ(first_of({}).code(), Code::bug);
}

// Counts what happens to a value.
struct Counted {
    int* copies;
    int* moves;
    Counted(int* copied, int* moved) : copies(copied), moves(moved) {}
    Counted(const Counted& other) : copies(other.copies), moves(other.moves) { ++*copies; }
    Counted(Counted&& other) noexcept : copies(other.copies), moves(other.moves) { ++*moves; }
    Counted& operator=(const Counted&) = delete;
    Counted& operator=(Counted&&) = delete;
    ~Counted() = default;
};

Status try_it(const Result<Counted>& result) {
    QUIRE_TRY(result);
    return {};
}

TEST(Try, ASuccessIsNeitherCopiedNorMoved) {
    int copies = 0, moves = 0;
    const Result<Counted> result{Counted(&copies, &moves)};
    const int moves_before = moves;
    EXPECT_TRUE(try_it(result).ok());
    EXPECT_EQ(copies, 0);
    EXPECT_EQ(moves, moves_before);
}

Status try_to_keep(Status& status) {
    QUIRE_TRY(status);
    return {};
}

Status try_to_move(Status& status) {
    QUIRE_TRY(std::move(status));
    return {};
}

TEST(Try, TakesTheMessageOnlyFromWhatIsGivenAway) {
    const std::string text(100, 'x');
    Status status = make_error(Code::full, text);
    const char* letters = status.error().message.data();
    EXPECT_EQ(try_to_keep(status).error().message, text);
    EXPECT_EQ(status.error().message, text);
    const Status moved = try_to_move(status);
    EXPECT_EQ(moved.error().message, text);
    EXPECT_EQ(moved.error().message.data(), letters);  // the very letters, not copies
}

Result<std::unique_ptr<int>> give(Result<std::unique_ptr<int>> result) {
    QUIRE_TRY(result);
    return result;
}

TEST(Try, WorksForWhatCannotBeCopied) {
    EXPECT_EQ(**give(std::make_unique<int>(7)), 7);
    EXPECT_EQ(give(make_error(Code::miss, "")).code(), Code::miss);
}

}  // namespace
}  // namespace quire
