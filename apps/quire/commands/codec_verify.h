// What `quire codec verify` checks.
#pragma once

#include <string>
#include <vector>

#include "apps/quire/commands/codec_report.h"
#include "base/result.h"

namespace quire::commands {

// Every codec's fast versions against its oracle.
Result<std::vector<CodecCheck>> verify_this_cpu();

// Golden vectors against every instruction set of this CPU. A path is a file, or a folder of which
// all are checked that end as such files do: `.bin` (codec/vectors/golden.h), `.block`, `.rows`.
// corrupt: damaged; invalid: a folder that has none, or a file that ends otherwise; io.
Result<std::vector<CodecCheck>> verify_files(const std::vector<std::string>& paths);

}  // namespace quire::commands
