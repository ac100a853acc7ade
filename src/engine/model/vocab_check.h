// Is the vocabulary in a GGUF file one that libllama can be given? It asserts what it finds there,
// and an assertion that fails ends the process.
#pragma once

#include "base/result.h"
#include "engine/model/gguf_file.h"

namespace quire {

// unsupported: no tokenizer, or of a kind that none of our model families has. corrupt: tokens that
// occur twice, lists of unequal lengths, ids outside the list; the message says which.
Status check_vocab(const GgufFile& file);

}  // namespace quire
