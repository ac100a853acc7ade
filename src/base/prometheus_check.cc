#include "base/prometheus_check.h"

#include <charconv>
#include <optional>
#include <regex>
#include <set>

#include <fmt/format.h>

namespace quire {
namespace {

const char kLabels[] = R"re(\{([a-z_][a-z0-9_]*="([^"\\\n]|\\["\\n])*",?)+\})re";

struct Family {
    std::string name;
    std::string type;
};

class Reader {
 public:
    Status line(const std::string& text) {
        std::smatch m;
        if (std::regex_match(text, m, help_)) return open(m[1], m[2]);
        if (std::regex_match(text, m, type_)) return type(m[1], m[2]);
        if (std::regex_match(text, m, sample_)) return sample(m[1], m[2], m[5]);
        return bad("malformed");
    }
    Status end() { return close(); }
    PrometheusSamples samples() && { return std::move(samples_); }

 private:
    static Error bad(const std::string& what) { return make_error(Code::invalid, what); }

    Status open(const std::string& name, const std::string& help) {
        QUIRE_TRY(close());
        if (!seen_.insert(name).second) return bad("family twice: " + name);
        if (help.empty()) return bad("no help: " + name);
        family_ = {name, ""};
        return {};
    }

    Status type(const std::string& name, const std::string& type) {
        if (family_.name != name || !family_.type.empty()) return bad("TYPE without HELP: " + name);
        family_.type = type;
        if ((type == "counter") != name.ends_with("_total"))
            return bad("only counters end in _total: " + name);
        return {};
    }

    // Families may not interleave: `name` must belong to the one that HELP opened last.
    Status sample(const std::string& name, const std::string& labels, const std::string& value) {
        const bool own = name == family_.name && family_.type != "histogram";
        const bool part = family_.type == "histogram" &&
                          (name == family_.name + "_bucket" || name == family_.name + "_sum" ||
                           name == family_.name + "_count");
        if (!own && !part) return bad("sample outside its family: " + name);
        const std::string key = name + labels;
        double number = 0;
        const char* end = value.data() + value.size();
        const auto [stop, ec] = std::from_chars(value.data(), end, number);
        if (ec != std::errc{} || stop != end) return bad("no number: " + value);
        if (!samples_.emplace(key, number).second) return bad("sample twice: " + key);
        if (!part) return {};
        return histogram_sample(name.substr(family_.name.size()), labels, samples_[key]);
    }

    Status histogram_sample(const std::string& part, const std::string& labels, double value) {
        if (part == "_bucket") {
            if (bucket_ && value < *bucket_) return bad("bucket below the one before: " + labels);
            bucket_ = value;
            infinite_ = labels.find("le=\"+Inf\"") != labels.npos;
        } else if (part == "_count") {
            if (!bucket_ || !infinite_ || *bucket_ != value)
                return bad("+Inf bucket and _count differ");
            bucket_.reset();
        }
        return {};
    }

    Status close() {
        if (!family_.name.empty() && family_.type.empty()) return bad("no TYPE: " + family_.name);
        if (bucket_) return bad("histogram without _count: " + family_.name);
        return {};
    }

    const std::regex help_{R"(# HELP ([a-z][a-z0-9_]*) (.+))"};
    const std::regex type_{R"(# TYPE ([a-z][a-z0-9_]*) (counter|gauge|histogram))"};
    const std::regex sample_{std::string(R"(([a-z][a-z0-9_]*)()") + kLabels +
                             R"()? (-?[0-9][0-9.e+-]*))"};
    Family family_;
    std::set<std::string> seen_;
    PrometheusSamples samples_;
    std::optional<double> bucket_;  // the histogram series being read
    bool infinite_ = false;
};

}  // namespace

Result<PrometheusSamples> check_prometheus_text(std::string_view text) {
    Reader reader;
    int number = 0;
    if (!text.empty() && text.back() != '\n')
        return make_error(Code::invalid, "the last line has no end");
    while (!text.empty()) {
        const size_t end = text.find('\n');
        const Status status = reader.line(std::string(text.substr(0, end)));
        ++number;
        if (!status.ok())
            return make_error(Code::invalid,
                              fmt::format("line {}: {}", number, status.error().message));
        text.remove_prefix(end + 1);
    }
    QUIRE_TRY(reader.end());
    return std::move(reader).samples();
}

}  // namespace quire
