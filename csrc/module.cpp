// quorate._core: the passes over votes, and the encoder that makes votes of columns.
#include "bind.hpp"

NB_MODULE(_core, m) {
    quorate::bind_passes(m);
    quorate::bind_encode(m);
}
