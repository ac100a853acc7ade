// The names of Boost.Asio and Beast that the server's own files share.
//
// Every operation is awaited with kAwait: errors come back as values in a tuple, nothing throws.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace quire::server {

namespace net = boost::asio;
using net::awaitable;
using net::ip::tcp;
using ErrorCode = boost::system::error_code;

inline constexpr auto kAwait = net::as_tuple(net::use_awaitable);

}  // namespace quire::server
