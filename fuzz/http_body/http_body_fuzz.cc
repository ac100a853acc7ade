// Request bodies of any bytes: each parser answers with a value inside its bounds or with an error
// that has OpenAI's shape; none crashes, whatever the nesting, numbers or encoding.
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "server/admin_request.h"
#include "server/openai_request.h"

namespace {

using namespace quire::server;

void check_error(const ApiError& error) {
    QUIRE_CHECK(error.status >= 400 && error.status < 500, "a bad body is the client's error");
    QUIRE_CHECK(!error.message.empty() && !error.type.empty(), "an error without its text");
    QUIRE_CHECK(error.message.size() < 4096, "an error that echoes a whole body");
}

void check_generation(const GenerationBody& body) {
    QUIRE_CHECK(body.n >= 1 && body.n <= kMaxChoices, "n out of bounds");
    QUIRE_CHECK(body.stop.size() <= kMaxStops, "too many stop strings");
    QUIRE_CHECK(body.cache_salt.size() <= kMaxSaltBytes, "salt too long");
    QUIRE_CHECK(std::isfinite(body.sampling.temperature), "a temperature that is no number");
    QUIRE_CHECK(body.sampling.logprobs <= kMaxLogprobs, "too many logprobs");
}

template <typename T, typename Check>
void check(const ApiResult<T>& result, Check check_value) {
    if (result.ok()) {
        check_value(result.value());
    } else {
        check_error(result.error());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    check(parse_completion(bytes), check_generation);
    check(parse_chat(bytes), check_generation);
    check(parse_explain(bytes), check_generation);
    check(parse_tokenize(bytes), [](const TokenizeBody&) {});
    check(parse_detokenize(bytes), [](const DetokenizeBody&) {});
    check(parse_flush(bytes), [](const FlushBody&) {});
    return 0;
}
