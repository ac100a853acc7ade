// What `quire eval` says of each cache beside divergence: attention's error, greedy continuations,
// planted keys. Only what was measured is there.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/quire/commands/eval_report.h"

namespace quire::commands {

// A blank line, what was asked, a table; empty: nothing was.
std::string eval_details_text(const EvalReport& report);
// The schedules of rows that have one, in YAML as --schedule-file and `quire serve --kv-schedule`
// read it; empty: there are none.
std::string eval_schedules_text(const EvalReport& report);
// "schedule", "attention_error", "greedy", "keys" of a row, and what was asked for all of them.
nlohmann::ordered_json eval_details_json(const bench::EvalRow& row);
nlohmann::ordered_json eval_details_json(const EvalReport& report);

}  // namespace quire::commands
