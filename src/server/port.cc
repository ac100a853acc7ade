#include "server/port.h"

#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "server/bound_port.h"

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

Port::Port(std::unique_ptr<Bound> bound) : bound_(std::move(bound)) {}
Port::~Port() = default;
Port::Port(Port&& other) noexcept = default;
Port& Port::operator=(Port&& other) noexcept = default;

Result<Port> Port::bind(const ServerOptions& options) {
    ErrorCode error;
    auto bound = std::make_unique<Bound>();
    tcp::resolver resolver(bound->io);
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
    bound->asked = found.begin()->endpoint();
    tcp::acceptor& socket = bound->socket;
    socket.open(bound->asked.protocol(), error);
    if (!error) socket.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) socket.bind(bound->asked, error);
    if (error) return port_error(error, bound->asked);
    return Port(std::move(bound));
}

Result<tcp::acceptor> Port::Bound::listen(net::any_io_executor on) {
    ErrorCode error;
    tcp::acceptor acceptor(on);
    const auto handle = socket.release(error);
    if (!error) acceptor.assign(asked.protocol(), handle, error);
    if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
    if (error) return port_error(error, asked);
    return acceptor;
}

}  // namespace quire::server
