#include "server/session.h"

#include "server/exchange.h"
#include "server/routes.h"

namespace quire::server {
namespace {

awaitable<void> refuse(App& app, Connection& connection) {
    const HttpRequest nobody{.id = usable_request_id({})};
    Exchange exchange(connection, nobody, false);
    const bool sent = co_await exchange.reply(error_reply(connection.refusal()));
    app.metrics.response("", exchange.status());
    // What it still sends would reset the connection under the reply if nobody read it.
    if (sent) co_await connection.linger();
}

}  // namespace

awaitable<void> run_session(App& app, std::shared_ptr<Connection> connection) {
    for (bool more = true; more;) {
        HttpRequest request;
        const Connection::Read read = co_await connection->read_request(request);
        if (read == Connection::Read::refused) co_await refuse(app, *connection);
        if (read != Connection::Read::request) break;
        Exchange exchange(*connection, request, !app.draining);
        co_await serve_request(app, exchange, request);
        co_await connection->stop_watch();
        more =
            exchange.keep_alive() && exchange.status() != 0 && !connection->gone() && !app.draining;
    }
    connection->close();
}

}  // namespace quire::server
