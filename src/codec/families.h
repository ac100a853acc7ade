// The rows of codec_table(), each defined in its family's folder.
#pragma once

#include "codec/codec.h"

namespace quire::codec {

namespace raw16 {
CodecRow row();
}
namespace fp8 {
CodecRow row();
}
namespace hot {
CodecRow row();
}
namespace bx {
CodecRow row();
}
namespace fp4 {
CodecRow row();
}
namespace slots {
CodecRow row();
}
namespace turbo {
CodecRow row();
}
namespace i2c {
CodecRow row();
}
namespace split {
CodecRow row();
}

}  // namespace quire::codec
