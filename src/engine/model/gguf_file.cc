#include "engine/model/gguf_file.h"

#include <algorithm>
#include <exception>

#include <errno.h>
#include <fcntl.h>
#include <ggml.h>
#include <gguf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "engine/model/ggml_guard.h"

namespace quire {
namespace {

Error io_error(const std::string& path, const char* what, int error) {
    return make_error(Code::io, path + ": " + what + ": " + strerror(error), error);
}

// Tells "not GGUF at all" from "GGUF, but cut or damaged" before the parser sees the file.
Status check_magic(int fd, const std::string& path, uint64_t file_bytes) {
    char magic[4] = {};
    const ssize_t got = pread(fd, magic, sizeof magic, 0);
    if (got < 0) return io_error(path, "cannot read", errno);
    if (got < 4 || memcmp(magic, "GGUF", 4) != 0)
        return make_error(Code::invalid, path +
                                             " is not a GGUF model (it does not start with "
                                             "\"GGUF\"); give a .gguf file");
    if (file_bytes < 24)
        return make_error(Code::corrupt,
                          path + " is truncated: its header is cut; download it again");
    return {};
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
    std::unique_ptr<GgufFile> file(new GgufFile);
    file->path_ = path;
    const auto fd = open_regular_file(path, "the model");
    if (!fd.ok()) return fd.error();
    file->fd_ = *fd;
    struct stat info = {};
    if (fstat(file->fd_, &info) != 0) return io_error(path, "cannot stat", errno);
    file->file_bytes_ = static_cast<uint64_t>(info.st_size);
    QUIRE_TRY(check_magic(file->fd_, path, file->file_bytes_));

    try {
        const GgmlGuard guard;
        file->gguf_ = gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr});
    } catch (const std::exception&) {
        // Sizes that no memory holds, an empty key, ...: the metadata is damaged.
    }
    if (file->gguf_ == nullptr)
        return make_error(Code::corrupt, path +
                                             ": the GGUF metadata is truncated, damaged or of an "
                                             "unknown version; download the file again");
    QUIRE_TRY(file->load_tensor_table());
    return file;
}

GgufFile::~GgufFile() {
    if (gguf_ != nullptr) gguf_free(gguf_);
    if (fd_ >= 0) ::close(fd_);
}

Status GgufFile::load_tensor_table() {
    const uint64_t data_offset = gguf_get_data_offset(gguf_);
    const int64_t count = gguf_get_n_tensors(gguf_);
    for (int64_t i = 0; i < count; ++i) {
        GgufTensor tensor;
        tensor.name = gguf_get_tensor_name(gguf_, i);
        tensor.type = gguf_get_tensor_type(gguf_, i);
        const int64_t* shape = gguf_get_tensor_ne(gguf_, i);
        std::copy(shape, shape + 4, tensor.shape);
        tensor.file_offset = data_offset + gguf_get_tensor_offset(gguf_, i);
        tensor.bytes = gguf_get_tensor_size(gguf_, i);
        const uint64_t end = tensor.file_offset + tensor.bytes;
        if (end < tensor.file_offset || end > file_bytes_)
            return make_error(Code::corrupt, path_ + " is truncated: tensor " + tensor.name +
                                                 " ends at byte " + std::to_string(end) +
                                                 " of a file of " + std::to_string(file_bytes_) +
                                                 "; download it again");
        tensors_.push_back(std::move(tensor));
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
    return {};
}

const GgufTensor* GgufFile::find(const std::string& name) const {
    const auto it =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const GgufTensor& t, const std::string& n) { return t.name < n; });
    return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

Status GgufFile::read(const GgufTensor& tensor, std::span<std::byte> out) const {
    size_t done = 0;
    while (done < out.size()) {
        const ssize_t got = pread(fd_, out.data() + done, out.size() - done,
                                  static_cast<off_t>(tensor.file_offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return io_error(path_, ("cannot read tensor " + tensor.name).c_str(), errno);
        if (got == 0)
            return make_error(Code::corrupt, path_ + " shrank while it was read (tensor " +
                                                 tensor.name + "); download it again");
        done += static_cast<size_t>(got);
    }
    return {};
}

std::optional<int64_t> GgufFile::integer(const std::string& key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0) return std::nullopt;
    switch (gguf_get_kv_type(gguf_, id)) {
        case GGUF_TYPE_UINT8:
            return gguf_get_val_u8(gguf_, id);
        case GGUF_TYPE_INT8:
            return gguf_get_val_i8(gguf_, id);
        case GGUF_TYPE_UINT16:
            return gguf_get_val_u16(gguf_, id);
        case GGUF_TYPE_INT16:
            return gguf_get_val_i16(gguf_, id);
        case GGUF_TYPE_UINT32:
            return gguf_get_val_u32(gguf_, id);
        case GGUF_TYPE_INT32:
            return gguf_get_val_i32(gguf_, id);
        case GGUF_TYPE_INT64:
            return gguf_get_val_i64(gguf_, id);
        case GGUF_TYPE_UINT64:
            return static_cast<int64_t>(gguf_get_val_u64(gguf_, id));
        default:
            return std::nullopt;
    }
}

std::optional<double> GgufFile::number(const std::string& key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0) return std::nullopt;
    if (gguf_get_kv_type(gguf_, id) == GGUF_TYPE_FLOAT32) return gguf_get_val_f32(gguf_, id);
    if (gguf_get_kv_type(gguf_, id) == GGUF_TYPE_FLOAT64) return gguf_get_val_f64(gguf_, id);
    return std::nullopt;
}

std::optional<bool> GgufFile::boolean(const std::string& key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0 || gguf_get_kv_type(gguf_, id) != GGUF_TYPE_BOOL) return std::nullopt;
    return gguf_get_val_bool(gguf_, id);
}

std::optional<std::string> GgufFile::text(const std::string& key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0 || gguf_get_kv_type(gguf_, id) != GGUF_TYPE_STRING) return std::nullopt;
    return std::string(gguf_get_val_str(gguf_, id));
}

std::optional<std::vector<bool>> GgufFile::booleans(const std::string& key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0 || gguf_get_kv_type(gguf_, id) != GGUF_TYPE_ARRAY ||
        gguf_get_arr_type(gguf_, id) != GGUF_TYPE_BOOL)
        return std::nullopt;
    const auto* values = static_cast<const int8_t*>(gguf_get_arr_data(gguf_, id));
    return std::vector<bool>(values, values + gguf_get_arr_n(gguf_, id));
}

std::optional<std::vector<std::string>> GgufFile::texts(const std::string& key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0 || gguf_get_kv_type(gguf_, id) != GGUF_TYPE_ARRAY ||
        gguf_get_arr_type(gguf_, id) != GGUF_TYPE_STRING)
        return std::nullopt;
    std::vector<std::string> all;
    const size_t count = gguf_get_arr_n(gguf_, id);
    all.reserve(count);
    for (size_t i = 0; i < count; ++i) all.emplace_back(gguf_get_arr_str(gguf_, id, i));
    return all;
}

size_t GgufFile::array_size(const std::string& key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0 || gguf_get_kv_type(gguf_, id) != GGUF_TYPE_ARRAY) return 0;
    return gguf_get_arr_n(gguf_, id);
}

}  // namespace quire
