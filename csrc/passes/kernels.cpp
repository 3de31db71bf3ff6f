// The kernels, compiled once for each instruction set (see isa.hpp and CMakeLists.txt).
#include "ballots.hpp"
#include "careful_lanes.hpp"
#include "elementwise.hpp"
#include "full_pass.hpp"
#include "honest_lanes.hpp"
#include "scan.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

static void full(const Pass& p, Worker& w, int64_t begin, int64_t end, Sums& sums) {
    switch (p.lanes) {
        case 2: FullPass<2>(p, w, sums).run(begin, end); break;
        case 4: FullPass<4>(p, w, sums).run(begin, end); break;
        case 8: FullPass<8>(p, w, sums).run(begin, end); break;
        case 16: FullPass<16>(p, w, sums).run(begin, end); break;
        default: FullPass<0>(p, w, sums).run(begin, end);
    }
}

template <class T>
static void scan_costs(Scan& scan, int lanes, int64_t begin, int64_t end) {
    switch (lanes) {
        case 2: scan.run<T, 2>(begin, end); break;
        case 4: scan.run<T, 4>(begin, end); break;
        case 8: scan.run<T, 8>(begin, end); break;
        default: scan.run<T, 16>(begin, end);
    }
}

static void scan(const Pass& p, Worker& w, int64_t begin, int64_t end, Sums& sums) {
    Scan scan(p, w, sums);
    switch (p.cost_bytes) {
        case 1: scan_costs<uint8_t>(scan, p.narrow_lanes, begin, end); break;
        case 2: scan_costs<uint16_t>(scan, p.narrow_lanes, begin, end); break;
        default: scan.run<uint16_t, 0>(begin, end);
    }
}

template <class T>
static double costs_of(const double* from, int64_t rows, int k, int lanes, double steps, void* to) {
    T* const costs = static_cast<T*>(to);
    switch (lanes) {
        case 2: return round_costs<T, 2>(from, rows, k, steps, costs);
        case 4: return round_costs<T, 4>(from, rows, k, steps, costs);
        case 8: return round_costs<T, 8>(from, rows, k, steps, costs);
        default: return round_costs<T, 16>(from, rows, k, steps, costs);
    }
}

static double costs(const double* from, int64_t rows, int k, int lanes, double steps, int bytes, void* to) {
    return bytes == 1 ? costs_of<uint8_t>(from, rows, k, lanes, steps, to) : costs_of<uint16_t>(from, rows, k, lanes, steps, to);
}

static void ballots(const Pass& p, Worker& w, const uint8_t* row_label, int lanes, int64_t first, int tasks) {
    switch (lanes) {
        case 2: Ballots<2>(p, w).run(row_label, first, tasks); break;
        case 4: Ballots<4>(p, w).run(row_label, first, tasks); break;
        case 8: Ballots<8>(p, w).run(row_label, first, tasks); break;
        default: Ballots<16>(p, w).run(row_label, first, tasks);
    }
}

static void recount(const Pass& p, Worker& w, int lanes, int64_t first, int tasks) {
    Lengths lengths;
    Lengths::fetch_next(p.task_ptr + first, tasks);
    lengths.sort(p.task_ptr + first, p.row, tasks);
    if (p.recount == Pass::Recount::hard) return recount_hard(p, w, lengths, first, tasks);
    switch (lanes) {
        case 2: return recount_block<2>(p, w, lengths, first);
        case 4: return recount_block<4>(p, w, lengths, first);
        case 8: return recount_block<8>(p, w, lengths, first);
        default: return recount_block<16>(p, w, lengths, first);
    }
}

template <int L>
static void judge(const Labelled& v, const Honest& h, const double* both, const HonestOut& out, int64_t begin, int64_t end, bool alone) {
    const HonestLanes<L> lanes(v, h, both);
    if (v.row_weight) lanes.template judge<true>(out, begin, end, alone);
    else lanes.template judge<false>(out, begin, end, alone);
}

static void honest(const Labelled& v, const Honest& h, const double* both, int lanes, const HonestOut& out, int64_t begin,
                   int64_t end, bool alone) {
    switch (lanes) {
        case 2: return judge<2>(v, h, both, out, begin, end, alone);
        case 4: return judge<4>(v, h, both, out, begin, end, alone);
        case 8: return judge<8>(v, h, both, out, begin, end, alone);
        default: return judge<16>(v, h, both, out, begin, end, alone);
    }
}

template <class Count>
static void sums(const WorkerCounts<Count>& in, int lanes, const WorkerSums& out, double* given, int64_t begin, int64_t end) {
    switch (lanes) {
        case 2: return sum_workers<2>(in, out, given, begin, end);
        case 4: return sum_workers<4>(in, out, given, begin, end);
        case 8: return sum_workers<8>(in, out, given, begin, end);
        default: return sum_workers<16>(in, out, given, begin, end);
    }
}

template <class Count>
static void lines(const WorkerCounts<Count>& in, int lanes, const Careful& shared, double* room, double* table, int64_t begin,
                  int64_t end) {
    switch (lanes) {
        case 2: return CarefulLines<2, Count>(in, shared).make(begin, end, room, table);
        case 4: return CarefulLines<4, Count>(in, shared).make(begin, end, room, table);
        case 8: return CarefulLines<8, Count>(in, shared).make(begin, end, room, table);
        default: return CarefulLines<16, Count>(in, shared).make(begin, end, room, table);
    }
}

#define ADJUDGE_TEXT_OF(x) #x
#define ADJUDGE_TEXT(x) ADJUDGE_TEXT_OF(x)
extern const Kernels kernels;
const Kernels kernels{ADJUDGE_TEXT(ADJUDGE_ISA), full, scan, recount, costs, ballots, honest, logs, logistics, powers, log_counts, exps, add_lines, largest,
                      {sums<int64_t>, lines<int64_t>}, {sums<double>, lines<double>}};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
