// The votes of one task: a few rows, kept where the task is.
//
// Most tasks have a handful of votes. Eight fit in place, so that a vote on a task far from the last one waits for one
// cache line and not for two; more go to the heap.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

namespace adjudge {

class Ballots {
public:
    Ballots() = default;
    Ballots(Ballots&& other) noexcept { swap(other); }
    Ballots& operator=(Ballots&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Ballots() {
        if (capacity_ > HERE) delete[] many_;
    }

    uint32_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const uint32_t* begin() const { return capacity_ > HERE ? many_ : few_; }
    const uint32_t* end() const { return begin() + size_; }
    uint32_t operator[](size_t i) const { return begin()[i]; }

    // Makes room for `size` rows: until then push_back allocates nothing.
    void reserve(uint32_t size) {
        while (capacity_ < size) grow();
    }
    void push_back(uint32_t row) {
        if (size_ == capacity_) grow();
        rows()[size_++] = row;
    }
    // Leaves out the rows for which `is_out` holds, and keeps the order of the others.
    template <class Test>
    void remove_if(const Test& is_out) {
        size_ = uint32_t(std::remove_if(rows(), rows() + size_, is_out) - rows());
    }

private:
    static constexpr uint32_t HERE = 8;

    uint32_t* rows() { return capacity_ > HERE ? many_ : few_; }
    void grow() {
        uint32_t* wider = new uint32_t[size_t(capacity_) * 2];
        std::copy(begin(), end(), wider);
        if (capacity_ > HERE) delete[] many_;
        many_ = wider;
        capacity_ *= 2;
    }
    void swap(Ballots& other) noexcept {
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        std::swap(few_, other.few_);  // the larger member: swaps the pointer as well
    }

    uint32_t size_ = 0, capacity_ = HERE;
    union {
        uint32_t few_[HERE] = {};
        uint32_t* many_;
    };
};

}  // namespace adjudge
