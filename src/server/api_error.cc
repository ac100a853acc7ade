#include "server/api_error.h"

#include "server/json_text.h"

namespace quire::server {

ApiError bad_field(std::string param, std::string message, std::string code) {
    ApiError error;
    error.param = std::move(param);
    error.message = std::move(message);
    error.code = std::move(code);
    return error;
}

ApiError model_not_found(const std::string& asked, const std::string& served) {
    ApiError error;
    error.status = 404;
    error.type = "not_found_error";
    error.param = "model";
    error.code = "model_not_found";
    error.message = "The model '" + asked + "' is not served here; use '" + served +
                    "' (GET /v1/models lists it).";
    return error;
}

ApiError draining_error() {
    ApiError error;
    error.status = 503;
    error.type = "service_unavailable_error";
    error.code = "draining";
    error.message = "The server is shutting down and takes no new requests; retry elsewhere.";
    error.retry_after_s = 5;
    return error;
}

ApiError from_engine(const Error& error) {
    ApiError out;
    out.message = error.message;
    out.code = std::string(code_name(error.code));
    switch (error.code) {
        case Code::invalid:
        case Code::unsupported:
            return out;
        case Code::busy:
        case Code::rejected:
            out.status = 429;
            out.type = "rate_limit_error";
            out.code = "queue_full";
            out.retry_after_s = 1;
            return out;
        case Code::full:  // of memory for this request alone: trying again would not help
            out.status = 503;
            out.type = "server_error";
            return out;
        case Code::cancelled:
            return draining_error();
        case Code::timeout:
            out.status = 504;
            out.type = "timeout_error";
            return out;
        default:
            out.status = 500;
            out.type = "server_error";
            return out;
    }
}

std::string error_body(const ApiError& error) {
    auto text_or_null = [](const std::string& text) {
        return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
    };
    OrderedJson body;
    body["error"] = {{"message", error.message},
                     {"type", error.type},
                     {"param", text_or_null(error.param)},
                     {"code", text_or_null(error.code)}};
    return dump_json(body);
}

}  // namespace quire::server
