#include "codec/ec/rans.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace quire::codec::ec {
namespace {

constexpr uint32_t kLow = 1u << 16;  // states are kLow or more between symbols
constexpr uint32_t kLanes = 4;

}  // namespace

RansTable::RansTable(const Frequencies& frequencies) : frequency_(frequencies) {
    uint32_t sum = 0;
    for (uint32_t s = 0; s < kSymbols; ++s) {
        QUIRE_CHECK(frequency_[s] > 0 && sum + frequency_[s] <= kProbabilities,
                    "frequencies that are no distribution");
        first_[s] = static_cast<uint16_t>(sum);
        std::fill_n(by_slot_.begin() + sum, frequency_[s], static_cast<uint8_t>(s));
        sum += frequency_[s];
    }
    QUIRE_CHECK(sum == kProbabilities, "frequencies that are no distribution");
}

RansTable::Frequencies RansTable::fit(const std::array<double, kSymbols>& counts) {
    double total = 0;
    for (const double c : counts) total += c;
    Frequencies out;
    int32_t left = kProbabilities;
    for (uint32_t s = 0; s < kSymbols; ++s) {
        const double share = total > 0 ? counts[s] / total : 1.0 / kSymbols;
        out[s] = static_cast<uint16_t>(std::max(1.0, std::floor(share * kProbabilities)));
        left -= out[s];
    }
    // What rounding left, or took too much, is the most frequent symbol's.
    uint16_t& top = *std::ranges::max_element(out);
    top = static_cast<uint16_t>(top + left);
    return out;
}

double RansTable::cost_bits(uint32_t symbol) const {
    return kProbabilityBits - std::log2(static_cast<double>(frequency_[symbol]));
}

double RansTable::entropy_bits() const {
    double bits = 0;
    for (uint32_t s = 0; s < kSymbols; ++s) bits += frequency_[s] * cost_bits(s) / kProbabilities;
    return bits;
}

void rans_encode(std::span<const CodedSymbol> symbols, std::vector<std::byte>* out) {
    std::array<uint32_t, kLanes> states;
    states.fill(kLow);
    std::vector<uint16_t> words;  // the last one first
    for (size_t i = symbols.size(); i-- > 0;) {
        const CodedSymbol& one = symbols[i];
        uint32_t& state = states[i % kLanes];
        const uint32_t frequency = one.table->frequency(one.symbol);
        // Below this the state stays in 32 bits.
        if (state >> (32 - kProbabilityBits) >= frequency) {
            words.push_back(static_cast<uint16_t>(state));
            state >>= 16;
        }
        state = (state / frequency << kProbabilityBits) + state % frequency +
                one.table->first(one.symbol);
    }
    const size_t at = out->size();
    out->resize(at + kStateBytes + 2 * words.size());
    std::memcpy(out->data() + at, states.data(), kStateBytes);
    std::ranges::reverse(words);
    if (!words.empty()) std::memcpy(out->data() + at + kStateBytes, words.data(), 2 * words.size());
}

RansReader::RansReader(std::span<const std::byte> stream) : stream_(stream) {
    states_.fill(kLow);
    if (stream.size() >= kStateBytes) std::memcpy(states_.data(), stream.data(), kStateBytes);
    short_ = stream.size() < kStateBytes;
    at_ = std::min(stream.size(), kStateBytes);
}

uint32_t RansReader::word() {
    if (stream_.size() - at_ < 2) {
        short_ = true;
        return 0;
    }
    uint16_t w;
    std::memcpy(&w, stream_.data() + at_, 2);
    at_ += 2;
    return w;
}

bool RansReader::ended_well() const {
    return !short_ && std::ranges::all_of(states_, [](uint32_t s) { return s == kLow; });
}

uint32_t RansReader::next(const RansTable& table) {
    uint32_t& state = states_[turn_++ % kLanes];
    const uint32_t slot = state & (kProbabilities - 1);
    const uint32_t symbol = table.symbol_at(slot);
    state = table.frequency(symbol) * (state >> kProbabilityBits) + slot - table.first(symbol);
    if (state < kLow) state = state << 16 | word();
    return symbol;
}

}  // namespace quire::codec::ec
