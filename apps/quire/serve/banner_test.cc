#include "apps/quire/serve/banner.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Banner, NamesTheModelTheTiersAndOneLineToTry) {
    ServeOptions options;
    options.threads = 2;
    options.disk_path = "/kv";
    ModelInfo model;
    model.name = "tiny";
    model.family = "llama";
    model.context_tokens = 8192;
    CacheStatus cache;
    cache.tiers.push_back({.tier = "g1", .name = "arena", .capacity_bytes = 1 << 30});
    cache.tiers.push_back({.tier = "g3", .name = "disk", .blocks = 7});
    const std::string text = banner_text({options, model, cache, "avx2", "http://127.0.0.1:1", 5});
    for (const char* part : {"tiny (llama", "context 8192", "2 threads, avx2", "1.00 GiB",
                             "/kv, 7 blocks", "listening on http://127.0.0.1:1\n",
                             "curl http://127.0.0.1:1/v1/chat/completions -d '{\"messages\""}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    }
    EXPECT_EQ(text.find("Bearer"), std::string::npos);
    EXPECT_EQ(text.find("codec"), std::string::npos);
    model.kv_codecs[0].name = "k6v4";
    model.kv_codecs[0].sink_tokens = 64;
    model.kv_codecs[0].bytes_4096 = 4096 * 2048;
    const std::string coded = banner_text({options, model, cache, "avx2", "http://127.0.0.1:1", 5});
    EXPECT_NE(coded.find("k6v4, 64 exact sink tokens; 2.00 KiB a token"), std::string::npos)
        << coded;
    model.kv_codecs[0].exact_layers = {0, 29};
    EXPECT_NE(banner_text({options, model, cache, "avx2", "http://127.0.0.1:1", 5})
                  .find("64 exact sink tokens, exact layers 0,29; 2.00 KiB a token"),
              std::string::npos);
    model.kv_codecs.push_back({.name = "raw16", .tokens_max = 640, .bytes_4096 = 4096 * 4096});
    const std::string mixed = banner_text({options, model, cache, "avx2", "http://127.0.0.1:1", 5});
    for (const char* part : {"codec    k6v4", "allowed  raw16; 4.00 KiB a token",
                             "640 tokens a request in raw16, which its share of --kv-memory"})
        EXPECT_NE(mixed.find(part), std::string::npos) << part << "\n" << mixed;
    options.api_keys.push_back({"k", "t"});
    options.disk_path.clear();
    const std::string keyed = banner_text({options, model, {}, "avx2", "http://127.0.0.1:1", 5});
    EXPECT_NE(keyed.find("Bearer KEY"), std::string::npos);
    EXPECT_NE(keyed.find("--disk DIR keeps"), std::string::npos);
}

}  // namespace
}  // namespace quire
