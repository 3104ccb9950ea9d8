/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: transport_bench shared RANKS | mpirun -n RANKS transport_bench mpi
 *
 * Collectives of RANKS processes of this host: over shared memory by Tessera, or by the MPI library
 * itself, which is what Tessera's are compared with. Each figure is the median of rounds; a round
 * is as long as its slowest rank, and every rank copies the same bytes by memcpy between rounds,
 * which is the reference. Prints a JSON object.
 */
#include "runtime/base/clock.h"
#include "runtime/transport/collective.h"
#include "runtime/transport/shared.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TSR_BENCH_MPI
#include <mpi.h>
#endif

enum { ROUNDS = 21, REPEATS = 50, SMALL = 8 };
static const size_t sizes[] = {64 << 10, 1 << 20, 16 << 20};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes };
#define LARGEST (sizes[SIZE_COUNT - 1])

typedef enum what { BARRIER, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, ALL_TO_ALL, COPY, COUNT } what;
static const char *const names[COUNT] = {"barrier",    "all_gather", "reduce_scatter",
                                         "all_reduce", "all_to_all", "copy"};

/* Whoever carries the ranks. `bytes` is the size of the whole vector on each rank. */
typedef struct carrier {
    uint32_t rank, rank_count;
    unsigned char *from, *to; /* LARGEST bytes each */
    void (*run)(struct carrier *c, what w, size_t bytes);
    double (*slowest)(struct carrier *c, double seconds); /* of all ranks */
    void *own;
} carrier;

static void stop_on(tsr_ctx *ctx, tsr_result result) {
    if (result.code == TSR_OK) return;
    fprintf(stderr, "transport_bench: %s\n", ctx->error.text);
    exit((int)result.code);
}

/* ---- by Tessera ---- */

static void run_shared(carrier *c, what w, size_t bytes) {
    tsr_ctx ctx = {0};
    tsr_transport *t = c->own;
    uint32_t n = c->rank_count, leaves[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1];
    tsr_piece sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
    bool floats = w == REDUCE_SCATTER;
    for (uint32_t r = 0; r <= n; r++) {
        leaves[r] = r;
        first[r] = bytes / n / 64 * 64 * r / (floats ? sizeof(float) : 1);
    }
    first[n] = bytes / (floats ? sizeof(float) : 1);
    for (uint32_t r = 0; r < n; r++) {
        sends[r] = (tsr_piece){c->from + bytes / n * r, bytes / n, true};
        receives[r] = (tsr_piece){c->to + bytes / n * r, bytes / n, true};
    }
    tsr_reduce_options reduce = {TSR_REDUCTION_SUM_F32, n,   leaves, c->from, bytes,
                                 bytes / sizeof(float), true};
    switch (w) {
    case BARRIER:
        stop_on(&ctx, tsr_barrier(&ctx, t));
        break;
    case ALL_GATHER:
        stop_on(&ctx, tsr_all_gather(&ctx, t, c->to, first));
        break;
    case REDUCE_SCATTER:
        stop_on(&ctx, tsr_reduce_scatter(&ctx, t, &reduce, first, c->to));
        break;
    case ALL_REDUCE:
        stop_on(&ctx, tsr_all_reduce(&ctx, t, &reduce, c->to));
        break;
    case ALL_TO_ALL:
        stop_on(&ctx, tsr_all_to_all(&ctx, t, sends, receives));
        break;
    default:
        memcpy(c->to, c->from, bytes);
        break;
    }
}

static double slowest_shared(carrier *c, double seconds) {
    tsr_ctx ctx = {0};
    double all = 0;
    uint32_t leaves[TSR_TRANSPORT_RANKS_MAX + 1];
    for (uint32_t r = 0; r <= c->rank_count; r++) leaves[r] = r;
    tsr_reduce_options reduce = {
        TSR_REDUCTION_MAX_F64, c->rank_count, leaves, &seconds, sizeof seconds, 1, false};
    stop_on(&ctx, tsr_all_reduce(&ctx, c->own, &reduce, &all));
    return all;
}

/* ---- by MPI ---- */

