// Linear prediction of many outputs from the same inputs, regularised; inputs may be added. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace quire::bench {

class Ridge {
 public:
    // To each input's square a share of the mean square of those added with it is added.
    explicit Ridge(double share) : share_(share) {}
    // Appends n inputs. `products` [n][inputs() + n] are sums over samples of each new one's
    // products with all before and, up to itself, with the new ones.
    void extend(std::span<const double> products, size_t n);
    size_t inputs() const { return lower_.size(); }
    // Weights [inputs][outputs] that foretell the outputs best in the sense of least squares;
    // `products` [inputs][outputs] are the sums of inputs times outputs.
    std::vector<double> weights(std::vector<double> products, size_t outputs) const;

 private:
    double share_;
    std::vector<std::vector<double>> lower_;  // Cholesky's factor; row i has i + 1 numbers
};

}  // namespace quire::bench
