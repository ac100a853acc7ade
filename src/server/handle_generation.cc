// /v1/completions and /v1/chat/completions.
#include <chrono>
#include <memory>
#include <random>

#include "base/clock.h"
#include "server/answer.h"
#include "server/handlers.h"
#include "server/submission.h"

namespace quire::server {
namespace {

// A request in flight: what its two ways of answering share.
struct Run {
    App& app;
    Exchange& exchange;
    std::shared_ptr<EventQueue> queue;
    Answer answer;
    RequestLatency latency;
};

// Takes events in; the first failure among them, if any. `chunks` gets the SSE when streaming.
std::optional<ApiError> take(Run& run, Submission& submission, std::vector<ChoiceEvent>& events,
                             bool stream, std::string& chunks) {
    for (ChoiceEvent& event : events) {
        run.latency.event(event);
        if (event.event.finish != Finish::none) submission.mark_finished(event.choice);
        if (auto error = run.answer.add(event)) return error;
        if (stream) chunks += run.answer.chunk(event);
    }
    return std::nullopt;
}

awaitable<void> answer_whole(Run& run, Submission& submission) {
    std::string unused;
    while (!run.answer.finished()) {
        auto events = co_await run.queue->next(run.app.options.heartbeat_ns);
        if (run.queue->client_gone()) co_return;
        if (auto error = take(run, submission, events, false, unused)) {
            co_await run.exchange.reply(error_reply(*error));
            co_return;
        }
    }
    co_await run.exchange.reply(json_reply(run.answer.body()));
}

// The status line waits for the first event, so that what fails before it can still be told by
// status.
awaitable<void> answer_stream(Run& run, Submission& submission) {
    bool begun = false;
    while (!run.answer.finished()) {
        auto events = co_await run.queue->next(run.app.options.heartbeat_ns);
        if (run.queue->client_gone()) co_return;
        std::string chunks = events.empty() ? ": waiting\n\n" : "";
        const auto error = take(run, submission, events, true, chunks);
        if (error && !begun) {
            co_await run.exchange.reply(error_reply(*error));
            co_return;
        }
        if (!begun) {
            begun = co_await run.exchange.begin_stream("text/event-stream; charset=utf-8");
            if (!begun) co_return;
        }
        if (error) chunks += "data: " + error_body(*error) + "\n\ndata: [DONE]\n\n";
        if (!error && run.answer.finished()) chunks += run.answer.last_chunks();
        const bool sent = co_await run.exchange.write(chunks);
        if (!sent) co_return;
        if (error) break;
    }
    co_await run.exchange.end_stream();
}

Answer::Settings answer_settings(const App& app, const HttpRequest& request, bool chat) {
    Answer::Settings settings;
    settings.id = (chat ? "chatcmpl-" : "cmpl-") + random_id();
    settings.created_unix_s = system_clock().wall_ns() / kSecondNs;
    settings.fingerprint =
        "quire-" + app.options.version + "-" + app.engine.model().model_id.substr(0, 12);
    settings.hide_reasons = !app.keys.is_admin(request.tenant);
    return settings;
}

awaitable<void> handle(App& app, Exchange& exchange, bool chat) {
    const HttpRequest& request = exchange.request();
    if (app.draining) {
        co_await exchange.reply(error_reply(draining_error()));
        co_return;
    }
    auto executor = co_await net::this_coro::executor;
    auto queue = std::make_shared<EventQueue>(executor);
    exchange.watch([queue] { queue->set_client_gone(); });

    auto plan =
        co_await app.workers.run([&] { return plan_generation(app.engine, request.body, chat); });
    if (!plan.ok()) {
        co_await exchange.reply(error_reply(plan.error()));
        co_return;
    }
    if (queue->client_gone()) co_return;
    Submission submission(app.engine, queue);
    auto refused =
        co_await app.workers.run([&] { return submission.submit(plan.value(), request.tenant); });
    if (refused) {
        co_await exchange.reply(error_reply(*refused));
        co_return;
    }
    Run run{app, exchange, queue,
            Answer(app.engine, plan.value(), answer_settings(app, request, chat)),
            RequestLatency(app.metrics, request.received_ns)};
    if (plan.value().body.stream) {
        co_await answer_stream(run, submission);
    } else {
        co_await answer_whole(run, submission);
    }
    if (run.answer.finished()) run.latency.finished();
}

}  // namespace

awaitable<void> handle_completions(App& app, Exchange& exchange) {
    return handle(app, exchange, false);
}

awaitable<void> handle_chat(App& app, Exchange& exchange) {
    return handle(app, exchange, true);
}

}  // namespace quire::server
