// ec's section of a sidecar.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "codec/ec/ec.h"

namespace quire::codec::ec {
namespace {

Error damaged(const char* why) {
    return make_error(
        Code::corrupt,
        fmt::format("the sidecar's section for ec {}; `quire calibrate` writes it anew", why));
}

class Writer {
 public:
    template <typename T>
    void put(const T* values, size_t n) {
        const size_t at = bytes.size();
        bytes.resize(at + n * sizeof(T));
        if (n > 0) std::memcpy(bytes.data() + at, values, n * sizeof(T));
    }
    std::vector<std::byte> bytes;
};

class Reader {
 public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
    // false: too few bytes.
    template <typename T>
    bool get(T* values, size_t n) {
        if (bytes_.size() - at_ < n * sizeof(T)) return false;
        if (n > 0) std::memcpy(values, bytes_.data() + at_, n * sizeof(T));
        at_ += n * sizeof(T);
        return true;
    }
    bool at_end() const { return at_ == bytes_.size(); }

 private:
    std::span<const std::byte> bytes_;
    size_t at_ = 0;
};

bool finite(const std::vector<float>& numbers) {
    for (const float x : numbers)
        if (!std::isfinite(x)) return false;
    return true;
}

Status read_classes(Reader* reader, std::vector<ClassModel>* classes) {
    classes->resize(kClasses);
    for (ClassModel& one : *classes) {
        if (!reader->get(one.frequencies.data(), kSymbols) || !reader->get(&one.shrink_one, 1) ||
            !reader->get(&one.shrink_more, 1))
            return damaged("is cut short");
        uint32_t sum = 0;
        for (const uint16_t f : one.frequencies) {
            if (f == 0) return damaged("has a symbol that cannot be coded");
            sum += f;
        }
        if (sum != kProbabilities) return damaged("has frequencies that are no distribution");
        for (const float shrink : {one.shrink_one, one.shrink_more})
            if (!(std::fabs(shrink) <= 1))
                return damaged("has an integer that is far off its number");
    }
    return {};
}

// Numbers of a token in earlier layers of the same kind and window.
size_t numbers_before(const std::vector<SidecarLayer>& layers, size_t layer) {
    size_t sum = 0;
    for (size_t l = 0; l < layer; ++l)
        if (layers[l].kind == layers[layer].kind &&
            layers[l].window_tokens == layers[layer].window_tokens)
            sum += size_t{2} * layers[l].kv_heads * layers[l].head_dim;
    return sum;
}

// `decoded`: numbers of a token that are decoded before the head is.
Status read_head(Reader* reader, uint32_t head_dim, const float* mean, size_t decoded,
                 HeadModel* head) {
    uint32_t inputs = 0;
    head->head_dim = head_dim;
    head->mean.assign(mean, mean + head_dim);
    head->components.resize(size_t{head_dim} * head_dim);
    head->restore.resize(head->components.size());
    head->spreads.resize(head_dim);
    head->deviations.resize(head_dim);
    if (!reader->get(&head->step, 1) || !reader->get(&inputs, 1) ||
        !reader->get(head->spreads.data(), head_dim) ||
        !reader->get(head->deviations.data(), head_dim) ||
        !reader->get(head->components.data(), head->components.size()) ||
        !reader->get(head->restore.data(), head->restore.size()))
        return damaged("is cut short");
    if (inputs > decoded) return damaged("predicts from what is not decoded yet");
    head->weights.resize(size_t{inputs} * head_dim);
    if (!reader->get(head->weights.data(), head->weights.size())) return damaged("is cut short");
    if (!(std::isfinite(head->step) && head->step > 0)) return damaged("has a step that is none");
    if (!finite(head->weights) || !finite(head->components) || !finite(head->restore) ||
        !finite(head->deviations) || !finite(head->spreads))
        return damaged("has a number that is not finite");
    for (const auto* deviations : {&head->spreads, &head->deviations})
        if (std::ranges::any_of(*deviations, [](float x) { return x < 0; }))
            return damaged("has a deviation below 0");
    return {};
}

}  // namespace

void Model::store(Sidecar* sidecar) const {
    Writer writer;
    for (const ClassModel& one : classes) {
        writer.put(one.frequencies.data(), kSymbols);
        writer.put(&one.shrink_one, 1);
        writer.put(&one.shrink_more, 1);
    }
    for (const auto* side : {&k, &v})
        for (const std::vector<HeadModel>& layer : *side)
            for (const HeadModel& head : layer) {
                const auto inputs = static_cast<uint32_t>(head.weights.size() / head.head_dim);
                writer.put(&head.step, 1);
                writer.put(&inputs, 1);
                writer.put(head.spreads.data(), head.spreads.size());
                writer.put(head.deviations.data(), head.deviations.size());
                writer.put(head.components.data(), head.components.size());
                writer.put(head.restore.data(), head.restore.size());
                writer.put(head.weights.data(), head.weights.size());
            }
    set_section(sidecar, {kTag, std::move(writer.bytes)});
}

Result<Model> Model::of(const Sidecar& sidecar) {
    const SidecarSection* section = find_section(sidecar, kTag);
    if (section == nullptr || sidecar.k_mean_before.empty() || sidecar.v_mean.empty())
        return make_error(Code::miss, "the sidecar has nothing for ec; `quire calibrate` adds it");
    Model model;
    Reader reader(section->bytes);
    QUIRE_TRY(read_classes(&reader, &model.classes));
    model.layers = sidecar.layers;
    const std::pair<std::vector<std::vector<HeadModel>>*, const std::vector<float>*> sides[] = {
        {&model.k, &sidecar.k_mean_before}, {&model.v, &sidecar.v_mean}};
    for (const auto& [side, means] : sides) {
        const float* mean = means->data();
        for (size_t l = 0; l < sidecar.layers.size(); ++l) {
            const SidecarLayer& layer = sidecar.layers[l];
            const size_t width = size_t{layer.kv_heads} * layer.head_dim;
            size_t decoded = numbers_before(sidecar.layers, l) + (side == &model.v ? width : 0);
            std::vector<HeadModel>& heads = side->emplace_back(layer.kv_heads);
            for (HeadModel& head : heads) {
                QUIRE_TRY(read_head(&reader, layer.head_dim, mean, decoded, &head));
                mean += layer.head_dim;
                decoded += layer.head_dim;
            }
        }
    }
    if (!reader.at_end()) return damaged("goes on after its last head");
    return model;
}

}  // namespace quire::codec::ec
