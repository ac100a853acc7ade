#include "rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Rule names of the findings, in order.
std::vector<std::string> rules_of(const std::vector<Finding>& findings) {
    std::vector<std::string> rules;
    for (const Finding& finding : findings) rules.push_back(finding.rule);
    return rules;
}

std::vector<std::string> layout(std::string path, std::string_view content) {
    return rules_of(check_layout(make_source(std::move(path), content)));
}

std::vector<std::string> calls(std::string_view content, std::string path = "src/core/x.cc") {
    return rules_of(check_calls(make_source(std::move(path), content)));
}

std::string lines(int count, const std::string& line = "    f();\n") {
    std::string text;
    for (int i = 0; i < count; ++i) text += line;
    return text;
}

TEST(Layout, AcceptsAPlainHeader) {
    EXPECT_THAT(layout("src/core/x.h", "#pragma once\nint f();\n"), IsEmpty());
}

TEST(Layout, FindsLongLinesTabsAndTrailingBlanks) {
    EXPECT_THAT(layout("a.cc", std::string(100, 'a') + "\n"), IsEmpty());
    EXPECT_THAT(layout("a.cc", std::string(101, 'a') + "\n"), ElementsAre("columns"));
    EXPECT_THAT(layout("a.cc", "\tint a;\n"), ElementsAre("tab"));
    EXPECT_THAT(layout("a.cc", "int a; \n"), ElementsAre("trailing"));
    EXPECT_THAT(layout("a.cc", "int a;\r\n"), ElementsAre("trailing"));
    EXPECT_THAT(layout("a.h", "int a;\n"), ElementsAre("pragma-once"));
}

TEST(Layout, CountsColumnsNotBytes) {
    std::string line = "// ";
    for (int i = 0; i < 97; ++i) line += "\xE2\x86\x92";  // an arrow, three bytes
    EXPECT_THAT(layout("a.cc", line + "\n"), IsEmpty());
}

TEST(Layout, ProseMayBeWideAndMakefilesNeedTabs) {
    EXPECT_THAT(layout("README.md", std::string(300, 'a') + "\n"), IsEmpty());
    EXPECT_THAT(layout("Makefile", "all:\n\ttrue\n"), IsEmpty());
}

TEST(Layout, FindsLongFiles) {
    EXPECT_THAT(layout("a.cc", lines(800)), IsEmpty());
    EXPECT_THAT(layout("a.cc", lines(801)), ElementsAre("file-length"));
}

TEST(Layout, AWaiverNeedsItsRuleAndAReason) {
    std::string wide = std::string(101, 'a') + "\n";
    EXPECT_THAT(layout("a.cc", "// tidy: allow(columns): a table reads better\n" + wide),
                IsEmpty());
    EXPECT_THAT(layout("a.cc", "// tidy: allow(columns): \n" + wide),
                ElementsAre("trailing", "columns"));
    EXPECT_THAT(layout("a.cc", "// tidy: allow(tab): other rule\n" + wide), ElementsAre("columns"));
}

std::vector<std::string> functions(std::string_view content) {
    return rules_of(check_functions(make_source("src/core/x.cc", content)));
}

TEST(Functions, CountsFromTheDeclarationToTheClosingBrace) {
    EXPECT_THAT(functions("void g() {\n" + lines(68) + "}\n"), IsEmpty());
    EXPECT_THAT(functions("void g() {\n" + lines(69) + "}\n"), ElementsAre("function-length"));
}

TEST(Functions, LooksInsideNamespacesAndClasses) {
    std::string body = lines(70);
    EXPECT_THAT(
        functions("namespace a::b {\nclass C : public D<int> {\n public:\n  void g() const {\n" +
                  body + "}\n};\n}\n"),
        ElementsAre("function-length"));
    EXPECT_THAT(functions("template <class T>\nstruct S {\n" + lines(90, "    int a;\n") + "};\n"),
                IsEmpty());
    EXPECT_THAT(functions("template <class T>\nT g(T t) {\n" + body + "}\n"),
                ElementsAre("function-length"));
}

