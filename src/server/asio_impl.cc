// The one place where Asio's and Beast's own code is compiled (see CMakeLists.txt).
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
