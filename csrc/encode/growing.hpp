// A growing array of plain values. Unlike std::vector it moves pages instead of copying them when it is large, and
// leaves new elements uninitialised.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include "pages.hpp"

namespace adjudge {

template <class T>
class Growing {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    Growing() = default;
    explicit Growing(size_t size) { resize(size); }
    Growing(Growing&& other) noexcept { swap(other); }
    Growing& operator=(Growing&& other) noexcept {
        Growing moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~Growing() { give_back(data_, capacity_ * sizeof(T)); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }

    // Makes room for `size` elements: until then growing allocates nothing.
    void reserve(size_t size) {
        if (size > capacity_) reallocate(size > 2 * capacity_ ? size : 2 * capacity_);
    }
    void resize(size_t size) {
        reserve(size);
        size_ = size;
    }
    // Returns where `count` new elements may be written; earlier pointers are void.
    T* extend(size_t count) {
        resize(size_ + count);
        return data_ + (size_ - count);
    }
    void push(T value) { *extend(1) = value; }
    // Gives back what growth took in advance.
    void shrink() {
        if (size_ < capacity_) reallocate(size_);
    }

private:
    void swap(Growing& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }
    void reallocate(size_t capacity) {
        if (capacity > static_cast<size_t>(-1) / sizeof(T)) throw std::bad_alloc();
        void* moved = regrow(data_, capacity_ * sizeof(T), capacity * sizeof(T));
        if (!moved) throw std::bad_alloc();
        data_ = static_cast<T*>(moved);
        capacity_ = capacity;
    }

    T* data_ = nullptr;
    size_t size_ = 0, capacity_ = 0;
};

}  // namespace adjudge
