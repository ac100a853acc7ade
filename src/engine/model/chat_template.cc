#include "engine/model/chat_template.h"

#include <exception>

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>
#include <jinja/value.h>

namespace quire {
namespace {

// The engine's errors show the template's source around the fault; the reason is their last line.
std::string reason(const std::exception& e) {
    std::string text = e.what();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const size_t line = text.rfind('\n');
    return line == std::string::npos ? text : text.substr(line + 1);
}

class Missing final : public ChatTemplate {
 public:
    Result<std::string> render(const std::vector<ChatMessage>&, bool) const override {
        return make_error(Code::invalid,
                          "this model has no chat template; use text completion instead");
    }
};

class JinjaTemplate final : public ChatTemplate {
 public:
    JinjaTemplate(jinja::program program, std::string source, std::string bos, std::string eos)
        : program_(std::move(program)),
          source_(std::move(source)),
          bos_(std::move(bos)),
          eos_(std::move(eos)) {}

    Result<std::string> render(const std::vector<ChatMessage>& messages,
                               bool add_generation_prompt) const override {
        try {
            jinja::context context(source_);
            context.set_val("messages", list(messages));
            context.set_val("bos_token", jinja::mk_val<jinja::value_string>(bos_));
            context.set_val("eos_token", jinja::mk_val<jinja::value_string>(eos_));
            context.set_val("tools", jinja::mk_val<jinja::value_none>());
            context.set_val("add_generation_prompt",
                            jinja::mk_val<jinja::value_bool>(add_generation_prompt));
            jinja::runtime runtime(context);
            const jinja::value result = runtime.execute(program_);
            return jinja::runtime::gather_string_parts(result)->as_string().str();
        } catch (const std::exception& e) {
            return make_error(Code::invalid,
                              "the model's chat template refuses this conversation: " + reason(e));
        }
    }

 private:
    static jinja::value list(const std::vector<ChatMessage>& messages) {
        auto array = jinja::mk_val<jinja::value_array>();
        for (const ChatMessage& m : messages) {
            auto object = jinja::mk_val<jinja::value_object>();
            object->insert("role", jinja::mk_val<jinja::value_string>(m.role));
            object->insert("content", jinja::mk_val<jinja::value_string>(m.content));
            array->push_back(object);
        }
        return array;
    }

    jinja::program program_;
    std::string source_;
    std::string bos_;
    std::string eos_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::create(const std::string& source,
                                                           std::string bos, std::string eos) {
    if (source.empty()) return std::unique_ptr<ChatTemplate>(std::make_unique<Missing>());
    try {
        jinja::lexer lexer;
        const auto tokens = lexer.tokenize(source);
        jinja::program program = jinja::parse_from_tokens(tokens);
        return std::unique_ptr<ChatTemplate>(std::make_unique<JinjaTemplate>(
            std::move(program), tokens.source, std::move(bos), std::move(eos)));
    } catch (const std::exception& e) {
        return make_error(Code::invalid,
                          "the model's chat template cannot be parsed: " + reason(e));
    }
}

}  // namespace quire
