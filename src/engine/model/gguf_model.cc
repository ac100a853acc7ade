#include "engine/model/gguf_model.h"

#include <algorithm>

#include <ggml-cpu.h>
#include <ggml.h>

#include "base/check.h"
#include "base/hash.h"

namespace quire {

Result<std::unique_ptr<GgufModel>> GgufModel::open(const std::string& path) {
    ggml_cpu_init();
    auto file = GgufFile::open(path);
    if (!file) return file.error();
    std::unique_ptr<GgufModel> model(new GgufModel);
    model->path_ = path;
    model->file_bytes_ = (*file)->file_bytes();
    auto hparams = HParams::from_gguf(**file);
    if (!hparams) return hparams.error();
    model->hparams_ = std::move(hparams).value();
    QUIRE_TRY(model->kv_layout(16).validate());
    auto weights = Weights::load(**file, model->hparams_);
    if (!weights) return weights.error();
    model->weights_ = std::move(weights).value();
    QUIRE_TRY(model->probe_all());

    const std::string identity = "quire numerics " + std::to_string(kNumericsVersion) + '\n' +
                                 model->hparams_.identity() + '\n' +
                                 model->weights_->kv_digest().to_hex();
    const Digest128 d = sha256_128(std::as_bytes(std::span(identity)));
    model->id_ = ModelId{{d.hi, d.lo}};
    return model;
}

std::vector<const ggml_tensor*> GgufModel::matrices() const {
    std::vector<const Projection*> all = {&weights_->head()};
    for (int32_t i = 0; i < hparams_.n_layers; ++i) {
        const LayerWeights& layer = weights_->layer(static_cast<size_t>(i));
        all.insert(all.end(), {&layer.qkv, &layer.out, &layer.gate_up, &layer.down});
    }
    std::vector<const ggml_tensor*> tensors;
    for (const Projection* p : all)
        for (const Matrix& m : p->parts)
            if (m.ggml != nullptr) tensors.push_back(m.ggml);
    return tensors;
}

Status GgufModel::probe_all() {
    for (const ggml_tensor* t : matrices()) {
        const bool known = std::any_of(shapes_.begin(), shapes_.end(), [&](const Shape& s) {
            return s.type == t->type && s.n_in == t->ne[0] && s.n_out == t->ne[1];
        });
        if (known) continue;
        const auto traits = probe_matmul(t);
        if (!traits) return traits.error();
        shapes_.push_back({t->type, t->ne[0], t->ne[1], *traits});
        min_rows_ = std::max(min_rows_, traits->min_rows);
    }
    return {};
}

const MatmulTraits& GgufModel::traits(const ggml_tensor* matrix) const {
    const auto it = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& s) {
        return s.type == matrix->type && s.n_in == matrix->ne[0] && s.n_out == matrix->ne[1];
    });
    QUIRE_CHECK(it != shapes_.end(), "traits() of a matrix that is not the model's");
    return it->traits;
}

}  // namespace quire
