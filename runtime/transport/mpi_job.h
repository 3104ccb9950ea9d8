/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport between the processes of an MPI job (mpirun, srun), in builds with -Dmpi=enabled.
 * MPI carries bytes from rank to rank and does nothing else. A rank that fails ends the job: its
 * launcher starts it again, from the last generation.
 */
#ifndef TSR_RUNTIME_TRANSPORT_MPI_JOB_H
#define TSR_RUNTIME_TRANSPORT_MPI_JOB_H

#include "runtime/transport/transport.h"

/* Starts MPI; once a process; with an end beside. TSR_USAGE: built without MPI, started before, or
 * an MPI without threads. Closing ends MPI, and after a failure the job. */
TSR_RESULT tsr_mpi_open(tsr_ctx *ctx, uint64_t deadline_ns, tsr_transport **out_transport);

#endif
