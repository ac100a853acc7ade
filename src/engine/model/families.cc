#include "engine/model/hparams.h"

namespace quire {

// To support another dense decoder, add a row; a new kind of difference is a new column.
std::span<const Family> families() {
    static constexpr Family kFamilies[] = {
        {.name = "llama", .rope = RopeStyle::pairs, .activation = Activation::silu},
        {.name = "qwen2",
         .rope = RopeStyle::halves,
         .activation = Activation::silu,
         .qkv_bias = true},
        {.name = "qwen3",
         .rope = RopeStyle::halves,
         .activation = Activation::silu,
         .qk_norm = true},
        {.name = "gemma3",
         .rope = RopeStyle::halves,
         .activation = Activation::gelu,
         .qk_norm = true,
         .post_norms = true,
         .scale_embedding = true,
         .window_period = 6,
         .window_rope_base = 10000.0f},
    };
    return kFamilies;
}

}  // namespace quire
