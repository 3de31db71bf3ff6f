// The kernels, compiled once for each instruction set (see isa.hpp and CMakeLists.txt).
#include "full_pass.hpp"
#include "scan.hpp"

namespace quorate {
namespace QUORATE_ISA {

static void full(const Pass& p, Worker& w, int64_t begin, int64_t end, Sums& sums) {
    switch (p.lanes) {
        case 2: FullPass<2>(p, w, sums).run(begin, end); break;
        case 4: FullPass<4>(p, w, sums).run(begin, end); break;
        case 8: FullPass<8>(p, w, sums).run(begin, end); break;
        case 16: FullPass<16>(p, w, sums).run(begin, end); break;
        default: FullPass<0>(p, w, sums).run(begin, end);
    }
}

static void scan(const Pass& p, Worker& w, int64_t begin, int64_t end, Sums& sums) {
    Scan scan(p, w, sums);
    switch (p.narrow_lanes) {
        case 2: scan.run<2>(begin, end); break;
        case 4: scan.run<4>(begin, end); break;
        case 8: scan.run<8>(begin, end); break;
        case 16: scan.run<16>(begin, end); break;
        default: scan.run<0>(begin, end);
    }
}

static void recount(const Pass& p, Worker& w, int lanes, int64_t first, int tasks) {
    Lengths lengths;
    lengths.sort(p.task_ptr + first, p.row, tasks);
    if (p.recount == Pass::Recount::hard) return recount_hard(p, w, lengths, first, tasks);
    switch (lanes) {
        case 2: return recount_block<2>(p, w, lengths, first);
        case 4: return recount_block<4>(p, w, lengths, first);
        case 8: return recount_block<8>(p, w, lengths, first);
        default: return recount_block<16>(p, w, lengths, first);
    }
}

#define QUORATE_TEXT_OF(x) #x
#define QUORATE_TEXT(x) QUORATE_TEXT_OF(x)
extern const Kernels kernels;
const Kernels kernels{QUORATE_TEXT(QUORATE_ISA), full, scan, recount};

}  // namespace QUORATE_ISA
}  // namespace quorate
