// The HTTP server: listens, runs one session per connection, drains.
//
// One I/O thread runs everything but what Workers do. start(), drain() and the destructor are
// called by the owner's thread; the rest from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/result.h"
#include "engine/api.h"
#include "server/port.h"
#include "server/server_options.h"

namespace quire::server {

class Server {
 public:
    // Listens and serves from here on. `engine` and `metrics` outlive it.
    // `port` was bound with these options. io: somebody else listens on it meanwhile; full: no
    // memory or threads for it.
    static Result<std::unique_ptr<Server>> start(EngineApi& engine, Metrics& metrics,
                                                 ServerOptions options, Port port);
    // Binds first: errors as Port::bind too.
    static Result<std::unique_ptr<Server>> start(EngineApi& engine, Metrics& metrics,
                                                 ServerOptions options);
    // Cuts whatever is still open.
    ~Server();

    uint16_t port() const;
    std::string url() const;  // "http://127.0.0.1:8000"
    uint32_t connections() const;

    // Stops accepting, answers /ready with 503, drains the engine within timeout_ns, then gives
    // open replies a moment to end. Blocks; called once.
    void drain(int64_t timeout_ns);

 private:
    struct Impl;
    explicit Server(std::unique_ptr<Impl> impl);
    static Result<std::unique_ptr<Server>> start_on(EngineApi& engine, Metrics& metrics,
                                                    ServerOptions options, Port port);
    std::unique_ptr<Impl> impl_;
};

}  // namespace quire::server
