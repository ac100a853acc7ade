// A GGUF file: its metadata by typed key and its tensors by name, with every access checked.
//
// The metadata is parsed by ggml; tensor bytes are read with pread, never mapped, so that a file
// that shrinks under a running process is an error and not a signal. Immutable after open(); any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

struct gguf_context;

namespace quire {

struct GgufTensor {
    std::string name;
    int32_t type = 0;       // ggml_type
    int64_t shape[4] = {};  // ggml order: the row length first
    uint64_t file_offset = 0;
    uint64_t bytes = 0;
};

class GgufFile {
 public:
    // io: the file cannot be opened or read; invalid: not GGUF; corrupt: truncated (the message
    // says how many bytes are missing).
    static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
    ~GgufFile();
    GgufFile(const GgufFile&) = delete;
    GgufFile& operator=(const GgufFile&) = delete;

    const std::string& path() const { return path_; }
    uint64_t file_bytes() const { return file_bytes_; }

    // Absent or of another type: nullopt. Any integer type is accepted for an integer.
    std::optional<int64_t> integer(const std::string& key) const;
    std::optional<double> number(const std::string& key) const;
    std::optional<bool> boolean(const std::string& key) const;
    std::optional<std::string> text(const std::string& key) const;
    std::optional<std::vector<bool>> booleans(const std::string& key) const;
    // Each up to its first NUL, which is as far as libllama reads.
    std::optional<std::vector<std::string>> texts(const std::string& key) const;
    // Elements of an array of any type; 0 when absent.
    size_t array_size(const std::string& key) const;

    std::span<const GgufTensor> tensors() const { return tensors_; }
    // nullptr when there is none of that name.
    const GgufTensor* find(const std::string& name) const;
    // Reads the whole tensor. REQUIRES: out.size() == tensor.bytes.
    Status read(const GgufTensor& tensor, std::span<std::byte> out) const;

 private:
    GgufFile() = default;
    Status load_tensor_table();

    std::string path_;
    int fd_ = -1;
    uint64_t file_bytes_ = 0;
    gguf_context* gguf_ = nullptr;
    std::vector<GgufTensor> tensors_;
};

}  // namespace quire
