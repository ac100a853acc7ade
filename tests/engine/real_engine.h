// An engine on a real model, and requests to it, for tests. Header only.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tier/testing/temp_dir.h"

namespace quire::testing {

inline constexpr const char* kModels[] = {"SmolLM2-135M-Instruct.Q4_1.gguf",
                                          "gemma-3-270m-q4_k_m.gguf"};

inline std::string model_path(const std::string& file) {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    const std::string root = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
    return root + "/quire/models/" + file;
}

inline std::string some_text(size_t bytes, size_t offset = 0) {
    std::ifstream file("LICENSE");
    std::stringstream text;
    text << file.rdbuf();
    std::string all = text.str();
    while (all.size() < offset + bytes) all += all;
    return all.substr(offset, bytes);
}

struct Reply {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;  // one per token when asked for
    std::string text;
    Finish finish = Finish::none;
    std::optional<Error> error;
    RequestTiming timing;
};

// A request in flight, and its reply when it is over.
class Pending {
 public:
    Pending(Engine& engine, GenerateRequest request) {
        auto id = engine.submit(std::move(request), [this](GenerateEvent&& event) {
            std::lock_guard lock(mutex_);
            reply_.tokens.insert(reply_.tokens.end(), event.tokens.begin(), event.tokens.end());
            for (const TokenLogprob& row : event.logprobs) reply_.logprobs.push_back(row.logprob);
            reply_.text += event.text;
            if (event.finish == Finish::none) {
                changed_.notify_all();
                return;
            }
            EXPECT_EQ(reply_.finish, Finish::none) << "two last events";
            reply_.finish = event.finish;
            reply_.error = event.error;
            reply_.timing = event.timing;
            changed_.notify_all();
        });
        EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().message);
        if (id.ok()) id_ = *id;
    }
    Reply wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return reply_.finish != Finish::none; });
        return reply_;
    }
    void wait_tokens(size_t n) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock,
                      [&] { return reply_.tokens.size() >= n || reply_.finish != Finish::none; });
    }
    RequestId id() const { return id_; }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    Reply reply_;
    RequestId id_ = 0;
};

// A model's file, and the codec of its pages.
struct EngineCase {
    const char* file;
    const char* codec = "raw16";
    uint32_t recent_tokens = 64;
};

class RealEngineTest : public ::testing::TestWithParam<EngineCase> {
 protected:
    EngineOptions options() const {
        EngineOptions options;
        options.model_path = model_path(GetParam().file);
        options.kv_memory_bytes = uint64_t{512} << 20;
        options.host_memory_bytes = uint64_t{512} << 20;
        options.disk_dir = dir_.path() + "/kv";
        options.disk_bytes = uint64_t{1} << 30;
        options.kv_codec = GetParam().codec;
        options.kv_recent_tokens = GetParam().recent_tokens;
        return options;
    }
    void open(const EngineOptions& with) {
        engine_.reset();
        auto opened = open_engine(with);
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        engine_ = std::move(opened).value();
    }
    GenerateRequest greedy(const std::string& text, uint32_t max_tokens) const {
        GenerateRequest request;
        auto tokens = engine_->tokenize(text, true, {});
        EXPECT_TRUE(tokens.ok());
        request.prompt = *tokens;
        request.max_tokens = max_tokens;
        request.sampling.temperature = 0;
        request.sampling.ignore_eos = true;
        return request;
    }
    Reply run(const std::string& text, uint32_t max_tokens) {
        return Pending(*engine_, greedy(text, max_tokens)).wait();
    }
    // Two rounds through the engine's thread: after them its figures are of an idle moment.
    void expect_idle() {
        for (int i = 0; i < 2; ++i) EXPECT_TRUE(engine_->explain({1}, "", "", "").ok());
        const EngineStats stats = engine_->stats();
        EXPECT_EQ(stats.running + stats.waiting, 0u);
        EXPECT_EQ(stats.cache.leases, 0u);
        EXPECT_EQ(stats.cache.pending_loads, 0u);
    }

    TempDir dir_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace quire::testing
