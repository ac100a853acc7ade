#include "kernels/bench/probes_generic.h"
#include "kernels/cpu/avx512/isa.h"

namespace quire::kernels::bench {

const Probes kAvx512Probes = {read_bytes<Avx512>, multiply_add<Avx512>};

}  // namespace quire::kernels::bench
