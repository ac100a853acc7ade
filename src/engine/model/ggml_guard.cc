#include "engine/model/ggml_guard.h"

#include <string>

namespace quire {
namespace {

// "/where/it/was/built/gguf.cpp:145: GGML_ASSERT(..) failed" without the folders, on one line.
std::string short_form(std::string message) {
    const size_t end_of_path = message.find(": ");
    const size_t folder = message.rfind('/', end_of_path);
    if (end_of_path != std::string::npos && folder != std::string::npos)
        message.erase(0, folder + 1);
    for (char& c : message)
        if (c == '\n') c = ' ';
    return message;
}

void throw_failure(const char* message) {
    throw GgmlFailure(short_form(message));
}

}  // namespace

GgmlGuard::GgmlGuard() : before_(ggml_set_abort_callback(throw_failure)) {}

GgmlGuard::~GgmlGuard() {
    ggml_set_abort_callback(before_);
}

}  // namespace quire
