// Port: an address that a server will listen on, taken before the server exists.
//
// Opening a model takes long and binding a port does not, so the port is bound first: a server that
// cannot have it says so at once. Until the server listens, clients are refused as if nothing were
// there. (Two programs that bind before either listens both succeed; the second learns it when it
// listens.)
#pragma once

#include <memory>

#include "base/result.h"
#include "server/server_options.h"

namespace quire::server {

class Port {
 public:
    // invalid: a host that is not loopback without keys, or not an address of this machine; io: the
    // port is in use or may not be had. The message is one line with the remedy.
    static Result<Port> bind(const ServerOptions& options);
    ~Port();
    Port(Port&& other) noexcept;
    Port& operator=(Port&& other) noexcept;

 private:
    friend class Server;
    struct Bound;  // the socket and its address
    explicit Port(std::unique_ptr<Bound> bound);
    std::unique_ptr<Bound> bound_;
};

}  // namespace quire::server
