// quire_capture_kv MODEL.gguf TEXT_FILE OUT: K, V and queries of a model's first, middle and last
// layer over the first tokens of a text, for tests of kernels over real numbers
// (tools/gpu/run.sh capture; tests/gpu/captured_file.h has the format).
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../gpu/captured_file.h"
#include "engine/model/forward.h"
#include "engine/model/tiny_model.h"
#include "engine/model/vocab.h"

namespace quire {
namespace {

constexpr int32_t kTokens = 512, kQueries = 4;

int fail(const std::string& why) {
    fprintf(stderr, "quire_capture_kv: %s\n", why.c_str());
    return 1;
}

struct Layer {
    uint32_t number;
    std::vector<float> k, v, q;
};

// One step on one thread: nobody else calls.
class Captured final : public KvObserver, public QueryObserver {
 public:
    explicit Captured(const HParams& model) {
        header_.layers = 3;
        header_.tokens = kTokens;
        header_.kv_heads = model.n_kv_heads;
        header_.n_heads = model.n_heads;
        header_.head_dim = model.head_dim;
        header_.queries = kQueries;
        header_.scale = model.attention_scale;
        const auto last = static_cast<uint32_t>(model.n_layers - 1);
        for (const uint32_t number : {0u, last / 2, last}) {
            Layer layer{.number = number};
            layer.k.resize(header_.side_numbers());
            layer.v.resize(header_.side_numbers());
            layer.q.resize(header_.query_numbers());
            layers_.push_back(std::move(layer));
        }
    }

    void see(const KvRows& rows, int) override {
        Layer* layer = find(rows.layer);
        if (layer == nullptr) return;
        const auto d = static_cast<size_t>(header_.head_dim);
        for (int32_t i = 0; i < rows.n_rows; ++i) {
            const auto row =
                static_cast<size_t>(rows.position + i) * static_cast<size_t>(header_.kv_heads) +
                rows.kv_head;
            std::copy_n(rows.k + i * rows.stride, d, layer->k.data() + row * d);
            std::copy_n(rows.v + i * rows.stride, d, layer->v.data() + row * d);
        }
    }
    void see(uint32_t number, const kernels::AttnShape&,
             std::span<const kernels::AttnSequence> sequences) override {
        Layer* layer = find(number);
        if (layer == nullptr) return;
        const kernels::AttnSequence& s = sequences.front();
        const size_t numbers = header_.query_numbers() / kQueries;
        for (int32_t i = 0; i < kQueries; ++i)
            std::copy_n(s.q + (s.n_rows - kQueries + i) * s.q_row_stride, numbers,
                        layer->q.data() + static_cast<size_t>(i) * numbers);
    }

    bool write(const std::string& path) const {
        std::ofstream out(path, std::ios::binary);
        out.write(reinterpret_cast<const char*>(&header_), sizeof header_);
        for (const Layer& layer : layers_)
            for (const std::vector<float>* numbers : {&layer.k, &layer.v, &layer.q})
                out.write(reinterpret_cast<const char*>(numbers->data()),
                          static_cast<std::streamsize>(numbers->size() * sizeof(float)));
        return out.flush().good();
    }

 private:
    Layer* find(uint32_t number) {
        const auto at = std::find_if(layers_.begin(), layers_.end(),
                                     [&](const Layer& layer) { return layer.number == number; });
        return at == layers_.end() ? nullptr : &*at;
    }

    CapturedHeader header_;
    std::vector<Layer> layers_;
};

int capture(const std::string& model_path, const std::string& text_path, const std::string& out) {
    auto vocab = Vocab::open(model_path);
    if (!vocab) return fail(vocab.error().message);
    std::ifstream in(text_path, std::ios::binary);
    if (!in) return fail("cannot read " + text_path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    auto tokens = (*vocab)->tokenize(text, true);
    if (!tokens) return fail(tokens.error().message);
    if (tokens->size() < kTokens) return fail(text_path + " is too short");
    tokens->resize(kTokens);

    auto model = GgufModel::open(model_path);
    if (!model) return fail(model.error().message);
    Captured captured((*model)->hparams());
    ForwardConfig config;
    config.max_rows = kTokens;
    config.observer = &captured;
    config.queries = &captured;
    auto forward = Forward::create(**model, config);
    if (!forward) return fail(forward.error().message);
    test::PlainPages pages((*forward)->layout(), kTokens);
    const StepSequence s = pages.sequence(TokenSpan(*tokens), 0, kQueries);
    auto r = (*forward)->step({&s, 1});
    if (!r) return fail(r.error().message);
    return captured.write(out) ? 0 : fail("cannot write " + out);
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
    if (argc != 4) return quire::fail("usage: quire_capture_kv MODEL.gguf TEXT_FILE OUT");
    return quire::capture(argv[1], argv[2], argv[3]);
}
