// Damaged vocabularies: whatever the bytes, opening one is an answer and never the end of the
// process. Each file is opened in a child, so that a crash is a failed test that names its seed.
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include <gguf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/model/gguf_file.h"
#include "engine/model/tiny_model.h"
#include "engine/model/vocab.h"

namespace quire {
namespace {

#ifdef QUIRE_SANITIZED
constexpr int kTinySeeds = 300;
constexpr int kRealSeeds = 4;
#else
constexpr int kTinySeeds = 1500;
constexpr int kRealSeeds = 12;
#endif

// A scratch file that goes with the test.
class VocabFile {
 public:
    VocabFile() : path_(testing::TempDir() + "quire_vocab_XXXXXX") { close(mkstemp(path_.data())); }
    ~VocabFile() { unlink(path_.c_str()); }
    const std::string& path() const { return path_; }
    // `file_bytes` long; what is not in `head` is a hole.
    void write(const std::string& head, uint64_t file_bytes) const {
        std::ofstream(path_, std::ios::binary | std::ios::trunc) << head;
        ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(file_bytes)), 0);
    }

 private:
    std::string path_;
};

std::string head_of(const std::string& path, uint64_t bytes) {
    std::string head(bytes, '\0');
    std::ifstream(path, std::ios::binary).read(head.data(), static_cast<std::streamsize>(bytes));
    return head;
}

