// Writing a whole file so that a reader, or a crash, sees the old one or the new one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Writes beside `path`, syncs, and renames. A file, or a link to one, that was there is replaced,
// with the permissions of a new file. invalid: the path is something else, such as a pipe; io or
// full, errno as detail; then nothing changed. `what` is the file's part in the message: "the
// sidecar". Any threads may write one path at once: one of them wins.
Status write_file_atomically(const std::string& path, std::string_view what,
                             std::span<const std::byte> bytes);

}  // namespace quire
