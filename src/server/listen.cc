#include "server/listen.h"

#include <string>

namespace quire::server {
namespace {

Error port_error(const ErrorCode& error, const tcp::endpoint& where) {
    const std::string port = std::to_string(where.port());
    const std::string host = where.address().to_string();
    if (error == net::error::address_in_use) {
        return make_error(Code::io,
                          "port " + port + " on " + host +
                              " is in use by another program; choose another with --port N, or "
                              "--port 0 for any free one",
                          error.value());
    }
    if (error == net::error::access_denied) {
        return make_error(Code::io,
                          "port " + port + " needs privileges; choose one above 1023 with --port N",
                          error.value());
    }
    return make_error(Code::io,
                      "cannot listen on " + host + " port " + port + ": " + error.message() +
                          "; is it an address of this machine?",
                      error.value());
}

}  // namespace

Result<tcp::acceptor> listen_on(net::any_io_executor io, const ServerOptions& options) {
    ErrorCode error;
    tcp::resolver resolver(io);
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    if (error || found.empty()) {
        return make_error(Code::invalid,
                          "--host '" + options.host +
                              "' is not an address or name of this machine: " + error.message());
    }
    // A name may stand for several addresses; every one must be safe, the first is used.
    for (const auto& entry : found) {
        if (entry.endpoint().address().is_loopback() || !options.keys.empty()) continue;
        return make_error(
            Code::invalid,
            "refusing to listen on " + entry.endpoint().address().to_string() +
                " without an API key: anybody on the network could use this server; give "
                "--api-keys KEY, or listen on 127.0.0.1");
    }
    const tcp::endpoint where = found.begin()->endpoint();
    tcp::acceptor acceptor(io);
    acceptor.open(where.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(where, error);
    if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
    if (error) return port_error(error, where);
    return acceptor;
}

}  // namespace quire::server
