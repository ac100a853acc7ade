// Preconditions that only the device can look at: what is in tables, lengths and slots, and where
// copies begin. Checked builds (tools/gpu/run.sh build --checked, and emulated tests) look; a
// broken one prints itself and ends the kernel, whose stream then reports cudaErrorAssert. Other
// builds have no code for it.
#pragma once

#if defined(QUIRE_CHECKED)
#include <cassert>
// `what`: a literal that names the parameter.
#define QUIRE_DEVICE_CHECK(condition, what) assert((condition) && what)
#else
#define QUIRE_DEVICE_CHECK(condition, what) static_cast<void>(0)
#endif
