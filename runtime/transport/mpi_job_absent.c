/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/transport/mpi_job.h"

tsr_result tsr_mpi_open(tsr_ctx *ctx, uint64_t deadline_ns, tsr_transport **out_transport) {
    (void)deadline_ns;
    (void)out_transport;
    FAIL(ctx, TSR_USAGE, "built without MPI; configure with -Dmpi=enabled");
}
