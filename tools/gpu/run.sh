#!/usr/bin/env bash
# tools/gpu/run.sh build | test [NAME] [--json FILE] | emulate [NAME] [--json FILE] |
#                  bench [--json FILE] [--only SUITE] | probes
# The CUDA kernels, with nvcc and a C++ compiler alone.
#
#   build   every kernel, for sm_90a, and libquire_kernels.so; fails when one spills registers
#   test    builds, then runs the tests whose names contain NAME; without a GPU those that need one
#           are skipped
#   emulate the tests of attention over codes and of the device tier, on the CPU: what kernels do in
#           assembly is replaced, and CUDA's runtime (tests/gpu/emulator); needs nvcc's headers, g++
#   bench   builds, then measures every kernel beside ceilings of the same run
#   probes  what one multiprocessor can do of the things that kernels are made of
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out="${QUIRE_GPU_BUILD:-build/gpu}"
jobs="${JOBS:-$(nproc)}"
command -v nvcc >/dev/null || {
    echo "run.sh: nvcc is not on the PATH: install CUDA 13" >&2
    exit 3
}

# 20091: tables of kernels, which host code of the same file uses in constant expressions only.
# 445: a lambda with no other use of its template parameter than its body.
flags=(-std=c++20 -O3 -I. -Isrc -Iinclude -Xcompiler -fPIC --expt-relaxed-constexpr -fmad=false
       -diag-suppress 20091,445 -gencode=arch=compute_90a,code=sm_90a -Xptxas -v)

# source -> object; what ptxas says is kept beside it.
compile() {
    local source="$1" object="$out/${1//\//_}.o"
    if [[ -f "$object" && -f "$object.d" && tools/gpu/run.sh -ot "$object" ]]; then
        local files
        read -ra files -d '' < <(sed 's/^[^:]*://; s/\\$//' "$object.d") || true
        # A header that is gone makes find say so, which is a reason too.
        [[ -n "$(find "${files[@]}" -newer "$object" 2>&1 | head -n 1)" ]] || return 0
    fi
    if ! nvcc "${flags[@]}" -MMD -MF "$object.d" -c "$source" -o "$object" >"$object.log" 2>&1; then
        cat "$object.log" >&2
        rm -f "$object"
        return 1
    fi
    grep -v "^ptxas info\|^$\|bytes stack frame\|Compile time" "$object.log" >&2 || true
    if grep "bytes spill" "$object.log" | grep -qv " 0 bytes spill stores, 0 bytes spill"; then
        echo "run.sh: $source: a kernel spills registers" >&2
        return 1
    fi
}
export -f compile
export out
export flags_text="${flags[*]}"

kernels() {
    find src/kernels/cuda -name '*.cu' -o -name '*.cc' -not -name '*_test.cc'
}
# The tier of a GPU's memory, and what it takes of the layers above it.
tier() {
    find src/tier/device -name '*.cc'
    printf 'src/%s.cc\n' base/{arena,check,clock,crc32c,executor,result,units} \
        core/{hash128,kv_layout} format/slab \
        policy/{adaptive,evict,ghost_set,lfuda,lru,mini_cache,s3fifo,sieve} \
        tier/{landing,arena/slot_arena,packed/packed_slab,testing/conformance} \
        tier/host/{copy_slab,get_flight,host_entries,host_store}
}
tests() {
    find tests/gpu -name "*.cc" -not -path "tests/gpu/emulator/*"
    echo src/codec/hot/ref.cc
    echo src/codec/hot/rotate.cc
    echo src/codec/fp8/ref.cc
    echo src/codec/raw16/ref.cc
    echo src/codec/fp4/ref.cc
    echo src/codec/slots/ref.cc
    echo src/codec/mla/rows.cc
}
benches() {
    find bench/gpu -name '*.cu' -not -name 'probes.cu' -o -name '*.cc'
}

# link PROGRAM [FLAG...] < sources
link() {
    local objects=() program="$1"
    shift
    while read -r source; do objects+=("$out/${source//\//_}.o"); done
    nvcc -gencode=arch=compute_90a,code=sm_90a "$@" "${objects[@]}" -o "$out/$program"
}

build() {
    mkdir -p "$out"
    { kernels; tier; tests; benches; echo bench/gpu/probes.cu; } | sort |
        xargs -P "$jobs" -I{} bash -c 'read -ra flags <<<"$flags_text"; compile "$1"' _ {} ||
        return 1
    { kernels; tier; tests; } | link quire_gpu_test || return 1
    kernels | link libquire_kernels.so -shared || return 1
    { kernels; tier; benches; } | link quire_gpu_bench || return 1
    printf '%s\n' bench/gpu/probes.cu bench/gpu/machine.cu | link quire_gpu_probes
}

# The sources of an emulated test and of the kernels that it tests.
emulated() {
    echo src/kernels/cuda/attn/decode.cu
    find src/kernels/cuda/attn/units -name '*.cu'
    echo src/kernels/cuda/copy/copy.cu
}
emulated_host() {
    printf '%s\n' src/kernels/cuda/attn/decode_supports.cc tests/gpu/main.cc \
        tests/gpu/decode_test.cc src/codec/hot/ref.cc src/codec/hot/rotate.cc \
        src/codec/raw16/ref.cc tests/gpu/tier_device_test.cc
    find src/kernels/cuda/copy -name '*.cc' -not -name '*_test.cc'
    tier
    find tests/gpu/emulator -name '*.cc'
}
emulate() {
    local cuda  # where nvcc says that it is; it may be called through a script
    cuda="$(nvcc --dryrun -x cu /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')"
    local objects="$out/emulated"
    rm -rf "$objects"
    mkdir -p "$objects"
    # Kernels read numbers as words of other types, which nvcc allows.
    local words=(-std=c++20 -O2 -mf16c -ffp-contract=off -fno-strict-aliasing -Wno-attributes
                 -Wno-unknown-pragmas -Itests/gpu/emulator -I. -Isrc -isystem "$cuda/include")
    {
        emulated | sed 's/^/-include emulate.h -x c++ -c /'
        emulated_host | sed 's/^/-c /'
    } | words="${words[*]}" objects="$objects" xargs -P "$jobs" -d '\n' -I{} bash -c '
            read -ra all <<<"$words $1"
            g++ "${all[@]}" -o "$objects/$(tr / _ <<<"${all[-1]}").o"' _ {} || return 1
    g++ "$objects"/*.o -o "$out/quire_gpu_emulated_test"
}

case "${1:-}" in
    build) build ;;
    emulate) shift; emulate && "$out/quire_gpu_emulated_test" "$@" ;;
    test) shift; build && "$out/quire_gpu_test" "$@" ;;
    bench) shift; build && "$out/quire_gpu_bench" "$@" ;;
    probes) build && "$out/quire_gpu_probes" ;;
    *) sed -n '2,13p' "${BASH_SOURCE[0]}" | sed 's/^# \?//'; exit 2 ;;
esac
