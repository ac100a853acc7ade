// The rows of codec_table(), each defined in its family's folder.
#pragma once

#include "codec/codec.h"

namespace quire::codec {

CodecRow raw16_row();
CodecRow fp8_row();
CodecRow hot_row();

}  // namespace quire::codec
