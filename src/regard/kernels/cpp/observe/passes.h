// The three passes over a call that Python starts through native.cpp.
#pragma once
#include "../shared/parallel.h"
#include "call.h"

namespace regard {

Outcome observe(const Call& call, const ObservationPointers& results, Progress& progress);
Outcome pool_region(const Call& call, const RegionPointers& region, Progress& progress);
Outcome sum_received(const Call& call, const ReceivedPointers& received, Progress& progress);

}  // namespace regard
