#include "kernels/bench/probes_generic.h"
#include "kernels/cpu/avx2/isa.h"

namespace quire::kernels::bench {

const Probes kAvx2Probes = {read_bytes<Avx2>, multiply_add<Avx2>};

}  // namespace quire::kernels::bench
