// Which names each option of codecs takes, and what is said of a name that it does not take.
//
// Pages of a running model are written as `--kv-codec`, `--kv-codec-allow` and a request's kv_codec
// say; slabs at rest are packed as `--kv-codec-host` and `--kv-codec-cold` say. All other codecs
// are there to be judged. Pure; any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "codec/codec.h"

namespace quire::codec {

struct CodecUses {
    bool pages = false;
    bool packing = false;
};
CodecUses uses_of(const CodecRow& row);

// Both say ok to what is no codec at all: "", and "raw16" and "none" where they mean that.
// Otherwise the message says who takes the name, or suggests what may be given. invalid: no such
// codec, or one of packings; unsupported: one whose pages attention does not read.
Status check_page_codec(const std::string& name);
// invalid: no such packing, bits out of range, or a codec of pages.
Status check_packing(const std::string& name);

}  // namespace quire::codec
