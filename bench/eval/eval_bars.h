// What our codecs have to reach beside a peer on the same text, sinks and tail: a share of its
// divergence, or its divergence at fewer bits.
#pragma once

#include <string>
#include <vector>

#include "bench/bars.h"
#include "bench/eval/evaluate.h"
#include "bench/places.h"

namespace quire::bench {

// Rows for which both sides were evaluated; those that look between rates need two of them, and are
// missed when the rates do not bracket what is sought. The bars are those of the two
// models of tools/models.
std::vector<BarRow> eval_bars(const BenchModel& model, const std::vector<EvalRow>& rows);

// Bits of the schedules that the bars name.
std::vector<double> eval_bar_bits();
std::string schedule_name(double bits);

}  // namespace quire::bench
