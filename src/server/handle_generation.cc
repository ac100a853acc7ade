// /v1/completions and /v1/chat/completions.
#include <memory>

#include "base/clock.h"
#include "server/answer.h"
#include "server/handlers.h"
#include "server/submission.h"

namespace quire::server {
namespace {

using label::Outcome;

// A request in flight: what its two ways of answering share.
struct Run {
    App& app;
    Exchange& exchange;
    EventQueue& queue;
    Answer& answer;
    RequestLatency& latency;
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

awaitable<Outcome> answer_whole(Run& run, Submission& submission) {
    std::string unused;
    while (!run.answer.finished()) {
        auto events = co_await run.queue.next(run.app.options.heartbeat_ns);
        if (run.queue.client_gone()) co_return Outcome::cancelled;
        if (auto error = take(run, submission, events, false, unused)) {
            co_await run.exchange.reply(error_reply(*error));
            co_return outcome_of_error(error->status);
        }
    }
    const bool sent = co_await run.exchange.reply(json_reply(run.answer.body()));
    co_return sent ? Outcome::completed : Outcome::cancelled;
}

// The status line waits for the first event, so that what fails before it can still be told by
// status.
awaitable<Outcome> answer_stream(Run& run, Submission& submission) {
    bool begun = false;
    while (!run.answer.finished()) {
        auto events = co_await run.queue.next(run.app.options.heartbeat_ns);
        if (run.queue.client_gone()) co_return Outcome::cancelled;
        std::string chunks = events.empty() ? ": waiting\n\n" : "";
        const auto error = take(run, submission, events, true, chunks);
        if (error && !begun) {
            co_await run.exchange.reply(error_reply(*error));
            co_return outcome_of_error(error->status);
        }
        if (!begun) {
            begun = co_await run.exchange.begin_stream("text/event-stream; charset=utf-8");
            if (!begun) co_return Outcome::cancelled;
        }
        if (error) chunks += "data: " + error_body(*error) + "\n\ndata: [DONE]\n\n";
        if (!error && run.answer.finished()) chunks += run.answer.last_chunks();
        const bool sent = co_await run.exchange.write(chunks);
        if (!sent) co_return Outcome::cancelled;
        if (error) {
            co_await run.exchange.end_stream();
            co_return outcome_of_error(error->status);
        }
    }
    const bool ended = co_await run.exchange.end_stream();
    co_return ended ? Outcome::completed : Outcome::cancelled;
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

awaitable<Outcome> refuse(Exchange& exchange, ApiError error) {
    const bool sent = co_await exchange.reply(error_reply(error));
    co_return sent ? outcome_of_error(error.status) : Outcome::cancelled;
}

awaitable<Outcome> handle(App& app, Exchange& exchange, bool chat) {
    const HttpRequest& request = exchange.request();
    if (app.draining) co_return co_await refuse(exchange, draining_error());
    auto executor = co_await net::this_coro::executor;
    auto queue = std::make_shared<EventQueue>(executor);
    const auto stop = app.stop_for(request);
    exchange.watch([queue, stop] {
        queue->set_client_gone();
        stop->client_left();
    });

    auto plan = co_await app.workers.run(
        [&] { return plan_generation(app.engine, request.body, chat, *stop); });
    if (queue->client_gone()) co_return Outcome::cancelled;
    if (!plan.ok()) co_return co_await refuse(exchange, plan.error());
    Submission submission(app.engine, queue);
    auto refused =
        co_await app.reports.run([&] { return submission.submit(plan.value(), request.tenant); });
    if (refused) co_return co_await refuse(exchange, *refused);
    Answer answer(app.engine, plan.value(), answer_settings(app, request, chat));
    RequestLatency latency(app.metrics, request.tenant, request.received_ns, answer.choice_count());
    Run run{app, exchange, *queue, answer, latency};
    if (plan.value().body.stream) co_return co_await answer_stream(run, submission);
    co_return co_await answer_whole(run, submission);
}

awaitable<void> handle_counted(App& app, Exchange& exchange, bool chat) {
    const Outcome outcome = co_await handle(app, exchange, chat);
    app.metrics.outcome(outcome);
}

}  // namespace

awaitable<void> handle_completions(App& app, Exchange& exchange) {
    return handle_counted(app, exchange, false);
}

awaitable<void> handle_chat(App& app, Exchange& exchange) {
    return handle_counted(app, exchange, true);
}

}  // namespace quire::server
