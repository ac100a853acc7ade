// Reads typed fields out of a JSON object and remembers the first one that is wrong.
//
// A reader returns nullopt both for an absent (or null) field and for a wrong one; the caller reads
// all fields in a row and asks once for the error. Names that nobody asked for are reported, not
// refused: clients of other servers send many fields that mean nothing here.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/json_text.h"

namespace quire::server {

class Fields {
 public:
    // REQUIRES: object.is_object(), and it outlives this. `prefix` is put before names in messages,
    // as in "messages[2].".
    explicit Fields(const Json& object, std::string prefix = {});

    std::optional<bool> boolean(const char* name);
    std::optional<int64_t> integer(const char* name, int64_t min, int64_t max);
    std::optional<double> number(const char* name, double min, double max);
    std::optional<std::string> text(const char* name, size_t max_bytes);
    // The raw value, nullptr when absent or null.
    const Json* any(const char* name);
    // Known and without effect here: not reported.
    void accept(const char* name) { known_.insert(name); }

    // Keeps the first error only.
    void fail(const std::string& name, const std::string& message, std::string code = {});
    // "'name' must be <wanted>; got <value>."
    void fail_type(const std::string& name, const std::string& wanted, const Json& got);

    const std::optional<ApiError>& error() const { return error_; }
    std::vector<std::string> unknown() const;

 private:
    const Json& object_;
    std::string prefix_;
    std::set<std::string, std::less<>> known_;
    std::optional<ApiError> error_;
};

}  // namespace quire::server
