// Whether a file can be written where somebody named it, asked before the work whose result it is
// to hold.
#pragma once

#include <string>

#include "base/result.h"

namespace quire {

// Tries it with a file beside it, which goes away again; what is there stays as it is. io: the
// folder is missing or takes no files; invalid: it is no folder, or the path is no regular file.
// The message names the folder and says what to do.
Status check_writable_place(const std::string& path);

}  // namespace quire