TEST(Functions, AConstructorsInitialisersAreNotItsBody) {
    EXPECT_THAT(functions("C::C(int a)\n    : a_{a}, b_{a} {\n" + lines(70) + "}\n"),
                ElementsAre("function-length"));
    EXPECT_THAT(functions("C::C(int a) : a_{a} {}\nvoid g() {\n" + lines(60) + "}\n"), IsEmpty());
}

TEST(Functions, TablesAreNotFunctions) {
    EXPECT_THAT(functions("constexpr Row kRows[] = {\n" + lines(90, "    {f(1), 2},\n") + "};\n"),
                IsEmpty());
}

TEST(Functions, BracesInTextAndCommentsDoNotCount) {
    EXPECT_THAT(functions("void g() {  // {\n    s = \"{\"; c = '{';\n    r = R\"x({{)x\";\n}\n"
                          "void h() {\n" +
                          lines(60) + "}\n"),
                IsEmpty());
}

std::vector<std::string> includes(std::string path, std::string_view content,
                                  std::vector<std::string> paths = {}) {
    return rules_of(check_includes(make_source(std::move(path), content), paths));
}

TEST(Includes, PointUpTheLayerListOnly) {
    EXPECT_THAT(includes("src/tier/x.h", "#include \"format/slab.h\"\n"), IsEmpty());
    EXPECT_THAT(includes("src/format/x.h", "#include \"tier/tier.h\"\n"), ElementsAre("layer"));
    EXPECT_THAT(includes("src/base/x.h", "#include \"core/tier.h\"\n"), ElementsAre("layer"));
    EXPECT_THAT(includes("src/codec/x.h", "#include \"kernels/attention.h\"\n"),
                ElementsAre("layer"));
    EXPECT_THAT(includes("src/odd/x.h", ""), ElementsAre("layer"));
    EXPECT_THAT(includes("apps/quire/main.cc", "#include \"server/server.h\"\n"), IsEmpty());
}

TEST(Includes, FrameworksStayInTheirLayer) {
    EXPECT_THAT(includes("src/kernels/x.cc", "#include <ggml.h>\n"), ElementsAre("framework"));
    EXPECT_THAT(includes("src/engine/x.cc", "#include <ggml.h>\n"), IsEmpty());
    EXPECT_THAT(includes("src/kernels/x_test.cc", "#include <ggml.h>\n"), IsEmpty());
    EXPECT_THAT(includes("src/engine/x.cc", "#include <boost/beast/core.hpp>\n"),
                ElementsAre("framework"));
}

TEST(Includes, TheOwnHeaderComesFirst) {
    std::vector<std::string> paths = {"src/core/x.h"};
    EXPECT_THAT(includes("src/core/x.cc", "#include \"core/x.h\"\n#include <vector>\n", paths),
                IsEmpty());
    EXPECT_THAT(includes("src/core/x.cc", "#include <vector>\n#include \"core/x.h\"\n", paths),
                ElementsAre("own-header"));
}

TEST(Calls, FindsWhatIsBanned) {
    EXPECT_THAT(calls("    printf(\"x\");\n"), ElementsAre("printf"));
    EXPECT_THAT(calls("    std::abort();\n"), ElementsAre("abort"));
    EXPECT_THAT(calls("    return getenv(name);\n"), ElementsAre("getenv"));
    EXPECT_THAT(calls("    auto* p = new Thing();\n"), ElementsAre("new"));
    EXPECT_THAT(calls("    delete p;\n"), ElementsAre("delete"));
    EXPECT_THAT(calls("    std::thread worker(run);\n"), ElementsAre("thread"));
    EXPECT_THAT(calls("    std::cout << 1;\n"), ElementsAre("cout"));
    EXPECT_THAT(calls("    ::usleep(1);\n"), ElementsAre("usleep"));
}

