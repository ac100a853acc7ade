// What a client is told when a request fails: an HTTP status and OpenAI's error object.
//
//   {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
//
// Values only; any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/result.h"

namespace quire::server {

struct ApiError {
    int status = 400;
    std::string message;                         // names the thing and the remedy
    std::string type = "invalid_request_error";  // OpenAI's classes of error
    std::string param;                           // the field at fault; empty: null in JSON
    std::string code;                            // a stable word; empty: null in JSON
    int retry_after_s = 0;                       // > 0: sent as Retry-After
};

// Either a value or the error to answer with.
template <typename T>
class [[nodiscard]] ApiResult {
 public:
    ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    ApiResult(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return state_.index() == 0; }
    // REQUIRES: ok().
    T& value() { return *std::get_if<0>(&state_); }
    const T& value() const { return *std::get_if<0>(&state_); }
    // REQUIRES: !ok().
    const ApiError& error() const { return *std::get_if<1>(&state_); }

 private:
    std::variant<T, ApiError> state_;
};

// 400 for a field of the request body.
ApiError bad_field(std::string param, std::string message, std::string code = {});
// 404 for a model that is not served here.
ApiError model_not_found(const std::string& asked, const std::string& served);
// 503 while the server drains.
ApiError draining_error();
// How an engine's failure looks to a client.
ApiError from_engine(const Error& error);

std::string error_body(const ApiError& error);

}  // namespace quire::server
