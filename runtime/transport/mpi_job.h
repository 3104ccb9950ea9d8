/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport between the processes of an MPI job (mpirun, srun), in builds with -Dmpi=enabled.
 * MPI is used only to transfer bytes from rank to rank. A rank that fails ends the job; its
 * launcher restarts the job from the last generation.
 */
#ifndef TSR_RUNTIME_TRANSPORT_MPI_JOB_H
#define TSR_RUNTIME_TRANSPORT_MPI_JOB_H

#include "runtime/transport/transport.h"

/* Starts MPI, once per process, with a second end for another thread. TSR_USAGE: built without MPI,
 * already started, or MPI without thread support. Closing it ends MPI, and after a failure the job.
 */
TSR_RESULT tsr_mpi_open(tsr_ctx *ctx, uint64_t deadline_ns, tsr_transport **out_transport);

#endif
