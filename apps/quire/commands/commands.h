// Subcommands that report: each is main() of its own, with argv[0] the subcommand's name.
// Exit codes: 0 all is well; 1 something was found; 2 it could not run.
#pragma once

namespace quire::commands {

int run_bench(int argc, const char* const* argv);
int run_calibrate(int argc, const char* const* argv);
int run_codec(int argc, const char* const* argv);
int run_eval(int argc, const char* const* argv);
int run_inspect(int argc, const char* const* argv);
int run_doctor(int argc, const char* const* argv);

}  // namespace quire::commands
