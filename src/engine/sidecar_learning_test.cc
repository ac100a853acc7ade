#include "engine/sidecar_learning.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "engine/model/forward.h"
#include "engine/model/tiny_model.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using State = SidecarStatus::State;

class SidecarLearningTest : public ::testing::Test {
 protected:
    void SetUp() override {
        ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
        auto model = GgufModel::open(test::write_tiny_model({}).path);
        ASSERT_TRUE(model.ok()) << model.error().message;
        model_ = std::move(model).value();
        log::configure({.level = log::Level::info, .capture = [this](std::string_view line) {
                            const std::lock_guard lock(mutex_);
                            log_ += line;
                        }});
    }
    void TearDown() override {
        log::configure({.level = log::Level::error});
        std::filesystem::remove_all(dir_);
    }

    // One prompt of that many tokens goes through the model; what became of the file.
    SidecarStatus learn(const std::string& path, uint32_t wanted, size_t prompt_tokens) {
        SidecarLearning learning(*model_, path, wanted, 1);
        auto forward = Forward::create(*model_, {.observer = learning.observer()});
        EXPECT_TRUE(forward.ok());
        std::vector<TokenId> prompt(prompt_tokens);
        std::mt19937 rng(7);
        for (TokenId& t : prompt) t = static_cast<TokenId>(rng() % 80);
        test::PlainPages pages((*forward)->layout(), static_cast<int32_t>(prompt_tokens) + 16);
        for (size_t at = 0; at < prompt_tokens; at += 16) {
            const StepSequence s = pages.sequence(
                TokenSpan(prompt).subspan(at, std::min<size_t>(16, prompt_tokens - at)),
                static_cast<int32_t>(at), 1);
            learning.begin_step({&s, 1});
            EXPECT_TRUE((*forward)->step({&s, 1}).ok());
            learning.end_step();
        }
        learning.wait();
        return learning.status();
    }
    std::string logged() {
        const std::lock_guard lock(mutex_);
        return log_;
    }

    std::unique_ptr<GgufModel> model_;
    std::string dir_ = ::testing::TempDir() + "/quire-learning-XXXXXX";
    std::mutex mutex_;
    std::string log_;
};

TEST_F(SidecarLearningTest, WritesOnceEnoughWasSeen) {
    const std::string path = dir_ + "/m.sidecar";
    const SidecarStatus early = learn(path, 100, 80);
    EXPECT_EQ(early.state, State::learning);
    EXPECT_EQ(early.tokens_seen, 64u) << "the first 16 are no part of means";
    EXPECT_FALSE(std::filesystem::exists(path));

    const SidecarStatus done = learn(path, 100, 200);
    EXPECT_EQ(done.state, State::learned) << done.why;
    EXPECT_EQ(done.tokens_seen, 100u);
    const auto read = codec::read_sidecar(path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->hash.to_hex(), done.hash);
    EXPECT_TRUE(codec::match_sidecar(read->sidecar, model_->id(), model_->kv_layout(16)).ok());
    EXPECT_FALSE(read->sidecar.k_mean.empty() || read->sidecar.k_mean_before.empty() ||
                 read->sidecar.v_mean.empty());
    EXPECT_THAT(logged(), HasSubstr("means written to " + path + ", hash " + done.hash));
}

TEST_F(SidecarLearningTest, AFolderThatIsGoneByThenIsSaid) {
    const std::string path = dir_ + "/none/m.sidecar";
    const SidecarStatus status = learn(path, 50, 100);
    EXPECT_EQ(status.state, State::failed);
    EXPECT_THAT(status.why, HasSubstr("none/m.sidecar"));
    EXPECT_THAT(logged(), HasSubstr("serving goes on without them"));
}

TEST_F(SidecarLearningTest, AFolderThatTakesNoFilesFailsInAMessage) {
    const SidecarStatus status = learn("/proc/quire.sidecar", 50, 100);
    EXPECT_EQ(status.state, State::failed);
    EXPECT_THAT(status.why, HasSubstr("/proc/quire.sidecar"));
}

TEST_F(SidecarLearningTest, AFileThatSomebodyElseMadeStaysAsItIs) {
    const std::string path = dir_ + "/m.sidecar";
    const std::string first = learn(path, 100, 200).hash;
    const SidecarStatus second = learn(path, 60, 200);
    EXPECT_EQ(second.state, State::failed);
    EXPECT_THAT(second.why, HasSubstr("by somebody else"));
    EXPECT_EQ(codec::read_sidecar(path)->hash.to_hex(), first);
}

}  // namespace
}  // namespace quire
