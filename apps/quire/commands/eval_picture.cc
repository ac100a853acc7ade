// The picture of `quire eval`.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/quire/commands/eval_report.h"

namespace quire::commands {
namespace {

using bench::EvalRow;

// A plot area of logarithmic divergence over bits.
class Plot {
 public:
    explicit Plot(const std::vector<EvalRow>& rows) {
        for (const EvalRow& row : rows) {
            if (!row.noise_floor) top_bits_ = std::max(top_bits_, row.bits + 0.5);
            const double kl = std::max(row.divergence.mean, kFloor);
            high_ = std::max(high_, std::ceil(std::log10(kl)));
            low_ = std::min(low_, std::floor(std::log10(kl)));
        }
        high_ = std::max(high_, low_ + 1);
    }
    double x(double bits) const { return kLeft + bits / top_bits_ * kWidth; }
    double y(double kl) const {
        return kTop + (high_ - std::log10(std::max(kl, kFloor))) / (high_ - low_) * kHeight;
    }
    std::string axes() const {
        std::string s;
        for (double e = low_; e <= high_; ++e) {
            const double at = y(std::pow(10, e));
            s += fmt::format(
                "<path d=\"M{} {:.1f}h{}\" class=\"g\"/><text x=\"{}\" y=\"{:.1f}\" "
                "text-anchor=\"end\">1e{:.0f}</text>\n",
                kLeft, at, kWidth, kLeft - 8, at + 4, e);
        }
        for (int bits = 2; bits <= top_bits_; bits += 2)
            s += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                             x(bits), kTop + kHeight + 18, bits);
        return s;
    }

    static constexpr double kFloor = 1e-8;
    static constexpr int kLeft = 70, kTop = 40, kWidth = 640, kHeight = 400;

 private:
    double top_bits_ = 1;
    double low_ = 0;
    double high_ = -8;
};

}  // namespace

std::string eval_svg(const EvalReport& report) {
    const Plot plot(report.rows);
    std::string s =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 500\" "
        "font-family=\"sans-serif\" "
        "font-size=\"12\">\n<style>.g{stroke:#ddd;fill:none}.o{fill:#1769aa}.p{fill:none;stroke:#"
        "b3261e;"
        "stroke-width:1.5}</style>\n<rect width=\"860\" height=\"500\" fill=\"#fff\"/>\n";
    s += fmt::format(
        "<text x=\"70\" y=\"24\" font-size=\"15\">{}: KL divergence to the 16-bit cache "
        "over bits a number</text>\n",
        report.model);
    s += plot.axes();
    for (const EvalRow& row : report.rows) {
        const double x = plot.x(row.bits);
        const double y = plot.y(row.divergence.mean);
        if (row.noise_floor) {
            s += fmt::format(
                "<path d=\"M{} {:.1f}h{}\" stroke=\"#555\" stroke-dasharray=\"5 4\"/>"
                "<text x=\"{}\" y=\"{:.1f}\">{}: noise of 16 bits</text>\n",
                Plot::kLeft, y, Plot::kWidth, Plot::kLeft + 4, y - 4, row.name);
            continue;
        }
        s += row.reference
                 ? fmt::format("<path class=\"p\" d=\"M{:.1f} {:.1f}l8 8m0 -8l-8 8\"/>", x - 4,
                               y - 4)
                 : fmt::format("<circle class=\"o\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", x, y);
        s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 7, y + 4, row.name);
    }
    return s + "</svg>\n";
}

}  // namespace quire::commands
