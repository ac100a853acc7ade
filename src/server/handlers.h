// The handlers behind routes.cc, grouped by file: handle_generation, handle_model, handle_tokenize,
// handle_cache, handle_probe.
#pragma once

#include "server/app.h"
#include "server/exchange.h"

namespace quire::server {

awaitable<void> handle_health(App& app, Exchange& exchange);
awaitable<void> handle_ready(App& app, Exchange& exchange);
awaitable<void> handle_version(App& app, Exchange& exchange);
awaitable<void> handle_metrics(App& app, Exchange& exchange);

awaitable<void> handle_models(App& app, Exchange& exchange);
awaitable<void> handle_model(App& app, Exchange& exchange);

awaitable<void> handle_completions(App& app, Exchange& exchange);
awaitable<void> handle_chat(App& app, Exchange& exchange);

awaitable<void> handle_tokenize(App& app, Exchange& exchange);
awaitable<void> handle_detokenize(App& app, Exchange& exchange);

awaitable<void> handle_cache_status(App& app, Exchange& exchange);
awaitable<void> handle_cache_explain(App& app, Exchange& exchange);
awaitable<void> handle_cache_flush(App& app, Exchange& exchange);

}  // namespace quire::server
