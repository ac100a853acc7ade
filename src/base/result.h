// Result<T>: the one way a module reports failure to another.
//
// A Result holds either a value or an Error: a Code out of one closed list, a message for people
// that names the offending thing and the remedy, and a 64-bit detail (errno, offset, count) for
// programs. No exception crosses a module. A cache miss is Code::miss and is ordinary: it is never
// logged as an error. Progress ("still loading") is not an error and has its own enums where it
// occurs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace quire {

enum class Code : uint8_t {
    ok,           // only as Result::code() of a success
    miss,         // what was asked for is not there; compute it
    rejected,     // refused by policy, quota or admission; nothing is wrong
    busy,         // a bound was reached; trying again later may work
    timeout,      // a deadline passed
    cancelled,    // the owner gave up
    invalid,      // the caller's input is wrong
    unsupported,  // valid, but this build or machine cannot do it
    corrupt,      // bytes failed verification; treat as a miss
    io,           // the operating system failed an operation; detail is errno
    full,         // no space left in the budget or on the device
    bug,          // an invariant of ours does not hold
};

// The stable lower-case name of a code, as it appears in logs, metrics and JSON.
std::string_view code_name(Code code);

struct Error {
    Code code = Code::bug;
    std::string message;
    int64_t detail = 0;
};

template <typename T>
class [[nodiscard]] Result {
 public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    Code code() const { return ok() ? Code::ok : error().code; }

    // REQUIRES: ok(). Undefined otherwise, as for std::optional.
    T& value() & { return *std::get_if<0>(&state_); }
    const T& value() const& { return *std::get_if<0>(&state_); }
    T&& value() && { return std::move(*std::get_if<0>(&state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    // REQUIRES: !ok().
    const Error& error() const& { return *std::get_if<1>(&state_); }
    Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    bool ok() const { return !error_.has_value(); }
    explicit operator bool() const { return ok(); }
    Code code() const { return ok() ? Code::ok : error_->code; }

    // REQUIRES: !ok().
    const Error& error() const& { return *error_; }
    Error&& error() && { return *std::move(error_); }

 private:
    std::optional<Error> error_;
};

using Status = Result<void>;

inline Error make_error(Code code, std::string message, int64_t detail = 0) {
    return Error{code, std::move(message), detail};
}

// The error of a Status or any Result, out of it where it is the caller's to give away. A success
// is neither copied nor moved.
template <typename AnyResult>
std::optional<Error> failure_of(AnyResult&& result) {
    if (result.ok()) return std::nullopt;
    return std::forward<AnyResult>(result).error();
}

// Returns the error of `expr` from the enclosing function, for a Status or any Result. It holds the
// error itself: a reference to `results()[0]` would outlive what results() gave.
#define QUIRE_TRY(expr)                                                                 \
    do {                                                                                \
        if (auto quire_try_ = ::quire::failure_of(expr)) return *std::move(quire_try_); \
    } while (false)

}  // namespace quire
