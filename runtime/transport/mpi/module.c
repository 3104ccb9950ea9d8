/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-mpi.so: MPI behind the functions of module.h. It uses nothing else of Tessera.
 */
#include "runtime/transport/mpi/module.h"

#include <assert.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1 };

struct tsr_mpi_world {
    MPI_Comm comm;
};

static_assert(sizeof(MPI_Request) <= sizeof(tsr_mpi_request), "a request has room for MPI's");

static MPI_Request load(const tsr_mpi_request *request) {
    MPI_Request out;
    memcpy(&out, request, sizeof out);
    return out;
}

static void store(tsr_mpi_request *request, MPI_Request from) {
    *request = (tsr_mpi_request){0};
    memcpy(request, &from, sizeof from);
}

static int start(enum tsr_mpi_state *out_state) {
    int started = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&started);
    *out_state = TSR_MPI_TWICE;
    if (started) return MPI_SUCCESS;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    *out_state = level == MPI_THREAD_MULTIPLE ? TSR_MPI_STARTED : TSR_MPI_ONE_THREAD;
    if (code == MPI_SUCCESS && level != MPI_THREAD_MULTIPLE) MPI_Finalize();
    return code;
}

static void finish(void) { MPI_Finalize(); }

static void abort_job(int exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

static void describe(int code, char out_text[TSR_MPI_TEXT_MAX]) {
    char text[MPI_MAX_ERROR_STRING + 1] = "no memory";
    int length = (int)strlen(text);
    if (code >= 0) MPI_Error_string(code, text, &length);
    snprintf(out_text, TSR_MPI_TEXT_MAX, "%.*s", length, text);
}

static void describe_library(char out_text[TSR_MPI_TEXT_MAX]) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    snprintf(out_text, TSR_MPI_TEXT_MAX, "%.*s", (int)strcspn(text, "\n"), text);
}

static void close_world(tsr_mpi_world *world) {
    if (world && world->comm != MPI_COMM_NULL) MPI_Comm_free(&world->comm);
    free(world);
}

static int open_world(tsr_mpi_world **out_world, int *out_rank, int *out_count) {
    tsr_mpi_world *world = malloc(sizeof *world);
    if (!world) return -1;
    world->comm = MPI_COMM_NULL;
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &world->comm);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(world->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(world->comm, out_rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(world->comm, out_count);
    if (code == MPI_SUCCESS)
        *out_world = world;
    else
        close_world(world);
    return code;
}

static int send_bytes(tsr_mpi_world *world, const void *bytes, int size_bytes, int to,
                      tsr_mpi_request *out_request) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Isend(bytes, size_bytes, MPI_BYTE, to, TAG, world->comm, &request);
    store(out_request, request);
    return code;
}

static int receive_bytes(tsr_mpi_world *world, void *bytes, int size_bytes, int from,
                         tsr_mpi_request *out_request) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Irecv(bytes, size_bytes, MPI_BYTE, from, TAG, world->comm, &request);
    store(out_request, request);
    return code;
}

static int test_request(tsr_mpi_request *request, bool *out_done, int *out_size_bytes) {
    MPI_Request own = load(request);
    MPI_Status status;
    int done = 0;
    int code = MPI_Test(&own, &done, &status);
    store(request, own);
    *out_done = done != 0;
    if (code == MPI_SUCCESS && done && out_size_bytes)
        code = MPI_Get_count(&status, MPI_BYTE, out_size_bytes);
    return code;
}

extern const tsr_mpi_module tsr_mpi_functions;
__attribute__((visibility("default"))) const tsr_mpi_module tsr_mpi_functions = {
    .version = TSR_MPI_MODULE_VERSION,
    .start = start,
    .finish = finish,
    .abort = abort_job,
    .describe = describe,
    .describe_library = describe_library,
    .open = open_world,
    .close = close_world,
    .send = send_bytes,
    .receive = receive_bytes,
    .test = test_request,
};