TEST(Calls, LeavesLookAlikesAlone) {
    EXPECT_THAT(calls("    C(const C&) = delete;\n"), IsEmpty());
    EXPECT_THAT(calls("    // printf(1), new, delete\n    log(\"new thread: abort()\");\n"),
                IsEmpty());
    EXPECT_THAT(calls("    snprintf(a, b, c);\n    renew(x);\n    loop.exit();\n"), IsEmpty());
    EXPECT_THAT(calls("    new (storage) Thing();\n"), IsEmpty());
    EXPECT_THAT(calls("    return std::unique_ptr<Thing>(new Thing(1));\n"), IsEmpty());
    EXPECT_THAT(calls("    return std::unique_ptr<Thing>(\n        new Thing(1));\n"), IsEmpty());
    EXPECT_THAT(calls("    void operator()(void* p) const { std::free(p); }\n"), IsEmpty());
    EXPECT_THAT(calls("    std::thread::id owner;\n"), IsEmpty());
    EXPECT_THAT(calls("    int thread = 0;\n    run(thread);\n"), IsEmpty());
    EXPECT_THAT(calls("    Status system(int x);\n"), IsEmpty());
}

TEST(Calls, HoldWhereTheyShould) {
    EXPECT_THAT(calls("    std::abort();\n", "src/base/check.cc"), IsEmpty());
    EXPECT_THAT(calls("    printf(\"x\");\n", "apps/quire/main.cc"), IsEmpty());
    EXPECT_THAT(calls("    std::thread t(f);\n", "src/core/x_test.cc"), IsEmpty());
    EXPECT_THAT(calls("    sleep_for(1s);\n", "src/core/x_test.cc"), ElementsAre("sleep_for"));
    EXPECT_THAT(calls("    // tidy: allow(new): handed to a C library\n    new T;\n"), IsEmpty());
}

std::vector<std::string> words_in(std::string_view content) {
    return rules_of(check_words(make_source("docs/x.md", content)));
}

TEST(Words, FindsReviewMarksPathsAndHosts) {
    EXPECT_THAT(words_in("// TO"
                         "DO: later\n"),
                ElementsAre("review-mark"));
    EXPECT_THAT(words_in("mastodon, TO"
                         "DOS\n"),
                IsEmpty());
    EXPECT_THAT(words_in("see /ro"
                         "ot/x\n"),
                ElementsAre("machine-path"));
    EXPECT_THAT(words_in("see build/wo"
                         "rk/x\n"),
                IsEmpty());
    EXPECT_THAT(words_in("https://pypi"
                         ".org/simple\n"),
                ElementsAre("registry"));
}

TEST(Paths, DocumentsNameWhatExists) {
    std::vector<std::string> paths = {"src/core/x.h"};
    auto check = [&](std::string_view text) {
        return rules_of(check_paths(make_source("A.md", text), paths));
    };
    EXPECT_THAT(check("see `src/core/x.h` and `src/core/`, or `tools/x --flag`, `src/<layer>/`\n"),
                IsEmpty());
    EXPECT_THAT(check("see `src/core/y.h`\n"), ElementsAre("dead-path"));
    EXPECT_THAT(check("`a` see `src/odd/`\n"), ElementsAre("dead-path"));
}

TEST(Targets, EverySourceIsNamedByACMakeFile) {
    std::vector<Source> sources;
    sources.push_back(
        make_source("src/core/CMakeLists.txt", "f(SOURCES a.cc cpu/b.cc ../base/d.cc) # c.cc\n"));
    for (const char* path :
         {"src/base/d.cc", "src/core/a.cc", "src/core/cpu/b.cc", "src/core/c.cc"}) {
        sources.push_back(make_source(path, "int a;\n"));
    }
    std::vector<Finding> findings = check_targets(sources);
    ASSERT_THAT(rules_of(findings), ElementsAre("no-target"));
    EXPECT_EQ(findings[0].path, "src/core/c.cc");
}

}  // namespace
}  // namespace quire::tidy
