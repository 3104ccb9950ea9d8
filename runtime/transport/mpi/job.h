/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport between the processes of an MPI job (mpirun, srun). MPI is used only to transfer
 * bytes from rank to rank. A rank that fails ends the job; its launcher restarts the job from the
 * last generation.
 */
#ifndef TSR_RUNTIME_TRANSPORT_MPI_JOB_H
#define TSR_RUNTIME_TRANSPORT_MPI_JOB_H

#include "runtime/transport/transport.h"

typedef struct tsr_mpi_options {
    size_t size_bytes;  /* sizeof(tsr_mpi_options) */
    const char *module; /* borrowed; path of tessera-mpi.so. NULL: looks where it is installed */
    uint64_t deadline_ns, secondary_deadline_ns; /* tsr_transport.deadline_ns of each end */
} tsr_mpi_options;

/* Starts MPI, once per process, with a second end for another thread. TSR_USAGE: no module, MPI was
 * started before, or it has no thread support. Closing it ends MPI, and after a failure the job.
 */
TSR_RESULT tsr_mpi_open(tsr_ctx *ctx, const tsr_mpi_options *options,
                        tsr_transport **out_transport);

#endif
