// A strict reader of the Prometheus text format, for tests of whatever serves it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// name{labels} as written -> value.
using PrometheusSamples = std::map<std::string, double>;

// invalid with the line that breaks a rule: names and labels well formed, HELP and TYPE before
// samples and once each, families not interleaved, counters ending in _total, no sample twice,
// histogram buckets ascending with +Inf equal to _count.
Result<PrometheusSamples> check_prometheus_text(std::string_view text);

}  // namespace quire
