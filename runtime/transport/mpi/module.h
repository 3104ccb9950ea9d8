/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of tessera-mpi.so, a module that is opened at run time: it is the only code that is
 * compiled against an MPI library, whose types differ from one to the next. So a program runs with
 * or without MPI, and with the MPI of the machine if the module was built there.
 */
#ifndef TSR_RUNTIME_TRANSPORT_MPI_MODULE_H
#define TSR_RUNTIME_TRANSPORT_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR_MPI_MODULE_VERSION = 1, TSR_MPI_TEXT_MAX = 512 };
#define TSR_MPI_MODULE_FILE "tessera-mpi.so"
#define TSR_MPI_MODULE_SYMBOL "tsr_mpi_functions"

/* Room for an MPI_Request. */
typedef struct tsr_mpi_request {
    uint64_t word;
} tsr_mpi_request;

typedef struct tsr_mpi_world tsr_mpi_world;

enum tsr_mpi_state {
    TSR_MPI_STARTED,
    TSR_MPI_TWICE,      /* this process had started MPI before */
    TSR_MPI_ONE_THREAD, /* this MPI cannot serve several threads, and was ended again */
};

/* Functions that return int return 0, or a code that `describe` knows. */
typedef struct tsr_mpi_module {
    uint32_t version; /* TSR_MPI_MODULE_VERSION; of this struct */
    /* Starts MPI for several threads. */
    int (*start)(enum tsr_mpi_state *out_state);
    void (*finish)(void);
    void (*abort)(int exit_code); /* of all processes of the job */
    void (*describe)(int code, char out_text[TSR_MPI_TEXT_MAX]);
    void (*describe_library)(char out_text[TSR_MPI_TEXT_MAX]); /* "Open MPI v4.1.4 …" */
    /* A communicator of all processes; -1: no memory. */
    int (*open)(tsr_mpi_world **out_world, int *out_rank, int *out_count);
    void (*close)(tsr_mpi_world *world); /* accepts NULL */
    int (*send)(tsr_mpi_world *world, const void *bytes, int size_bytes, int to,
                tsr_mpi_request *out_request);
    int (*receive)(tsr_mpi_world *world, void *bytes, int size_bytes, int from,
                   tsr_mpi_request *out_request);
    /* out_size_bytes: of a receive that is done, the bytes that arrived; NULL for a send. */
    int (*test)(tsr_mpi_request *request, bool *out_done, int *out_size_bytes);
} tsr_mpi_module;

#endif
