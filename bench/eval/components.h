// Principal components of a symmetric matrix. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace quire::bench {

struct Components {
    std::vector<double> variances;  // [n] descending, never below 0
    std::vector<double> rows;       // [n][n] orthonormal; row i belongs to variance i
};

// Of a covariance [n][n], by Jacobi's rotations.
Components principal_components(std::vector<double> covariance, size_t n);

}  // namespace quire::bench
