// A running server, seen through its own API.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/doctor/checks.h"

namespace quire::doctor {
namespace {

using Json = nlohmann::json;

std::string reply_text(const Result<server::ClientReply>& reply) {
    if (!reply.ok()) return reply.error().message;
    return fmt::format("HTTP {}: {}", reply->status, reply->body.substr(0, 200));
}

bool is_200(const Result<server::ClientReply>& reply) {
    return reply.ok() && reply->status == 200;
}

Finding check_health(server::HttpClient& client) {
    const auto reply = client.request("GET", "/health");
    if (is_200(reply)) return good("server", "answers");
    return failure("server", reply_text(reply),
                   "is it running? start it with quire serve MODEL.gguf, or correct --url");
}

Finding check_ready(server::HttpClient& client) {
    const auto reply = client.request("GET", "/ready");
    if (is_200(reply)) return good("ready", "takes requests");
    return warning("ready", reply_text(reply), "it is starting or shutting down; ask again");
}

Finding check_models(server::HttpClient& client) {
    const auto reply = client.request("GET", "/v1/models");
    if (reply.ok() && (reply->status == 401 || reply->status == 403))
        return failure("models", reply_text(reply), "give the server's key with --api-key");
    const Json json = is_200(reply) ? Json::parse(reply->body, nullptr, false) : Json();
    if (!json.is_object() || !json.contains("data") || !json["data"].is_array())
        return failure("models", reply_text(reply), "is this a Quire server?");
    std::string names;
    for (const Json& model : json["data"])
        names += (names.empty() ? "" : ", ") + model.value("id", std::string("?"));
    return good("models", names);
}

Finding explain(server::HttpClient& client, const std::string& prompt) {
    const Json body = {{"prompt", prompt}};
    const auto reply = client.request("POST", "/v1/cache/explain",
                                      body.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (is_200(reply)) return judge_explanation(reply->body);
    return warning("this prompt", reply_text(reply), "the server could not explain it");
}

}  // namespace

Findings check_server(server::HttpClient& client, const std::string& prompt) {
    Findings findings = {check_health(client)};
    if (findings.back().verdict == Verdict::fail) return findings;
    findings.push_back(check_ready(client));
    findings.push_back(check_models(client));
    if (findings.back().verdict == Verdict::fail) return findings;
    const auto add = [&](Findings more) {
        std::move(more.begin(), more.end(), std::back_inserter(findings));
    };
    const auto status = client.request("GET", "/v1/cache");
    if (is_200(status))
        add(judge_cache_status(status->body));
    else
        add({warning("cache", reply_text(status), "this server tells nothing about its cache")});
    const auto metrics = client.request("GET", "/metrics");
    if (is_200(metrics))
        add(judge_misses(metrics->body));
    else
        add({warning("misses", reply_text(metrics), "this server shows no metrics")});
    if (!prompt.empty()) findings.push_back(explain(client, prompt));
    return findings;
}

}  // namespace quire::doctor
