#!/usr/bin/env bash
# tools/gpu/run.sh build [--checked] | test [--checked] [NAME] [--json FILE] |
#                  emulate [NAME] [--json FILE] | bench [--json FILE] [--only SUITE] | probes |
#                  capture
# The CUDA kernels, with nvcc and a C++ compiler alone.
#
#   build   every kernel, for sm_90a, and libquire_kernels.so; fails when one spills registers
#   test    builds, then runs the tests whose names contain NAME; without a GPU those that need one
#           are skipped
#   emulate the tests of encoders, of attention over pages and of the device tier, on the CPU and
#           checked: what kernels do in assembly is replaced, and CUDA's runtime
#           (tests/gpu/emulator); needs nvcc's headers, g++
#   bench   builds, then measures every kernel beside ceilings of the same run
#   capture K, V and queries of two models, which tests use if build/captured has them; needs the
#           engine's build (tools/build) and the models (tools/models)
#   probes  what one multiprocessor can do of the things that kernels are made of
#
# --checked: kernels look at what only they can see (src/kernels/cuda/device_check.cuh), for which
# registers may spill; in a folder of its own.
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

verb="${1:-}"
shift || true
if [[ "${1:-}" == --checked ]]; then
    shift
    flags+=(-DQUIRE_CHECKED)
    out+=/checked
fi

# Whether an object is newer than what it was made of.
is_fresh() {
    local object="$1" files
    [[ -f "$object" && -f "$object.d" && tools/gpu/run.sh -ot "$object" ]] || return 1
    read -ra files -d '' < <(sed 's/^[^:]*://; s/\\$//' "$object.d") || true
    # A header that is gone makes find say so, which is a reason too.
    [[ -z "$(find "${files[@]}" -newer "$object" 2>&1 | head -n 1)" ]]
}
# source -> object; what ptxas says is kept beside it.
compile() {
    local source="$1" object="$out/${1//\//_}.o"
    is_fresh "$object" && return 0
    if ! nvcc "${flags[@]}" -MMD -MF "$object.d" -c "$source" -o "$object" >"$object.log" 2>&1; then
        cat "$object.log" >&2
        rm -f "$object"
        return 1
    fi
    grep -v "^ptxas info\|^$\|bytes stack frame\|Compile time" "$object.log" >&2 || true
    [[ " ${flags[*]} " == *" -DQUIRE_CHECKED "* ]] && return 0
    if grep "bytes spill" "$object.log" | grep -qv " 0 bytes spill stores, 0 bytes spill"; then
        echo "run.sh: $source: a kernel spills registers" >&2
        return 1
    fi
}
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

export -f compile is_fresh
# in_parallel FUNCTION < its arguments
in_parallel() {
    xargs -P "$jobs" -I{} bash -c 'read -ra flags <<<"$flags_text"; "$0" "$1"' "$1" {}
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
    { kernels; tier; tests; benches; echo bench/gpu/probes.cu; } | sort | in_parallel compile ||
        return 1
    { kernels; tier; tests; } | link quire_gpu_test || return 1
    kernels | link libquire_kernels.so -shared || return 1
    { kernels; tier; benches; } | link quire_gpu_bench || return 1
    printf '%s\n' bench/gpu/probes.cu bench/gpu/machine.cu | link quire_gpu_probes
}

# The sources of an emulated test and of the kernels that it tests.
emulated() {
    find src/kernels/cuda/attn src/kernels/cuda/codec/units -name '*.cu'
    printf 'src/kernels/cuda/%s.cu\n' copy/copy encode encode_floats encode_interop encode_to_host
    find src/kernels/cuda -name '*_supports.cc' -not -path '*/attn/*'
    find src/kernels/cuda/attn -name '*.cc'
    printf 'src/codec/%s.cc\n' hot/ref hot/rotate fp8/ref raw16/ref fp4/ref slots/ref
    printf 'tests/gpu/%s.cc\n' main attention_random_test captured_test cascade_test checked_test \
        decode_test encode_test encode_floats_test encode_interop_test merge_states_test \
        prefill_test tier_device_test
    find src/kernels/cuda/copy -name '*.cc' -not -name '*_test.cc'
    tier
    find tests/gpu/emulator -name '*.cc'
}
# Kernels read numbers as words of other types, which nvcc allows.
words=(-std=c++20 -DQUIRE_CHECKED -O2 -mf16c -mfma -ffp-contract=off -fno-strict-aliasing
       -Wno-attributes -Wno-unknown-pragmas -Itests/gpu/emulator -I. -Isrc)
compile_emulated() {
    local source="$1" object="$out/emulated/${1//\//_}.o" kernel=()
    is_fresh "$object" && return 0
    [[ "$source" == *.cu ]] && kernel=(-include emulate.h -x c++)
    g++ "${flags[@]}" -MMD -MF "$object.d" "${kernel[@]}" -c "$source" -o "$object"
}
export -f compile_emulated
emulate() {
    local cuda objects=() source  # where nvcc says that it is; it may be called through a script
    cuda="$(nvcc --dryrun -x cu /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')"
    mkdir -p "$out/emulated"
    emulated | flags_text="${words[*]} -isystem $cuda/include" in_parallel compile_emulated ||
        return 1
    for source in $(emulated); do objects+=("$out/emulated/${source//\//_}.o"); done
    g++ "${objects[@]}" -o "$out/quire_gpu_emulated_test"
}

capture() {
    local model path
    mkdir -p build/captured
    tools/build release quire_capture_kv
    for model in smollm2 gemma3; do
        path="$(tools/models fetch "$model" | tail -n 1)"
        build/release/tests/engine/quire_capture_kv "$path" LICENSE "build/captured/$model.kv"
    done
}

case "$verb" in
    build) build ;;
    emulate) emulate && "$out/quire_gpu_emulated_test" "$@" ;;
    test) build && "$out/quire_gpu_test" "$@" ;;
    bench) build && "$out/quire_gpu_bench" "$@" ;;
    capture) capture ;;
    probes) build && "$out/quire_gpu_probes" ;;
    *) sed -n '2,23p' "${BASH_SOURCE[0]}" | sed 's/^# \?//'; exit 2 ;;
esac
