// A sound model for ec and a sound block, with some of their bytes replaced: what is read of the
// model codes without a trap, and blocks of any bytes give the same rows and the same verdict on
// every instruction set.
//
// The first two bytes: tokens of the block; how many pieces are the model's. Then pieces of eight
// bytes: where (four), what (four).
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "codec/ec/kernels.h"
#include "codec/ec/testing.h"

namespace {

using namespace quire;
using namespace quire::codec;

struct Piece {
    uint32_t at;
    std::byte bytes[4];
};

void patch(std::span<const Piece> pieces, std::vector<std::byte>* into) {
    for (const Piece& piece : pieces)
        for (size_t i = 0; i < sizeof(piece.bytes); ++i)
            (*into)[(size_t{piece.at} + i) % into->size()] = piece.bytes[i];
}

Sidecar sound_sidecar() {
    const ec::Model model = ec::foretold_model(2, 0.5f);
    Sidecar sidecar{.layers = model.layers};
    sidecar.k_mean_before.assign(4 * ec::kDim, ec::kMean);
    sidecar.v_mean = sidecar.k_mean_before;
    model.store(&sidecar);
    return sidecar;
}

bool same(const ec::BlockRows& a, const ec::BlockRows& b) {
    if (a.size() != b.size()) return false;
    for (size_t l = 0; l < a.size(); ++l)
        for (size_t s = 0; s < 2; ++s)
            for (size_t i = 0; i < a[l][s].size(); ++i) {
                const float x = a[l][s][i], y = b[l][s][i];
                if (!(std::isnan(x) && std::isnan(y)) && std::memcmp(&x, &y, sizeof(x)) != 0)
                    return false;
            }
    return true;
}

// `blocks`: what replaces bytes of a block that the model wrote.
void run(const ec::Model& model, uint32_t tokens, std::span<const Piece> blocks) {
    auto coder = ec::BlockCoder::create(model, ec::whole_chain(model), 3);
    QUIRE_CHECK(coder.ok(), "a model that was read and cannot code");
    ec::BlockScratch scratch;
    const ec::BlockRows rows = ec::random_rows(2, tokens);
    std::vector<std::byte> expected;
    ec::BlockRows first;
    Code verdict = Code::ok;
    for (const ec::Kernels& kernels : ec::all_kernels()) {
        if (!kernels.cpu_has_it()) continue;
        coder->use(kernels);
        std::vector<std::byte> bytes;
        coder->encode(tokens, ec::reads(rows), &scratch, &bytes);
        const bool oracle = expected.empty();
        if (oracle) expected = bytes;
        QUIRE_CHECK(bytes == expected, "blocks differ");
        patch(blocks, &bytes);
        ec::BlockRows back;
        const Code code = coder->decode(bytes, tokens, ec::keeps(&back), &scratch).code();
        if (oracle) {
            verdict = code;
            first = back;
        }
        QUIRE_CHECK(code == verdict && same(back, first), "decodes differ");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Sidecar kSound = sound_sidecar();
    if (size < 2) return 0;
    const uint32_t tokens = 1 + data[0] % 40;
    std::vector<Piece> pieces((size - 2) / sizeof(Piece));
    if (!pieces.empty()) std::memcpy(pieces.data(), data + 2, pieces.size() * sizeof(Piece));
    const size_t of_model = std::min<size_t>(data[1] % 8, pieces.size());
    Sidecar sidecar = kSound;
    std::vector<std::byte> section = find_section(sidecar, ec::kTag)->bytes;
    patch(std::span(pieces).first(of_model), &section);
    set_section(&sidecar, {ec::kTag, std::move(section)});
    const auto model = ec::Model::of(sidecar);
    if (!model.ok()) {
        QUIRE_CHECK(!model.error().message.empty(), "a failure without a message");
        return 0;
    }
    run(*model, tokens, std::span(pieces).subspan(of_model));
    return 0;
}
