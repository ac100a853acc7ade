// A whole conversation by script against a server with a scripted engine.
#include <sstream>

#include <gtest/gtest.h>

#include "apps/quire/chat/chat_session.h"
#include "server/test_server.h"

namespace quire {
namespace {

std::string chat(server::TestServer& t, const std::string& input, ChatSettings settings = {}) {
    std::istringstream in(input);
    std::ostringstream out, err;
    std::atomic<bool> stop{false};
    settings.prompts = false;
    settings.max_tokens = 3;
    ChatSession session(t.client(), settings, {in, out, err}, stop);
    const bool well = session.run();
    EXPECT_EQ(well, err.str().empty()) << err.str();
    EXPECT_EQ(out.str().find("error"), std::string::npos) << out.str();
    return out.str() + err.str();
}

TEST(Chat, StreamsAnswersAndKeepsTheConversation) {
    server::TestServer t;
    const std::string out = chat(t, "hello\nagain\n", {.system = "be kind"});
    EXPECT_NE(out.find("one two three\none two three"), std::string::npos) << out;
    const auto requests = t.engine.requests();
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(t.engine.detokenize(requests[1].prompt),
              "<system>be kind\n<user>hello\n<assistant>one two three\n<user>again\n<assistant>");
}

TEST(Chat, CommandsAnswer) {
    server::TestServer t;
    const std::string out =
        chat(t, "/stats\n/help\nhello\n/stats\n/explain\n/reset\n/nonsense\n/system\n/quit\nlost");
    EXPECT_NE(out.find("nothing was answered yet"), std::string::npos) << out;
    EXPECT_NE(out.find("/explain"), std::string::npos);
    EXPECT_NE(out.find("first token after 3.5 ms"), std::string::npos) << out;
    EXPECT_NE(out.find("tokens would come from the cache"), std::string::npos);
    EXPECT_NE(out.find("there is no command /nonsense"), std::string::npos);
    EXPECT_NE(out.find("(none)"), std::string::npos);
    EXPECT_EQ(t.engine.requests().size(), 1u);  // nothing after /quit
    EXPECT_EQ(out.find('\033'), std::string::npos);
}

TEST(Chat, AnErrorLeavesTheConversationAsItWas) {
    server::TestServer t;
    t.engine.refuse(make_error(Code::busy, "the queue is full"));
    const std::string out = chat(t, "hello\n/explain\n");
    EXPECT_NE(out.find("error: the queue is full"), std::string::npos) << out;
    EXPECT_NE(out.find("say something first"), std::string::npos) << out;
}

TEST(Chat, NoServerIsAnError) {
    std::istringstream in("hello\n");
    std::ostringstream out, err;
    std::atomic<bool> stop{false};
    ChatSession session(server::HttpClient({"127.0.0.1", 1, ""}, ""), {}, {in, out, err}, stop);
    EXPECT_FALSE(session.run());
    EXPECT_NE(err.str().find("error: connecting to 127.0.0.1:1"), std::string::npos) << err.str();
    EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace quire