// A small vocabulary with every list that libllama reads.
std::string tiny_vocab(const std::string& kind) {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<int32_t> types = {2, 3, 3};
    for (int byte = 0; byte < 256; ++byte) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        tokens.emplace_back(name);
        types.push_back(6);
    }
    for (char a = 'a'; a <= 'z'; ++a) tokens.emplace_back(1, a);
    for (char a = 'a'; a <= 'y'; ++a) tokens.push_back({a, static_cast<char>(a + 1)});
    tokens.insert(tokens.end(), {"\xC4\xA0", "\xC4\x8A", "\xE2\x96\x81"});
    types.resize(tokens.size(), 1);
    const std::vector<float> scores(tokens.size(), -1.0f);
    std::vector<std::string> merges;
    for (char a = 'a'; a <= 'y'; ++a) merges.push_back({a, ' ', static_cast<char>(a + 1)});

    gguf_context* gguf = gguf_init_empty();
    const auto strings = [&](const char* key, const std::vector<std::string>& list) {
        std::vector<const char*> pointers;
        for (const std::string& s : list) pointers.push_back(s.c_str());
        gguf_set_arr_str(gguf, key, pointers.data(), pointers.size());
    };
    gguf_set_val_str(gguf, "general.architecture", "llama");
    gguf_set_val_str(gguf, "tokenizer.ggml.model", kind.c_str());
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", "smollm");
    strings("tokenizer.ggml.tokens", tokens);
    if (kind == "gpt2") strings("tokenizer.ggml.merges", merges);
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(),
                      scores.size());
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(),
                      types.size());
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_str(gguf, "tokenizer.chat_template", "{{ messages }}");
    const VocabFile scratch;
    EXPECT_TRUE(gguf_write_to_file(gguf, scratch.path().c_str(), true));
    gguf_free(gguf);
    std::ifstream file(scratch.path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// What a server does with a vocabulary. False: an error that is not one line.
bool use(const std::string& path) {
    const auto vocab = Vocab::open(path);
    if (!vocab.ok()) return vocab.error().message.find('\n') == std::string::npos;
    for (const bool special : {false, true})
        (void)(*vocab)->tokenize("Once upon </s> abc\n\xF0\x9F\x98\x80 de", special);
    std::vector<TokenId> all;
    for (TokenId t = 0; t < (*vocab)->size(); ++t) all.push_back(t);
    (void)(*vocab)->detokenize(all);
    (void)(*vocab)->label((*vocab)->eos());
    return true;
}

// Runs seeds [1, count] in children; a child that dies is followed by one that goes on behind it.
void run_seeds(int count, const std::function<bool(int)>& one) {
    auto* seed = static_cast<int*>(
        mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(seed, MAP_FAILED);
    for (int from = 1; from <= count; from = *seed + 1) {
        *seed = from;
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            for (; *seed <= count; ++*seed)
                if (!one(*seed)) _exit(1);
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
            << "seed " << *seed << " ended with status " << status;
    }
    munmap(seed, sizeof(int));
}

// Overwrites some bytes: with zeros, ones, noise, or what stands elsewhere.
std::string damaged_copy(std::string head, int seed) {
    std::mt19937 rng(static_cast<uint32_t>(seed));
    for (uint32_t n = 1 + rng() % 3; n > 0; --n) {
        const size_t at = 4 + rng() % (head.size() - 4);
        const size_t length = std::min<size_t>(1 + rng() % 8, head.size() - at);
        switch (rng() % 4) {
            case 0:
                std::memset(&head[at], 0, length);
                break;
            case 1:
                std::memset(&head[at], 0xFF, length);
                break;
            case 2:
                head[at] = static_cast<char>(rng());
                break;
            default:
                head.replace(at, length, head, rng() % (head.size() - length), length);
        }
    }
    return head;
}

class TinyVocab : public testing::TestWithParam<const char*> {};

TEST_P(TinyVocab, OpensAndTokenizesUndamaged) {
    const std::string head = tiny_vocab(GetParam());
    const VocabFile scratch;
    scratch.write(head, head.size());
    const auto vocab = Vocab::open(scratch.path());
    ASSERT_TRUE(vocab.ok()) << vocab.error().message;
    const std::string back = (*vocab)->detokenize(*(*vocab)->tokenize("abc", false));
    EXPECT_TRUE(back.ends_with("abc")) << back;
}

TEST_P(TinyVocab, NoDamageEndsTheProcess) {
    const std::string head = tiny_vocab(GetParam());
    const VocabFile scratch;
    run_seeds(kTinySeeds, [&](int seed) {
        const std::string damaged = damaged_copy(head, seed);
        scratch.write(damaged, damaged.size());
        return use(scratch.path());
    });
}

TEST_P(TinyVocab, NoLengthOfAFileEndsTheProcess) {
    const std::string head = tiny_vocab(GetParam());
    const VocabFile scratch;
    run_seeds(200, [&](int seed) {
        const size_t length = head.size() * static_cast<size_t>(seed) / 201;
        scratch.write(head.substr(0, length), length);
        return use(scratch.path());
    });
}
INSTANTIATE_TEST_SUITE_P(Kinds, TinyVocab, testing::Values("llama", "gpt2"));

TEST(VocabCheck, NamesWhatIsWrong) {
    const auto message = [](const std::string& from, const std::string& to,
                            const std::string& kind) {
        std::string head = tiny_vocab(kind);
        const size_t at = head.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        head.replace(at, to.size(), to);
        const VocabFile scratch;
        scratch.write(head, head.size());
        const auto vocab = Vocab::open(scratch.path());
        EXPECT_FALSE(vocab.ok());
        return vocab.ok() ? "" : vocab.error().message;
    };
    EXPECT_NE(message("<0x10>", "<0x20>", "gpt2").find("have the same text"), std::string::npos);
    // Libllama reads a token as far as its first NUL.
    EXPECT_NE(message("ab", std::string("a\0", 2), "gpt2").find("have the same text"),
              std::string::npos);
    EXPECT_NE(message("gpt2", "bert", "gpt2").find("'bert'"), std::string::npos);
    const std::string eos = "eos_token_id\x04" + std::string(3, '\0');
    EXPECT_NE(message(eos + "\x02", eos + "\xF0\xF0", "llama").find("eos_token_id is"),
              std::string::npos);
}

class RealVocabDamage : public testing::TestWithParam<size_t> {
 protected:
    void SetUp() override {
        const auto models = test::real_models();
        if (GetParam() >= models.size()) GTEST_SKIP() << "run tools/models fetch all first";
        const auto file = GgufFile::open(models[GetParam()]);
        ASSERT_TRUE(file.ok());
        uint64_t first = UINT64_MAX;
        for (const GgufTensor& t : (*file)->tensors()) first = std::min(first, t.file_offset);
        head_ = head_of(models[GetParam()], first);
        file_bytes_ = (*file)->file_bytes();
    }
    std::string head_;  // all but the tensors
    uint64_t file_bytes_ = 0;
};

TEST_P(RealVocabDamage, NoDamageEndsTheProcess) {
    const VocabFile scratch;
    run_seeds(kRealSeeds, [&](int seed) {
        scratch.write(damaged_copy(head_, seed), file_bytes_);
        return use(scratch.path());
    });
}

// One byte of a token zeroed, so that it becomes the same as another for who reads to the NUL.
TEST_P(RealVocabDamage, ATokenCutByANulIsFound) {
    size_t at = head_.find("tokenizer.ggml.tokens") + 100;
    const VocabFile scratch;
    for (int cut = 0; cut < 3; ++at) {
        if (!std::isalpha(head_[at]) || !std::isalpha(head_[at + 1])) continue;
        std::string damaged = head_;
        damaged[++at] = '\0';
        scratch.write(damaged, file_bytes_);
        const auto vocab = Vocab::open(scratch.path());
        if (!vocab.ok()) {
            EXPECT_EQ(vocab.code(), Code::corrupt);
            EXPECT_NE(vocab.error().message.find("damaged"), std::string::npos);
        }
        at += 5000;
        ++cut;
    }
}
INSTANTIATE_TEST_SUITE_P(Models, RealVocabDamage, testing::Values(0, 1));

}  // namespace
}  // namespace quire