#ifdef TSR_BENCH_MPI
static void run_mpi(carrier *c, what w, size_t bytes) {
    int part = (int)(bytes / c->rank_count), count = (int)(bytes / sizeof(float));
    int floats = count / (int)c->rank_count;
    switch (w) {
    case BARRIER:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, c->to, part, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(c->from, c->to, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_REDUCE:
        MPI_Allreduce(c->from, c->to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_TO_ALL:
        MPI_Alltoall(c->from, part, MPI_BYTE, c->to, part, MPI_BYTE, MPI_COMM_WORLD);
        break;
    default:
        memcpy(c->to, c->from, bytes);
        break;
    }
}

static double slowest_mpi(carrier *c, double seconds) {
    (void)c;
    double all = 0;
    MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}
#endif

/* ---- measuring ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Seconds of one call; as many in a row as take a while. */
static double measure(carrier *c, what w, size_t bytes) {
    double rounds[ROUNDS];
    int repeats = bytes >= (1 << 20) ? 2 : REPEATS;
    for (int i = 0; i < ROUNDS; i++) {
        c->run(c, BARRIER, 0);
        double start = tsr_clock_seconds();
        for (int j = 0; j < repeats; j++) c->run(c, w, bytes);
        rounds[i] = c->slowest(c, (tsr_clock_seconds() - start) / repeats);
    }
    qsort(rounds, ROUNDS, sizeof *rounds, compare);
    return rounds[ROUNDS / 2];
}

static void measure_all(carrier *c, const char *name) {
    memset(c->from, 0, LARGEST);
    memset(c->to, 0, LARGEST);
    double barrier = measure(c, BARRIER, 0), small = measure(c, ALL_REDUCE, SMALL);
    if (c->rank == 0)
        printf("{\"by\": \"%s\", \"ranks\": %u, \"barrier_us\": %.2f, \"all_reduce_8_b_us\": %.2f",
               name, c->rank_count, barrier * 1e6, small * 1e6);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        double copy = measure(c, COPY, sizes[i]);
        if (c->rank == 0)
            printf(", \"%zu_kib\": {\"copy_gb_s\": %.2f", sizes[i] >> 10,
                   (double)sizes[i] / copy * 1e-9);
        for (what w = ALL_GATHER; w < COPY; w++) {
            double seconds = measure(c, w, sizes[i]);
            if (c->rank == 0)
                printf(", \"%s_gb_s\": %.2f", names[w], (double)sizes[i] / seconds * 1e-9);
        }
        if (c->rank == 0) printf("}");
    }
    if (c->rank == 0) printf("}\n");
}

/* A processor each, where there are so many, as MPI launchers do. */
static void bind_to_processor(uint32_t rank, uint32_t rank_count) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) || (uint32_t)CPU_COUNT(&all) < rank_count) return;
    for (int cpu = 0, index = -1; cpu < CPU_SETSIZE; cpu++) {
        index += CPU_ISSET(cpu, &all) != 0;
        if (index != (int)rank) continue;
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static void rank_main(int fd, uint32_t rank, uint32_t rank_count) {
    bind_to_processor(rank, rank_count);
    tsr_ctx ctx = {0};
    tsr_transport *t;
    size_t size;
    tsr_shared_join_options options = {.size_bytes = sizeof options,
                                       .fd = fd,
                                       .rank = rank,
                                       .deadline_ns = UINT64_C(60) * 1000000000u,
                                       .spin_ns = 100 * 1000};
    stop_on(&ctx, tsr_shared_join(&ctx, &options, &t));
    unsigned char *heap = tsr_shared_get_heap(t, &size);
    carrier c = {rank, rank_count, heap, heap + LARGEST, run_shared, slowest_shared, t};
    measure_all(&c, "shared memory");
    tsr_transport_close(t);
}

static int main_shared(uint32_t rank_count) {
    tsr_ctx ctx = {0};
    int fd, status, code = 0;
    tsr_shared_options options = {sizeof options, rank_count, 2 * LARGEST};
    stop_on(&ctx, tsr_shared_create(&ctx, &options, &fd));
    for (uint32_t r = 1; r < rank_count; r++) {
        if (fork() != 0) continue;
        rank_main(fd, r, rank_count);
        exit(0);
    }
    rank_main(fd, 0, rank_count);
    while (wait(&status) > 0) code |= status;
    return code != 0;
}

static int main_mpi(void) {
#ifdef TSR_BENCH_MPI
    int rank, rank_count;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
    carrier c = {.rank = (uint32_t)rank,
                 .rank_count = (uint32_t)rank_count,
                 .from = malloc(LARGEST),
                 .to = malloc(LARGEST),
                 .run = run_mpi,
                 .slowest = slowest_mpi};
    if (!c.from || !c.to) abort();
    measure_all(&c, "MPI");
    free(c.from);
    free(c.to);
    MPI_Finalize();
    return 0;
#else
    fprintf(stderr, "transport_bench: built without MPI; configure with -Dmpi=enabled\n");
    return TSR_USAGE;
#endif
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "mpi") == 0) return main_mpi();
    long rank_count = argc == 3 && strcmp(argv[1], "shared") == 0 ? strtol(argv[2], NULL, 10) : 0;
    if (rank_count < 1 || rank_count > 64) {
        fprintf(stderr,
                "usage: transport_bench shared RANKS | mpirun -n RANKS transport_bench mpi\n"
                "RANKS is 1 to 64\n");
        return TSR_USAGE;
    }
    return main_shared((uint32_t)rank_count);
}
